"""The steps of the pipeline, written once for every backend and engine.

`pipeline.run` runs them in one process; a flow runs them as tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mbe_stage.engines import AUTO, choose_engine
from mbe_stage.errors import STOPPED_BY_MEMORY
from mbe_stage.options import Execution, Runner
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.backend import Backend
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config, ExecutionConfig, InputConfig
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import Journal, booked_entries
from mbe_stage.pipeline.execution.output_limit import output_limit
from mbe_stage.pipeline.execution.signals import sigterm_checkpoint
from mbe_stage.pipeline.execution.worker_stats import WorkerStats, worker_stats_of
from mbe_stage.pipeline.problems.base import Collecting, Completed, Completing, ResultText
from mbe_stage.pipeline.problems.derived import derived_collectors
from mbe_stage.pipeline.problems.installed import derived_of, inputs_of, publication_of
from mbe_stage.pipeline.problems.result_text import searched_graph
from mbe_stage.pipeline.problems.searched_graph import SearchedGraph
from mbe_stage.pipeline.publish.manifest import (
    Manifest,
    config_fingerprint,
    file_entries,
    file_entry,
    lost_file,
    peak_memory_bytes,
    question,
    read_manifest,
    software_versions,
    write_manifest,
)
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.staging import Store, synced_beside
from mbe_stage.pipeline.publish.stored_parts import forget_stored, with_stored
from mbe_stage.problem import problem_named
from mbe_stage.run_limits import RunLimits
from mbe_stage.runners.clusters import dask_cluster
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.runtime.compile_ahead import summed
from mbe_stage.stream import Listener, Progress, Sink, StreamFacts, stream, wants_outlook

__all__ = ["Clock", "Counted", "EnumerationFacts", "Steps", "collect_to", "count", "enumerate_to", "find_unchanged"]
__all__ += ["finish", "load_edges", "opened_runner", "save_edges"]

log = logging.getLogger(__name__)


class EnumerationFacts(BaseModel):
    """The facts of an `enumerate_to` call; small, and convertible to JSON with `model_dump_json`.

    Attributes
    ----------
    counts : dict
        As in the manifest.
    content_fingerprint : str
        Equal for two runs if and only if they hold the same results.
    derived : dict of dict
        Counts of the derived outputs.
    seconds : dict
        Steps ``load``, ``graph``, ``enumerate``, ``write``, ``two_hop`` and ``tables``; and ``name`` if keys and sums
        are made on a device.
    made_of : str or None
        As in the manifest.
    peak_device_memory_bytes : int or None
        None if no device was used or its memory is not tracked.
    ranks : WorkerStats or None
        As in the manifest.
    versions : dict
        Software that only this tier uses.
    warnings : tuple of str
        As `mbe_stage.stream.StreamFacts.warnings`, with the tier's own deviations from the configuration.
    seen : optional
        As of `pipeline.problems.base.Collected`; not in the JSON.
    """

    model_config = ConfigDict(frozen=True)

    counts: dict[str, int | float | str | None]
    content_fingerprint: str
    derived: dict[str, dict[str, int]] = {}
    truncated: str | None
    engine: str
    device: str
    seconds: dict[str, float]
    peak_memory_bytes: int
    made_of: str | None = None
    peak_device_memory_bytes: int | None = None
    ranks: WorkerStats | None = None
    versions: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    seen: Any = Field(default=None, exclude=True, repr=False)


def enumerate_to(
    edges: Any,
    config: Config,
    run_path: Path,
    on_progress: Callable[[Any], None] | None = None,
    engine: str | None = None,
    backend: Backend = ARROW,
    journal: Journal | None = None,
) -> EnumerationFacts:
    """Enumerate, and write every table of the run into its staging path.

    Parameters
    ----------
    edges
        Of the backend's own type: `EdgeData` in host memory.
    run_path : Path
        `Staging.path`: an empty directory.
    on_progress : callable, optional
        Called after every block with the result of `Publication.progress`.
    engine : str, optional
        The decision on `config.execution.engine`, if already made. If the latter is ``auto``, another engine may still
        take over, as in `mbe_stage.enumerate_into`; the facts say which ran.
    backend : Backend, optional
        Holds the tables: in host memory by default.
    journal : Journal, optional
        Records finished tasks every `output.checkpoint_seconds`. Tasks already in it are not searched again, and
        `run_path` holds their files.

    Raises
    ------
    InputError
        A `containing` key is not in the graph.
    EngineUnavailable, MemoryBudgetExceeded
        As `mbe_stage.enumerate_into`.
    PublishError
        The tables cannot be written.
    """

    def search(sink: Sink, graph: Any, query: Any, execution: Execution) -> StreamFacts:
        full = output_limit(config, run_path, journal)
        with sigterm_checkpoint(0.0 if journal is None else config.execution.grace_seconds) as checkpoint:
            run_limits = RunLimits(
                checkpoint_seconds=None if journal is None else config.output.checkpoint_seconds,
                n_before=0 if journal is None else journal.n_found,
                ended=lambda: checkpoint.ended() or full(),
                share=full.share,
                patience=checkpoint.patience,
                # Sums at that moment may cover only some of the results.
                memory_is_a_limit=publication_of(config.problem).numbers is None,
            )
            facts = _streamed(config, sink, graph, query, execution, engine, on_progress, journal, run_limits)
            if facts.truncated is None:
                # The search is complete: publish it.
                checkpoint.is_requested = False
            return facts

    return collect_to(edges, config, run_path, search, backend, on_progress=on_progress, journal=journal)


@run_state.at_step("enumerate")
def collect_to(
    edges: Any,
    config: Config,
    run_path: Path,
    find: Callable[[Sink, Any, Any, Execution], StreamFacts],
    backend: Backend = ARROW,
    step: str = "enumerate",
    on_progress: Callable[[Any], None] | None = None,
    journal: Journal | None = None,
) -> EnumerationFacts:
    """Collect results from any source, as `enumerate_to` does.

    Parameters
    ----------
    find : callable
        Takes a sink, the graph, the problem's query and the execution limits; sends every result to the sink and
        returns the facts.
    step : str
        Name of its time in `EnumerationFacts.seconds`.
    on_progress : callable, optional
        Called with the progress of searches by derived outputs (`Collecting.on_progress`).
    """
    clock, publication = Clock(), publication_of(config.problem)
    # Parts of an earlier attempt do not count: those in the journal are local by now.
    forget_stored(run_path)
    with run_state.at_part("building the graph"):
        query, graph = publication.query(config.problem_section, edges), publication.graph(config, edges)
    clock.lap("graph")
    collecting = Collecting(run_path, config, edges, graph, backend, on_progress=on_progress, journal=journal)
    with ExitStack() as ends:
        # Exits after the collector, which sends waiting results to the derived outputs when it exits.
        derived = tuple(ends.enter_context(each) for each in derived_collectors(collecting))
        # Steps of derived outputs before the search.
        before = {name: spent for each in derived for name, spent in each.seconds.items()}
        collector = publication.collector(replace(collecting, derived=derived))
        with collector:
            # In chronological order.
            clock.seconds |= {**before, **{step: spent for step, spent in collector.seconds.items() if spent}}
            wanted = config.execution.to_execution()
            if elsewhere := sum(each.elsewhere_seconds for each in derived):
                limit = wanted.time_limit_seconds or 0.0
                wanted = replace(wanted, time_limit_seconds=max(limit - elsewhere, limit / 1000), stated_seconds=limit)
            with backend.budget(wanted, collector.shares) as execution:
                facts = find(collector, graph, query, execution)
        clock.lap(step)
        # The engine's waiting time is not its own time.
        clock.seconds[step] -= facts.compile_seconds + sum(collector.seconds.values()) + sum(before.values())
        clock.seconds |= {**facts.prepared, **collector.seconds}
        collected = collector.finish()
        counts_of_derived = {each.name: each.finish() for each in derived}
    clock.lap("tables")
    of_derived = {name: spent for each in derived for name, spent in each.seconds.items() if name not in before}
    clock.seconds["tables"] -= sum(of_derived.values())
    clock.seconds |= of_derived
    return EnumerationFacts(
        counts=dict(collected.counts),
        content_fingerprint=collected.content_fingerprint,
        seen=collected.seen,
        derived=counts_of_derived,
        truncated=facts.truncated,
        engine=backend.engine_name(facts.engine),
        device=facts.device,
        seconds=clock.seconds,
        peak_memory_bytes=peak_memory_bytes(),
        peak_device_memory_bytes=backend.peak_device_memory_bytes(),
        ranks=worker_stats_of(facts),
        versions=backend.versions(),
        warnings=(*facts.warnings, *([warning] if journal is not None and (warning := journal.warning()) else ())),
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of `count`; `result_text` is None if the number of results is the whole result."""

    facts: StreamFacts
    graph: SearchedGraph
    result_text: ResultText | None = None


