"""The whole job in one call: read edges and publish a run, or only count the results and store nothing."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.spooled import ReadingSteps
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError, PublishError, RunIsBeingWritten
from mbe_stage.pipeline.execution.compiling import OnCompile
from mbe_stage.pipeline.execution.ingest_by_workers import held_by_workers
from mbe_stage.pipeline.execution.ingest_within import ingest_within
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.execution.saved_reading import SavedSteps
from mbe_stage.pipeline.execution.steps import Steps, find_unchanged, finish
from mbe_stage.pipeline.execution.tiers import RAPIDS, OnProgress, Tier, on_a_tier_that_fits
from mbe_stage.pipeline.execution.unfinished import journal_for, staging_to_resume
from mbe_stage.pipeline.execution.worker_stats import WorkerStats, worker_stats_of
from mbe_stage.pipeline.problems.base import ResultText
from mbe_stage.pipeline.problems.installed import derived_of, inputs_of, publication_of, reading_of
from mbe_stage.pipeline.problems.searched_graph import SearchedGraph
from mbe_stage.pipeline.publish.manifest import Manifest, peak_memory_bytes, read_manifest
from mbe_stage.pipeline.publish.reading import PublishedTables
from mbe_stage.pipeline.publish.staging import Store
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import kept_if_done, store_at, whole_run
from mbe_stage.runtime.compile_ahead import summed
from mbe_stage.stream import wants_outlook


@dataclass(frozen=True, slots=True)
class RunResult:
    """A published run.

    Attributes
    ----------
    place : Path
        ``OUT/runs/<run_id>``. For a run at an address, a local copy that exists as long as this object, without the
        parts that cluster workers stored there.
    manifest : Manifest
    unchanged : bool
        Whether it is an earlier run that this one would have repeated; then nothing was enumerated.
    store : Store or None
        Where the run is published; it owns the local copy.
    """

    place: Path
    manifest: Manifest
    unchanged: bool = False
    store: Store | None = field(default=None, repr=False, compare=False)

    @property
    def run_dir(self) -> Path:
        """The run's directory with all of its files; files that are only in the store are fetched on first use.

        Raises
        ------
        PublishError
            They cannot be read.
        """
        return whole_run(self.store, self.place, self.manifest)

    @property
    def address(self) -> str:
        """The run's path or address."""
        return address_of(self.place)

    @property
    def tables(self) -> PublishedTables:
        """The published tables by name, as `pa.Table`; each is read on first access."""
        return PublishedTables(self.run_dir, self.manifest)

    def graph(self, library: Literal["pandas", "polars", "cudf"] = "pandas") -> tuple[Any, Any]:
        """Return the groups of the run as a graph: a frame of nodes and a frame of edges.

        Nodes are cases, groups and their members, with `id`, `type` (`Account` for left members, `Item` for right ones,
        `Group`, `Case`), `key` and their columns in the tables. Edges have `source`, `target` and `type`.

        Parameters
        ----------
        library : {"pandas", "polars", "cudf"}
            The library of the frames.

        Raises
        ------
        InvalidArgument
            There is no such library.
        PublishError
            The run has no groups, or cannot be read.

        Examples
        --------
        >>> nodes, edges = result.graph()  # doctest: +SKIP
        >>> graphistry.edges(edges, "source", "target").nodes(nodes, "id").plot()  # doctest: +SKIP
        """
        for output in derived_of(self.manifest.config):
            if output.graph_frames is not None:
                return output.graph_frames(self.run_dir, library)
        raise PublishError(f"{self.address}: has no groups; expected a run with groups; make them: mbe groups")


@dataclass(frozen=True, slots=True)
class CountResult:
    """The number of results, with nothing stored.

    Attributes
    ----------
    n_found : int
    truncated : str or None
        Why the count is incomplete; None if it is complete.
    engine, device : str
    seconds : dict
        Steps ``read``, ``load``, ``graph``, ``enumerate``, their ``total``, and ``compile`` if code was compiled.
    peak_memory_bytes : int
    peak_device_memory_bytes : int or None
        Most device memory allocated at once; None if no device was used or its memory is not tracked.
    ranks : WorkerStats or None
        As `pipeline.publish.manifest.Manifest.ranks`.
    input : InputFacts
    graph : SearchedGraph
        The graph that was searched.
    warnings : tuple of str
        As `pipeline.publish.manifest.Manifest.warnings`.
    problem : str
        The problem whose results were counted.
    result_text : ResultText or None
        For problems whose results are numbers: these numbers, as text and as values.
    """

    n_found: int
    truncated: str | None
    engine: str
    device: str
    seconds: dict[str, float]
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None
    input: InputFacts
    graph: SearchedGraph
    warnings: tuple[str, ...] = ()
    problem: str = OURS
    ranks: WorkerStats | None = None
    result_text: ResultText | None = None

    @property
    def n_bicliques(self) -> int:
        """`n_found`, for bicliques."""
        return self.n_found


