"""The pipeline's steps on the device: from edges to staged tables without a way through host memory."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cudf
import cupy as cp
import pyarrow as pa
import pylibcudf as plc
import pylibcugraph

from mbe_stage.bicliques.enumerate import Progress, RunFacts, enumerate_into
from mbe_stage.bicliques.results import CountSink
from pipeline.config import Config, InputConfig, OutputConfig
from pipeline.manifest import Counts, peak_memory_bytes
from pipeline.publish import as_publish_errors
from pipeline.query import to_query
from pipeline.rapids.buffers import kind_of
from pipeline.rapids.edge_files import load_edges, save_edges
from pipeline.rapids.edges import DeviceEdges
from pipeline.rapids.graph_facts import GraphFacts, graph_facts
from pipeline.rapids.ingest import ingest
from pipeline.rapids.memory import DevicePool, naming_the_limit
from pipeline.rapids.parquet import encoder_bytes, write_frame, write_frame_on_host
from pipeline.rapids.parts import FrameWriter
from pipeline.rapids.plan import MemoryShares, mebibytes
from pipeline.rapids.sink import DeviceParquetSink, DeviceSummary
from pipeline.rapids.tables import histogram_frame, vertex_frame
from pipeline.schemas import SIZE_HISTOGRAM, vertices
from pipeline.steps import Clock, EnumerationFacts

__all__ = ["RapidsSteps"]

log = logging.getLogger(__name__)

_NAME, _ENGINE = "rapids", "cuda"


@dataclass(frozen=True, slots=True)
class RapidsSteps:
    """See `pipeline.tiers.TierSteps`; everything is allocated from `pool`."""

    pool: DevicePool

    def ingest(self, config: InputConfig, source: object | None = None) -> DeviceEdges:
        """As `pipeline.ingest.ingest`, on the device."""
        return ingest(config, source)

    def enumerate_to(
        self,
        edges: DeviceEdges,
        config: Config,
        run_path: Path,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> EnumerationFacts:
        """Enumerate, and write every table of the run; errors are those of `pipeline.steps.enumerate_to`."""
        clock, output = Clock(), config.output
        query, graph = to_query(config.query, edges), edges.graph()
        hashes = edges.key_hashes()
        clock.lap("graph")
        vertex_facts = graph_facts(graph, output.two_hop_steps, self.pool.left_bytes() // 4)
        clock.lap("two_hop")
        known, write_file = self._encoding(output)
        shares = MemoryShares.of(self.pool.limit_bytes, **known)
        log.debug("device memory: limit %d, %s; %s", self.pool.limit_bytes, known, shares)
        execution = replace(config.execution.to_execution(), device_memory_bytes=shares.engine_bytes)
        sink = DeviceParquetSink(
            run_path,
            hashes,
            shares.writing,
            write_file,
            members=output.members,
            sort=output.sort,
        )
        clock.lap("plan")
        with sink, naming_the_limit(lambda needed: MemoryShares.smallest_limit(needed, **known)):
            facts = enumerate_into(sink, graph, query, execution, _ENGINE, on_progress)
        clock.lap("enumerate")
        clock.seconds["enumerate"] -= facts.compile_seconds + sum(sink.seconds.values())
        clock.seconds |= sink.seconds | {"compile": facts.compile_seconds}
        counts = _write_tables(run_path, edges, vertex_facts, sink.summary, write_file)
        clock.lap("tables")
        return EnumerationFacts(
            counts=counts,
            content_fingerprint=str(sink.summary.fingerprint),
            truncated=facts.truncated,
            engine=_NAME,
            device=facts.device,
            seconds=clock.seconds,
            peak_memory_bytes=peak_memory_bytes(),
            peak_device_memory_bytes=self.pool.peak_bytes(),
            versions={
                "cudf": cudf.__version__,
                "cugraph": pylibcugraph.__version__,
                "cupy": cp.__version__,
            },
            warnings=facts.warnings,
        )

    def count(
        self, edges: DeviceEdges, config: Config, on_progress: Callable[[Progress], None] | None = None
    ) -> RunFacts:
        """Enumerate, and store nothing; the facts name the tier."""
        query, graph = to_query(config.query, edges), edges.graph()
        # The other half is for what the engine does not plan to the byte.
        used, half = self.pool.used_bytes(), self.pool.left_bytes() // 2
        execution = replace(config.execution.to_execution(), device_memory_bytes=half)
        with naming_the_limit(lambda needed: used + 2 * needed):
            facts = enumerate_into(CountSink(), graph, query, execution, _ENGINE, on_progress)
        return replace(facts, engine=_NAME)

    def peak_device_memory_bytes(self) -> int:
        """Most device memory that was allocated at once so far."""
        return self.pool.peak_bytes()

    def save_edges(self, edges: DeviceEdges, directory: Path) -> None:
        """Keep the edges as files between the steps of a flow."""
        save_edges(edges, directory)

    def load_edges(self, directory: Path) -> DeviceEdges:
        """The edges that `save_edges` kept."""
        return load_edges(directory)

    def _encoding(self, output: OutputConfig) -> tuple[dict[str, Any], FrameWriter]:
        """What `MemoryShares` has to know beside the limit, the graph being there; what writes files.

        Files are encoded on the device where the limit has room for one encoder, else on the host.
        """
        limit, codec = self.pool.limit_bytes, output.compression
        needed = encoder_bytes(self.pool, codec)
        used = self.pool.used_bytes()
        known = {"used_bytes": used, "members": output.members, "sort": output.sort}
        if needed is not None and MemoryShares.least(used, needed, members=output.members) <= limit:
            return known | {"encoder_bytes": needed}, partial(write_frame, compression=codec)
        log.info(
            "encoding on the host: the limit of %s (execution.device_memory) has no room for an encoder of %s on the "
            "device; a larger limit, or another codec (output.compression), is faster",
            mebibytes(limit),
            codec,
        )
        return known | {"encoder_bytes": 0}, partial(write_frame_on_host, compression=codec)


def _write_tables(
    run_path: Path,
    edges: DeviceEdges,
    facts: GraphFacts,
    summary: DeviceSummary,
    write_file: FrameWriter,
) -> Counts:
    participation = {"left": summary.left.to_host(), "right": summary.right.to_host()}
    sizes = summary.sizes.sorted_rows()
    frames = {
        "size_histogram": (histogram_frame(sizes), SIZE_HISTOGRAM),
        "left_vertices": (
            vertex_frame(edges.left_keys, facts.left_degrees, facts.left_two_hop, participation["left"]),
            _vertex_schema(edges.left_keys),
        ),
        "right_vertices": (
            vertex_frame(edges.right_keys, facts.right_degrees, facts.right_two_hop, participation["right"]),
            _vertex_schema(edges.right_keys),
        ),
    }
    cp.cuda.get_current_stream().synchronize()
    with as_publish_errors(run_path):
        for name, (frame, schema) in frames.items():
            write_file(frame, run_path / f"{name}.parquet", schema)
    n_left, n_right, _ = sizes
    return Counts(
        bicliques=summary.fingerprint.n_items,
        left_members=summary.left_members,
        right_members=summary.right_members,
        sizes=len(n_left),
        max_left=int(n_left.max(initial=0)),
        max_right=int(n_right.max(initial=0)),
        max_edges=int(participation["left"].largest_edges.max(initial=0)),
    )


def _vertex_schema(keys: cudf.Series) -> pa.Schema:
    return vertices(pa.int64() if kind_of(keys) == plc.TypeId.INT64 else pa.string())
