"""The pipeline as plain functions, each from paths and small values to paths and small values.

`pipeline.run` strings them together in one process; a flow runs them as tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mbe_stage.bicliques.enumerate import Progress, enumerate_into
from mbe_stage.compile_ahead import compile_ahead
from mbe_stage.engines import AUTO
from mbe_stage.graphs.bipartite import BipartiteCSR
from pipeline.config import Config
from pipeline.edge_files import load_edges, save_edges
from pipeline.edges import EdgeData, InputFacts
from pipeline.errors import PublishError
from pipeline.ids import key_hashes
from pipeline.manifest import (
    Counts,
    Manifest,
    config_fingerprint,
    file_entries,
    file_entry,
    lost_file,
    peak_memory_bytes,
    read_manifest,
    software_versions,
    write_manifest,
)
from pipeline.parquet_parts import write_table
from pipeline.parquet_sink import ParquetSink
from pipeline.publish import RunStore, as_publish_errors, synced_beside
from pipeline.query import to_query
from pipeline.summary import Summary
from pipeline.tables import histogram_table, vertex_table
from pipeline.two_hop import TwoHopDegrees, two_hop_beside

__all__ = ["Clock", "EnumerationFacts", "enumerate_to", "find_unchanged", "finish", "load_edges", "save_edges"]

log = logging.getLogger(__name__)


class EnumerationFacts(BaseModel):
    """What `enumerate_to` did; small, and as JSON with `model_dump_json`.

    Attributes
    ----------
    counts : Counts
    content_fingerprint : str
        Equal for two runs exactly when they hold the same bicliques.
    truncated : str or None
    engine, device : str
    seconds : dict
        Steps ``compile``, ``graph``, ``enumerate``, ``write``, ``two_hop`` and ``tables``; ``name`` too where keys and
        sums are made on a device.
    peak_memory_bytes : int
    peak_device_memory_bytes : int or None
        None where no device was used, or its memory not followed.
    versions : dict
        Software that only this tier uses.
    warnings : tuple of str
        As `mbe_stage.bicliques.enumerate.RunFacts.warnings`, and what else the tier had to do otherwise than asked.
    """

    model_config = ConfigDict(frozen=True)

    counts: Counts
    content_fingerprint: str
    truncated: str | None
    engine: str
    device: str
    seconds: dict[str, float]
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None = None
    versions: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


def enumerate_to(
    edges: EdgeData,
    config: Config,
    run_path: Path,
    on_progress: Callable[[Progress], None] | None = None,
    engine: str | None = None,
) -> EnumerationFacts:
    """Enumerate, and write every table of the run into its staging path.

    Parameters
    ----------
    edges : EdgeData
    config : Config
    run_path : Path
        `Staging.path`: an empty directory.
    on_progress : callable, optional
        Called after every block.
    engine : str, optional
        What `config.execution.engine` came to, where that has been decided already. Where it is ``auto``, another
        engine may still take over, as in `mbe_stage.enumerate_into`; the facts say which ran.

    Raises
    ------
    InputError
        A `containing` key is not in the graph.
    EngineUnavailable, MemoryBudgetExceeded
        As `mbe_stage.enumerate_into`.
    PublishError
        The tables cannot be written.
    """
    clock = Clock()
    query = to_query(config.query, edges)
    graph = edges.graph()
    hashes = key_hashes(edges.left_keys, "left"), key_hashes(edges.right_keys, "right")
    clock.lap("graph")
    output, execution = config.output, config.execution.to_execution()
    sink = ParquetSink(
        run_path,
        *hashes,
        compression=output.compression,
        members=output.members,
        sort=output.sort,
        block_bytes=execution.block_bytes,
    )
    with two_hop_beside(graph, output.two_hop_steps, execution) as two_hop:
        clock.lap("two_hop")
        with sink:
            facts = enumerate_into(
                sink,
                graph,
                query,
                execution,
                engine or config.execution.engine,
                on_progress,
                chosen_by_auto=config.execution.engine == AUTO,
            )
        clock.lap("enumerate")
        # The sink ran beside the engine; only the time that the engine waited for it counts as writing.
        waited = clock.seconds["enumerate"] - facts.compile_seconds - facts.seconds + facts.sink_seconds
        clock.seconds["enumerate"] -= facts.compile_seconds + waited
        clock.seconds["compile"] = facts.compile_seconds
        clock.seconds["write"] = waited
        planned = clock.seconds["two_hop"]
        two_hop_degrees = two_hop()
    clock.lap("two_hop")
    clock.seconds["two_hop"] += planned
    counts = _write_tables(run_path, edges, graph, two_hop_degrees, sink.summary, output.compression)
    clock.lap("tables")
    return EnumerationFacts(
        counts=counts,
        content_fingerprint=str(sink.summary.fingerprint),
        truncated=facts.truncated,
        engine=facts.engine,
        device=facts.device,
        seconds=clock.seconds,
        peak_memory_bytes=peak_memory_bytes(),
        warnings=facts.warnings,
    )


def finish(
    run_path: Path,
    input_facts: InputFacts,
    config: Config,
    facts: EnumerationFacts,
    seconds: Mapping[str, float] | None = None,
    store: RunStore | None = None,
) -> Manifest:
    """Write the report, the checksums and, last, the manifest; afterwards the run can be published.

    Parameters
    ----------
    run_path : Path
        Where `enumerate_to` wrote; its name is the run id until `Staging.publish` gives the final one.
    input_facts : InputFacts
    config : Config
    facts : EnumerationFacts
    seconds : mapping, optional
        Of earlier steps, such as ``read``; those of a step that `facts` has too are added.
    store : RunStore, optional
        Where the run will be published, and where the run is that it is compared with; without it nothing is compared.

    Raises
    ------
    PublishError
        The files cannot be written.
    """
    clock = Clock()
    # The tables are complete: they go to the disk while they are summed up.
    with as_publish_errors(run_path), synced_beside(run_path):
        files = file_entries(run_path)
        clock.lap("checksums")
        manifest = Manifest(
            run_id=run_path.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            config=config,
            config_fingerprint=config_fingerprint(config),
            input=input_facts,
            content_fingerprint=facts.content_fingerprint,
            versions=software_versions() | facts.versions,
            engine=facts.engine,
            device=facts.device,
            counts=facts.counts,
            seconds=_with_total(_summed(seconds or {}, facts.seconds, clock.seconds)),
            peak_memory_bytes=max(facts.peak_memory_bytes, peak_memory_bytes()),
            peak_device_memory_bytes=facts.peak_device_memory_bytes,
            truncated=facts.truncated,
            warnings=(*input_facts.warnings, *facts.warnings),
            files=files,
        )
        if store is not None and config.output.compare:
            manifest = _with_comparison(store, run_path, manifest)
        if config.output.report:
            manifest = _with_report(run_path, manifest, config.output.top)
        write_manifest(run_path, manifest)
    return manifest


def find_unchanged(store: RunStore, input_facts: InputFacts, config: Config) -> Path | None:
    """The latest run, if a new one would publish the same: the same edges, and a configuration that asks the same.

    A run that a time limit cut short does not count (another attempt may get further), nor does one that has lost
    files since.
    """
    latest = store.latest()
    if latest is None:
        return None
    try:
        manifest = read_manifest(latest)
    except PublishError as error:
        log.warning("the latest run cannot be compared with: %s", error)
        return None
    if manifest.truncated is not None and manifest.config.execution.time_limit_seconds is not None:
        return None
    same_input = manifest.input.fingerprint == input_facts.fingerprint
    same_config = manifest.config_fingerprint == config_fingerprint(config)
    return latest if same_input and same_config and lost_file(latest, manifest) is None else None


def _write_tables(
    run_path: Path,
    edges: EdgeData,
    graph: BipartiteCSR,
    two_hop: TwoHopDegrees,
    summary: Summary,
    compression: str,
) -> Counts:
    histogram = histogram_table(summary.sizes)
    tables = {
        "left_vertices.parquet": vertex_table(edges.left_keys, graph.left_degrees, two_hop[0], summary.left),
        "right_vertices.parquet": vertex_table(edges.right_keys, graph.right_degrees, two_hop[1], summary.right),
        "size_histogram.parquet": histogram,
    }
    with as_publish_errors(run_path), ThreadPoolExecutor(len(tables)) as pool:
        written = [pool.submit(write_table, table, run_path / name, compression) for name, table in tables.items()]
        for table in written:
            table.result()
    n_left, n_right, _ = summary.sizes.sorted_rows()
    return Counts(
        bicliques=summary.fingerprint.n_items,
        left_members=summary.left_members,
        right_members=summary.right_members,
        sizes=histogram.num_rows,
        max_left=int(n_left.max(initial=0)),
        max_right=int(n_right.max(initial=0)),
        max_edges=int(summary.left.largest_edges.max(initial=0)),
    )


def _with_comparison(store: RunStore, run_path: Path, manifest: Manifest) -> Manifest:
    from pipeline.comparison import compare_with_last
    from pipeline.diff import compile_steps

    clock, compiling = Clock(), 0.0

    def compile_first() -> None:
        nonlocal compiling
        compiling = compile_ahead(compile_steps())

    comparison = compare_with_last(store, run_path, manifest, compile_first)
    clock.lap("compare")
    spent = {"compare": max(0.0, clock.seconds["compare"] - compiling)} | ({"compile": compiling} if compiling else {})
    return manifest.model_copy(
        update={"comparison": comparison, "seconds": _with_total(_summed(manifest.seconds, spent, {}))}
    )


def _with_report(run_path: Path, manifest: Manifest, top: int) -> Manifest:
    from pipeline.report import write_report

    clock = Clock()
    report = write_report(run_path, manifest, top)
    clock.lap("report")
    return manifest.model_copy(
        update={
            "files": (*manifest.files, file_entry(run_path, report)),
            "seconds": _with_total({**manifest.seconds, **clock.seconds}),
            "peak_memory_bytes": max(manifest.peak_memory_bytes, peak_memory_bytes()),
        }
    )


def _summed(*parts: Mapping[str, float]) -> dict[str, float]:
    """Seconds by step, in the order in which the steps first come."""
    steps: dict[str, float] = {}
    for part in parts:
        for step, seconds in part.items():
            steps[step] = steps.get(step, 0.0) + seconds
    return steps


def _with_total(seconds: Mapping[str, float]) -> dict[str, float]:
    steps = {step: round(value, 6) for step, value in seconds.items() if step != "total"}
    return {**steps, "total": round(sum(steps.values()), 6)}


class Clock:
    """Wall time step by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now