def run(
    config: Config,
    source: object | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_compile: OnCompile | None = None,
    if_changed: bool = False,
    resume: bool = False,
) -> RunResult:
    """Read the edges, enumerate, and publish the tables, the report and the manifest.

    Parameters
    ----------
    config : Config
    source : object, optional
        Edges in memory (pyarrow, pandas, cuDF, NumPy pairs, SciPy sparse, graphs) in place of `config.input.path`.
    on_progress : callable, optional
        Called after every block with a `mbe_stage.Progress`, or with the progress type of another problem. Groups with
        time buckets search a second graph: then its `search` is not empty.
    on_compile : callable, optional
        Called about every second while code is compiled, from any thread, with a
        `mbe_stage.runtime.compile_ahead.CompileProgress`; by default there are log lines.
    if_changed : bool
        Enumerate only if the latest run differs in edges or query (`steps.find_unchanged`).
    resume : bool
        Resume the newest interrupted run of the same query, if there is one. The published result is the same as
        without the interruption.

    Returns
    -------
    RunResult

    Raises
    ------
    InputError, ConfigError
        The input or the query cannot be used.
    EngineUnavailable, MemoryBudgetExceeded
        The engine cannot do it.
    PublishError
        The output cannot be written, the run to resume has other edges, another query or other software, or a limit was
        reached and ``execution.on_limit`` is ``fail``. In every case nothing is published, and earlier runs stay as
        they are.
    """
    # Before anything is read: check that the requested outputs fit together, and read their extra inputs.
    inputs_of(config)
    _check_limits(config)
    store = store_at(config.output.directory)

    def run_on(tier: Tier, warnings: tuple[str, ...], note: OnProgress) -> RunResult:
        staging = store.begin(config.output.keep_unfinished_days, staging_dir)
        with staging.noted_by_interrupts(), ExitStack() as stack:
            # Held from when it is needed: by saved steps of reading, or by the search.
            held = functools.cache(lambda: stack.enter_context(staging).path)
            saved = SavedSteps(config, lambda: held().parent, is_resumed=staging_dir is not None)
            steps, edges, seconds = stack.enter_context(edges_read(tier, config, source, on_compile, saved))
            if if_changed and (unchanged := find_unchanged(store, edges.facts, config)) is not None:
                run_state.state.run = unchanged.name
                return RunResult(store.whole(unchanged), read_manifest(unchanged), unchanged=True, store=store)
            # Unreadable input is refused before this wait.
            needed = tier.compile_steps("publish", config, samples=wants_outlook(note))
            seconds = summed(seconds, tier.compile(needed, on_compile))
            stage(steps, edges, config, held(), store, seconds, warnings, note)
            run_dir = staging.publish(config.output.keep_runs)
        return RunResult(run_dir, Manifest.model_validate_json(staging.manifest), store=store)

    with kept_if_done(store):
        store.check_writable()
        while True:
            staging_dir = staging_to_resume(store, config) if resume else None
            # Another process may resume the run while the edges are read. Then it is no longer free.
            with suppress(RunIsBeingWritten):
                return on_a_tier_that_fits(config, run_on, on_progress)


def _check_limits(config: Config) -> None:
    """Refuse what needs all results if a limit may end the search before."""
    reasons = publication_of(config.problem).of_whole_searches
    limits = [
        name for name in ("time_limit_seconds", "max_output_bytes") if getattr(config.execution, name) is not None
    ]
    for key, asked in _given(config, reasons) if limits else ():
        raise ConfigError(
            f"{asked}: {reasons[key]}, but {setting(f'execution.{limits[0]}')} may end the search before; leave one of "
            "the two out"
        )