@run_state.at_step("enumerate")
def count(
    edges: Any,
    config: Config,
    on_progress: Callable[[Any], None] | None = None,
    engine: str | None = None,
    backend: Backend = ARROW,
) -> Counted:
    """Enumerate without storing anything; parameters and errors are those of `enumerate_to`."""
    publication = publication_of(config.problem)
    numbers = publication.numbers
    query, graph = publication.query(config.problem_section, edges), publication.graph(config, edges)
    sink = publication.count_sink() if numbers is None else numbers.sink(query)
    with backend.budget(config.execution.to_execution()) as execution:
        facts = _streamed(config, sink, graph, query, execution, engine, on_progress)
    facts = replace(facts, engine=backend.engine_name(facts.engine))
    text = None
    if numbers is not None:
        degrees = edges.degrees or (graph.left_degrees, graph.right_degrees)
        text = numbers.result_text(sink, config, degrees, facts.truncated)
    return Counted(facts, searched_graph(config, edges.facts, graph), text)


def _streamed(
    config: Config,
    sink: Sink,
    graph: Any,
    query: Any,
    execution: Execution,
    engine: str | None,
    on_progress: Callable[[Any], None] | None,
    journal: Journal | None = None,
    run_limits: RunLimits | None = None,
) -> StreamFacts:
    """Search the configured problem into a sink.

    Parameters
    ----------
    engine : str or None
        Used instead of the configured one.
    on_progress : callable or None
        Called with the publication's form of `Progress`.
    journal : Journal, optional
        Tasks recorded there are not searched again.
    """
    described = publication_of(config.problem).progress
    n_before, work_before = (0, 0.0) if journal is None else (journal.n_found, journal.work_done)

    def note(progress: Progress) -> None:
        if on_progress is not None:
            work_done = work_before + (1.0 - work_before) * progress.work_done
            on_progress(described(replace(progress, n_found=n_before + progress.n_found, work_done=work_done)))

    chosen = engine or config.execution.engine
    if config.execution.runner != "local":
        # The input is read, but a cluster may take a while to start.
        note(Progress(0, 0.0, 0.0, ""))
    with opened_runner(config.execution, config.problem, chosen) as runner, run_state.at_part("preparing the search"):
        return stream(
            problem_named(config.problem),
            sink,
            graph,
            query,
            replace(execution, runner=runner),
            chosen,
            None if on_progress is None else Listener(note, wants_outlook(on_progress)),
            chosen_by_auto=config.execution.engine == AUTO and config.execution.devices is None,
            tasks=None if journal is None else journal.remaining(),
            run_limits=run_limits or RunLimits(),
        )


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run with its backend and engine.

    Edges are of the backend's own type, and only go to steps of the same backend.
    """

    backend: Backend
    engine: str

    @run_state.at_step("read")
    def ingest(self, config: InputConfig, source: object | None = None) -> Any:
        """Call `pipeline.execution.ingest.ingest`."""
        return ingest(config, source, self.backend)

    def enumerate_to(
        self,
        edges: Any,
        config: Config,
        run_path: Path,
        on_progress: Callable[[Any], None] | None = None,
        journal: Journal | None = None,
    ) -> EnumerationFacts:
        """Call `enumerate_to`."""
        return enumerate_to(edges, config, run_path, on_progress, self.engine, self.backend, journal)

    def count(self, edges: Any, config: Config, on_progress: Callable[[Any], None] | None = None) -> Counted:
        """Call `count`; the facts name the tier, or the engine that took over."""
        return count(edges, config, on_progress, self.engine, self.backend)

    def save_edges(self, edges: Any, directory: Path) -> None:
        """Save the edges as files between the steps of a flow."""
        save_edges(edges.to_host(), directory)

    def load_edges(self, directory: Path) -> Any:
        """Load the edges that `save_edges` saved."""
        return self.backend.from_host(load_edges(directory))

    def peak_device_memory_bytes(self) -> int | None:
        """Return the most device memory allocated at once so far; None if it is not tracked."""
        return self.backend.peak_device_memory_bytes()


@run_state.at_step("write")
def finish(
    run_path: Path,
    input_facts: InputFacts,
    config: Config,
    facts: EnumerationFacts,
    seconds: Mapping[str, float] | None = None,
    store: Store | None = None,
) -> Manifest:
    """Write the report, the checksums and, last, the manifest; afterwards the run can be published.

    Parameters
    ----------
    run_path : Path
        The directory that `enumerate_to` wrote; its name is the run id until `Staging.publish` gives the final one.
    seconds : mapping, optional
        Times of earlier steps, such as ``read``; times of a step that is also in `facts` are added.
    store : Store, optional
        Where the run will be published, and where the run to compare with is; without it nothing is compared.

    Raises
    ------
    PublishError
        The files cannot be written.
    """
    clock = Clock()
    # The tables are complete: sync them to disk while checksums are computed.
    with as_publish_errors(run_path):
        completed = _completed(run_path, config, input_facts, facts, store if config.output.compare else None)
        clock.lap("tables")
        clock.seconds = _without(clock.seconds, "tables", summed(*(each.prepared for each in completed.values())))
    with as_publish_errors(run_path), synced_beside(run_path):
        files = with_stored(run_path, file_entries(run_path, booked_entries(run_path)))
        clock.lap("checksums")
        manifest = Manifest(
            schema_version=question(config)["schema_version"],
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
            derived={
                name: {**counts, **(completed[name].counts if name in completed else {})}
                for name, counts in facts.derived.items()
            },
            derived_inputs={name: dict(each.inputs) for name, each in completed.items() if each.inputs},
            derived_comparison={
                name: each.comparison for name, each in completed.items() if each.comparison is not None
            },
            seconds=_with_total(summed(seconds or {}, facts.seconds, clock.seconds)),
            peak_memory_bytes=max(facts.peak_memory_bytes, peak_memory_bytes()),
            peak_device_memory_bytes=facts.peak_device_memory_bytes,
            ranks=facts.ranks,
            truncated=facts.truncated,
            made_of=facts.made_of,
            warnings=(
                *input_facts.warnings,
                *facts.warnings,
                *(text for each in completed.values() for text in each.warnings),
            ),
            files=files,
        )
        if store is not None and config.output.compare:
            manifest = _with_comparison(store, run_path, manifest)
        if config.output.report:
            manifest = _with_report(run_path, manifest, facts.seen)
        write_manifest(run_path, manifest)
    run_state.state.result = manifest
    return manifest


def find_unchanged(store: Store, input_facts: InputFacts, config: Config) -> Path | None:
    """Return the latest run if a new one would publish the same: same edges, other input files and query.

    A run that was cut short by time or memory does not count, because another attempt may get further. A run that has
    lost files does not count either.
    """
    latest = store.latest()
    if latest is None:
        return None
    try:
        manifest = read_manifest(latest)
    except PublishError as error:
        log.warning("cannot compare with the latest run: %s", error)
        return None
    if manifest.truncated is not None and _may_get_further(manifest):
        return None
    # Fingerprints are only comparable for one problem.
    if manifest.problem != config.problem:
        return None
    same_input = manifest.input.fingerprint == input_facts.fingerprint
    same_input &= manifest.input.events_fingerprint == input_facts.events_fingerprint
    same_config = manifest.config_fingerprint == config_fingerprint(config)
    if not (same_input and same_config):
        return None
    beside = {
        name: {key: facts.fingerprint for key, facts in inputs.items()}
        for name, inputs in manifest.derived_inputs.items()
    }
    return latest if beside == inputs_of(config) and lost_file(latest, manifest, store.sizes(latest)) is None else None


def _may_get_further(manifest: Manifest) -> bool:
    """Return whether another attempt at a truncated run may get further with the same query."""
    is_of_memory = (manifest.truncated or "").startswith(STOPPED_BY_MEMORY)
    return is_of_memory or manifest.config.execution.time_limit_seconds is not None


def _completed(
    run_path: Path, config: Config, input_facts: InputFacts, facts: EnumerationFacts, store: Store | None
) -> dict[str, Completed]:
    """Return the final facts of derived outputs, by name, once all tables are written."""
    fingerprint = config_fingerprint(config)
    return {
        each.name: each.complete(
            Completing(run_path, config, input_facts, fingerprint, facts.truncated, facts.derived[each.name], store)
        )
        for each in derived_of(config)
        if each.complete is not None
    }


def _with_comparison(store: Store, run_path: Path, manifest: Manifest) -> Manifest:
    compare = publication_of(manifest.problem).compare
    if compare is None:
        return manifest
    clock = Clock()
    comparison, prepared = compare(store, run_path, manifest)
    clock.lap("compare")
    spent = _without(clock.seconds, "compare", prepared)
    return manifest.model_copy(
        update={"comparison": comparison, "seconds": _with_total(summed(manifest.seconds, spent))}
    )


def _with_report(run_path: Path, manifest: Manifest, seen: Any) -> Manifest:
    from mbe_stage.pipeline.report import write_report

    clock = Clock()
    report = write_report(run_path, manifest, manifest.config.output.top, seen)
    clock.lap("report")
    return manifest.model_copy(
        update={
            "files": (*manifest.files, file_entry(run_path, report)),
            "seconds": _with_total({**manifest.seconds, **clock.seconds}),
            "peak_memory_bytes": max(manifest.peak_memory_bytes, peak_memory_bytes()),
        }
    )


def _without(seconds: Mapping[str, float], step: str, prepared: Mapping[str, float]) -> dict[str, float]:
    """Subtract loading and compilation from the seconds of a step."""
    return {**seconds, step: max(0.0, seconds[step] - sum(prepared.values())), **prepared}


def _with_total(seconds: Mapping[str, float]) -> dict[str, float]:
    steps = {step: round(value, 6) for step, value in seconds.items() if step != "total"}
    return {**steps, "total": round(sum(steps.values()), 6)}


class Clock:
    """Wall time step by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Assign the time since the last lap to the step."""
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now


@contextmanager
def opened_runner(execution: ExecutionConfig, problem: str, engine: str) -> Iterator[Runner | None]:
    """Open the configured runner; None for this process. For `cuda`, local workers run one process per GPU.

    Parameters
    ----------
    problem, engine : str
        The problem and engine to run; ``auto`` is ``cuda`` if that runs here.

    Raises
    ------
    EngineUnavailable
        The engine cannot run here, Dask is not installed, or dask-cuda is missing for a worker per GPU.
    ClusterLost
        There is no scheduler at the address.
    """
    if execution.devices is not None:
        yield DeviceRunner(execution.devices)
        return
    if execution.runner == "local":
        yield None
        return
    if execution.cluster is not None:
        with dask_cluster(execution.cluster) as runner:
            yield runner
        return
    name, _ = choose_engine(problem, engine)
    loaded = problem if name == "cpu" else None
    workers, threads = execution.workers, execution.threads or None
    with dask_cluster(workers=workers, threads=threads, gpus=name == "cuda", problem=loaded) as runner:
        yield runner
