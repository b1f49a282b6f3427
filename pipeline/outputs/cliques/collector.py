"""What takes the cliques of a run to its tables, on every backend: in host memory, in threads beside the engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.cliques.ordering import degeneracy_order
from mbe_stage.cliques.results import CliqueBlock, CliqueHistogramSink, Detail
from mbe_stage.tasks import Task
from pipeline.backends.arrow.block_writer import BlockWriter
from pipeline.backends.arrow.hashes import key_hashes
from pipeline.backends.arrow.kept_rows import KeptRows
from pipeline.backends.arrow.parts import write_table
from pipeline.outputs.cliques.query import side_of
from pipeline.outputs.cliques.schemas import CLIQUES
from pipeline.outputs.cliques.tables import block_of, canonical_order, clique_batch, histogram_table, vertex_table
from pipeline.publication import Collected, Collecting
from pipeline.publish import as_publish_errors

__all__ = ["CliqueCollector", "Summary", "clique_keys"]


def clique_keys(block: CliqueBlock, hashes: np.ndarray) -> np.ndarray:
    """The key of every clique of a block, (n,) int64: that of a biclique with these left vertices and no right one.

    Parameters
    ----------
    block : CliqueBlock
        At `Detail.MEMBERS`.
    hashes : (n,) uint64
        Vertex hash of each key as a left one, whatever column it is from.
    """
    none = np.zeros(block.n_cliques, np.int32)
    members = BicliqueBlock(block.n_cliques, block.sizes, none, block.members, np.empty(0, np.int32))
    return biclique_keys(members, hashes, hashes)


class Summary:
    """What is known of all cliques after they have streamed past; blocks may come from several threads.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : CliqueHistogramSink
    vertices : VertexStatistics
        Its edges are sizes of cliques.
    members : int
        Summed over all cliques.
    """

    def __init__(self, n_vertices: int) -> None:
        self.fingerprint, self.sizes = Fingerprint(), CliqueHistogramSink()
        self.vertices = VertexStatistics.of(n_vertices)
        self.members = 0
        self._lock = threading.Lock()

    def add(self, block: CliqueBlock, keys: np.ndarray) -> None:
        """Take in one block and the keys of its cliques."""
        assert block.sizes is not None
        assert block.members is not None
        with self._lock:
            self.fingerprint.add(keys)
            self.sizes.accept(block)
            self.vertices.add(block.sizes, block.members, block.sizes.astype(np.int64), keys)
            self.members += block.members.size


class CliqueCollector:
    """See `pipeline.publication.Collector`."""

    shares = None

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, collecting: Collecting) -> None:
        config, side = collecting.config, side_of(collecting.config.asked)
        self._collecting = collecting
        edges = collecting.edges.to_host()
        self._keys: pa.Array = edges.left_keys if side == "left" else edges.right_keys
        self._hashes = edges.key_hashes()[0] if side == "left" else key_hashes(self._keys, "left")
        self.summary = Summary(len(self._keys))
        self._kept = KeptRows(collecting.journal, collecting.run_path, "cliques")
        order = canonical_order(self._kept.scratch) if config.output.sort else None
        for batch in self._kept.taken_back(order):
            self._take_in(*block_of(batch))
        self._writer = BlockWriter(
            collecting.run_path,
            {"cliques": CLIQUES},
            self._rows,
            lambda batch: [batch],
            compression=config.output.compression,
            order=order,
            block_bytes=config.execution.block_bytes,
            memory_budget=config.execution.memory_budget,
            is_begun=self._kept.is_begun,
        )

    @property
    def seconds(self) -> dict[str, float]:
        """``write``: what the engine waited for."""
        return {"write": self._writer.seconds}

    def accept(self, block: CliqueBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self._writer.check()
        if block.n_cliques:
            assert block.members is not None
            self._writer.accept(block, block.members.nbytes)

    @property
    def checkpoint(self) -> Callable[[Sequence[Task], float], None] | None:
        """As `mbe_stage.stream.Sink` says; None where nobody keeps a journal."""
        return None if self._collecting.journal is None else self._book

    def _book(self, remaining: Sequence[Task], work_done: float) -> None:
        # Where nothing is left the run ends now, and publishes.
        if remaining:
            self._writer.settle()
            self._kept.book(self._writer, remaining, work_done, self.summary.fingerprint.n_items)

    def __enter__(self) -> CliqueCollector:
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def _rows(self, block: CliqueBlock) -> pa.RecordBatch:
        keys = clique_keys(block, self._hashes)
        self._take_in(block, keys)
        return clique_batch(block, keys)

    def _take_in(self, block: CliqueBlock, keys: np.ndarray) -> None:
        self.summary.add(block, keys)
        for each in self._collecting.derived:
            each.accept(block, keys)

    def finish(self) -> Collected:
        """Write the table of vertices and the size histogram; once, after the context was left.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        start = time.perf_counter()
        run_path, compression = self._collecting.run_path, self._collecting.config.output.compression
        graph, summary = _on_host(self._collecting.graph), self.summary
        _, cores = degeneracy_order(graph)
        tables = {
            "vertices.parquet": vertex_table(self._keys, graph.degrees, cores, summary.vertices),
            "size_histogram.parquet": histogram_table(summary.sizes.counts),
        }
        with as_publish_errors(run_path):
            for name, table in tables.items():
                write_table(table, run_path / name, compression)
        self._writer.seconds += time.perf_counter() - start
        return Collected(
            counts={
                "cliques": summary.fingerprint.n_items,
                "members": summary.members,
                "sizes": len(summary.sizes.counts),
                "max_size": max(summary.sizes.counts, default=0),
                "vertices": graph.n,
                "edges": graph.n_edges,
                "degeneracy": int(cores.max(initial=0)),
            },
            content_fingerprint=str(summary.fingerprint),
        )


def _on_host(graph: Any) -> Any:
    return graph if graph.is_on_host else type(graph)(graph.n, graph.offsets.get(), graph.members.get())