def _given(config: Config, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield those of some keys of the problem's section that are set, and what users call them."""
    section, name = config.problem_section, publication_of(config.problem).section_name
    for key in keys:
        if getattr(section, key) != type(section).model_fields[key].default:
            yield key, setting(f"{name}.{key}")


def count(
    config: Config,
    source: object | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_compile: OnCompile | None = None,
) -> CountResult:
    """Count the maximal bicliques, or the results of the configured problem; nothing is stored.

    Parameters and errors are those of `run`; `config.output` is ignored.
    """
    for _, asked in _given(config, publication_of(config.problem).of_tables_only):
        out = setting("output.directory")
        raise ConfigError(f"{asked}: needs a published run, and counting has none; name {out}, or leave it out")

    def count_on(tier: Tier, warnings: tuple[str, ...], note: OnProgress) -> CountResult:
        with edges_read(tier, config, source, on_compile) as (steps, edges, seconds):
            needed = tier.compile_steps("count", config, samples=wants_outlook(note))
            seconds = summed(seconds, tier.compile(needed, on_compile))
            start = time.perf_counter()
            counted = steps.count(edges, config, note)
            facts, result_text = counted.facts, counted.result_text
            seconds = summed(seconds, facts.prepared)
            seconds["graph"] = time.perf_counter() - start - facts.seconds - facts.compile_seconds
            seconds["enumerate"] = facts.seconds
            run_state.state.result = result = CountResult(
                n_found=facts.n_found if result_text is None else result_text.n_found,
                result_text=result_text,
                problem=config.problem,
                truncated=facts.truncated,
                engine=facts.engine,
                device=facts.device,
                seconds={**seconds, "total": sum(seconds.values())},
                peak_memory_bytes=peak_memory_bytes(),
                peak_device_memory_bytes=steps.peak_device_memory_bytes(),
                ranks=worker_stats_of(facts),
                input=edges.facts,
                graph=counted.graph,
                warnings=(*warnings, *edges.facts.warnings, *facts.warnings),
            )
            return result

    return on_a_tier_that_fits(config, count_on, on_progress)


@contextmanager
def _noted_by_interrupts(journal: Journal | None) -> Iterator[None]:
    """Add to interrupts a note on the results that are kept."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if journal is not None and journal.n_found:
            interrupt.add_note(f"nothing was published; {journal.n_found:,} results are kept: use --resume to continue")
        raise


@contextmanager
def edges_read(
    tier: Tier,
    config: Config,
    source: object | None = None,
    on_compile: OnCompile | None = None,
    saved: ReadingSteps | None = None,
) -> Iterator[tuple[Steps, Any, dict[str, float]]]:
    """Read and clean the input on a tier, which stays open while the context lasts; or on a cluster.

    Yields
    ------
    steps : Steps
        Of the tier.
    seconds : dict
        ``read``, ``load``, and ``compile`` if code was compiled.
    """
    prepared = tier.compile(tier.compile_steps("read", config), on_compile)
    with tier.open(config.execution) as steps:
        start = time.perf_counter()
        with held_by_workers(config, source) as held:
            is_bounded = tier.name != RAPIDS and config.execution.memory_budget is not None
            edges = held or (
                ingest_within(config, source, saved) if is_bounded else steps.ingest(reading_of(config), source)
            )
            # Refuse unknown keys before the wait for the next compilation.
            publication_of(config.problem).query(config.problem_section, edges)
            yield steps, edges, {"read": time.perf_counter() - start, **prepared}


def stage(
    steps: Steps,
    edges: Any,
    config: Config,
    run_path: Path,
    store: Store,
    seconds: Mapping[str, float],
    warnings: Sequence[str] = (),
    on_progress: OnProgress | None = None,
) -> None:
    """Enumerate clean edges into a staged run, complete with report and manifest.

    Parameters
    ----------
    steps : Steps
        Of the tier that has the edges.
    run_path : Path
        `Staging.path`: an empty directory, or that of a run to resume.
    store : Store
        Where the run will be published.
    seconds : mapping
        Times of earlier steps.
    warnings : sequence of str
        Warnings from the choice of the tier.

    Raises
    ------
    PublishError
        A limit has ended the search, and ``execution.on_limit`` is ``fail``.
    """
    journal = journal_for(config, edges.facts, run_path)
    with _noted_by_interrupts(journal):
        facts = steps.enumerate_to(edges, config, run_path, on_progress, journal)
    if facts.truncated is not None and config.execution.on_limit == "fail":
        raise PublishError(
            f"{facts.truncated}, and {setting('execution.on_limit')} is 'fail': nothing was published; expected a "
            f"complete result; raise the limit, or set {setting('execution.on_limit')} to publish"
        )
    facts = facts.model_copy(update={"warnings": (*warnings, *facts.warnings)})
    finish(run_path, edges.facts, config, facts, seconds, store)
