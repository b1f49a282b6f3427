"""The whole job in one call: edges in, a published run out; and the count alone, which stores nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mbe_stage.bicliques.enumerate import Progress
from pipeline.compiling import OnCompile
from pipeline.config import Config
from pipeline.edges import InputFacts
from pipeline.manifest import Manifest, peak_memory_bytes, read_manifest
from pipeline.publish import RunStore
from pipeline.steps import find_unchanged, finish
from pipeline.takeover import OnProgress, on_a_tier_that_fits
from pipeline.tiers import Tier

__all__ = ["CountResult", "RunResult", "count", "run"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A published run.

    Attributes
    ----------
    run_dir : Path
        ``OUT/runs/<run_id>``.
    manifest : Manifest
    unchanged : bool
        Whether it is an earlier run, which this one would have repeated; then nothing was enumerated.
    """

    run_dir: Path
    manifest: Manifest
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class CountResult:
    """How many there are, and nothing stored.

    Attributes
    ----------
    n_bicliques : int
    truncated : str or None
        Why the count is incomplete; None when it is complete.
    engine, device : str
    seconds : dict
        Steps ``read``, ``compile``, ``graph``, ``enumerate`` and their ``total``.
    peak_memory_bytes : int
    peak_device_memory_bytes : int or None
        Most device memory allocated at once; None where no device was used, or its memory not followed.
    input : InputFacts
    warnings : tuple of str
        As `pipeline.manifest.Manifest.warnings`.
    """

    n_bicliques: int
    truncated: str | None
    engine: str
    device: str
    seconds: dict[str, float]
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None
    input: InputFacts
    warnings: tuple[str, ...] = ()


def run(
    config: Config,
    source: object | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_compile: OnCompile | None = None,
    if_changed: bool = False,
) -> RunResult:
    """Read the edges, enumerate, and publish the tables, the report and the manifest.

    Parameters
    ----------
    config : Config
    source : object, optional
        Edges in memory (pyarrow, pandas, cuDF, NumPy pairs, SciPy sparse, networkx) in place of `config.input.path`.
    on_progress : callable, optional
        Called after every block with a `mbe_stage.Progress`.
    on_compile : callable, optional
        Called about every second while something is compiled, from any thread, with a
        `mbe_stage.compile_ahead.CompileProgress`; by default there are log lines.
    if_changed : bool
        Enumerate only where the latest run is not of the same edges and the same question (`steps.find_unchanged`).

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
        The output cannot be written. In every case nothing is published, and earlier runs stay as they are.
    """
    store = RunStore(config.output.directory)
    store.check_writable()

    def run_on(tier: Tier, warnings: tuple[str, ...], note: OnProgress) -> RunResult:
        staging = None
        try:
            compile_seconds = tier.compile(tier.compile_steps("read", config), on_compile)
            with tier.open(config.execution) as steps:
                start = time.perf_counter()
                edges = steps.ingest(config.input, source)
                seconds = {"read": time.perf_counter() - start}
                if if_changed and (unchanged := find_unchanged(store, edges.facts, config)) is not None:
                    return RunResult(unchanged, read_manifest(unchanged), unchanged=True)
                # What cannot be read is refused before anybody waits for this.
                compile_seconds += tier.compile(tier.compile_steps("publish", config), on_compile)
                seconds["compile"] = compile_seconds
                with store.begin() as staging:
                    facts = steps.enumerate_to(edges, config, staging.path, note)
                    facts = facts.model_copy(update={"warnings": (*warnings, *facts.warnings)})
                    finish(staging.path, edges.facts, config, facts, seconds, store)
                    run_dir = staging.publish(config.output.keep_runs)
        except KeyboardInterrupt as interrupt:
            if staging is not None:
                staging.note_on(interrupt)
            raise
        return RunResult(run_dir, Manifest.model_validate_json(staging.manifest))

    return on_a_tier_that_fits(config.execution, run_on, on_progress)


def count(
    config: Config,
    source: object | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_compile: OnCompile | None = None,
) -> CountResult:
    """Count the maximal bicliques; nothing is stored.

    Parameters and errors are those of `run`; `config.output` is not looked at.
    """

    def count_on(tier: Tier, warnings: tuple[str, ...], note: OnProgress) -> CountResult:
        compile_seconds = tier.compile(tier.compile_steps("read", config), on_compile)
        with tier.open(config.execution) as steps:
            start = time.perf_counter()
            edges = steps.ingest(config.input, source)
            read_seconds = time.perf_counter() - start
            compile_seconds += tier.compile(tier.compile_steps("count", config), on_compile)
            start = time.perf_counter()
            facts = steps.count(edges, config, note)
            seconds = {
                "read": read_seconds,
                "compile": compile_seconds + facts.compile_seconds,
                "graph": time.perf_counter() - start - facts.seconds - facts.compile_seconds,
                "enumerate": facts.seconds,
            }
            return CountResult(
                n_bicliques=facts.n_bicliques,
                truncated=facts.truncated,
                engine=facts.engine,
                device=facts.device,
                seconds={**seconds, "total": sum(seconds.values())},
                peak_memory_bytes=peak_memory_bytes(),
                peak_device_memory_bytes=steps.peak_device_memory_bytes(),
                input=edges.facts,
                warnings=(*warnings, *edges.facts.warnings, *facts.warnings),
            )

    return on_a_tier_that_fits(config.execution, count_on, on_progress)
