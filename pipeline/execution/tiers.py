"""Tiers: where the tables of a run are, and which engine enumerates. The choice is made once per run, and logged.

==========  ======================  =============
tier        tables                  engine
==========  ======================  =============
cpu         Arrow, in host memory   ``cpu``
cuda        Arrow, in host memory   ``cuda``
reference   Arrow, in host memory   ``reference``
rapids      cuDF, in device memory  ``cuda``
==========  ======================  =============

All publish the same. If ``auto`` chose ``rapids`` and GPU memory is too small, ``cuda`` does the run
(`on_a_tier_that_fits`). If it is too small for the graph as well, ``cpu`` enumerates
(`mbe_stage.enumerate_into`). An opened tier is a `pipeline.execution.steps.Steps` with its backend.

A fallback, as between engines (`mbe_stage.stream`), happens only before the first result, and with a warning. Later
the error stays: another tier may need as long again, or can resume from the last checkpoint on request.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from mbe_stage.engines import AUTO, choose_engine, engine_names, get_engine, unavailable_reason
from mbe_stage.errors import EngineUnavailable, MemoryBudgetExceeded
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.config.model import Config, ExecutionConfig
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.execution import process, steps
from mbe_stage.pipeline.execution.compiling import OnCompile, Part, host_steps
from mbe_stage.pipeline.execution.signals import signals_are_heard
from mbe_stage.pipeline.io import READERS
from mbe_stage.pipeline.problems.base import DerivedPublication
from mbe_stage.pipeline.problems.installed import derived_of, publication_of
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.stream import Listener, wants_outlook

log = logging.getLogger(__name__)
RAPIDS = "rapids"
_FRAMES = "cudf"
_ENGINE = "cuda"
_INSTALL = "pip install 'mbe-stage[rapids-cu13]' (rapids-cu12 for a driver of CUDA 12)"
_TEXT = [reader for reader in READERS.values() if ".text." in reader]
_READING = ("mbe_stage.pipeline.io.detect", "mbe_stage.pipeline.io.foreign", "pyarrow.dataset", *_TEXT)
Result = TypeVar("Result")
OnProgress = Callable[[Any], None]
"""Receives the progress of a search: `Publication.progress`."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A way to do a run.

    Attributes
    ----------
    name : str
        See `execution.engine`; never ``auto``.
    engine : str
        The engine that enumerates, as in `mbe_stage.engines`.
    reason : str
        Why it was chosen.
    """

    name: str
    engine: str
    reason: str

    @property
    def uses_gpu(self) -> bool:
        """Return whether the run uses a GPU."""
        return self.engine == "cuda"

    @property
    def reads_on_gpu(self) -> bool:
        """Return whether reading and cleaning use the GPU too."""
        return self.name == RAPIDS

    def compile_steps(
        self, part: Part | None = None, config: Config | None = None, *, samples: bool = True
    ) -> Sequence[CompileStep]:
        """List what a part of a job needs compiled before it starts; see `pipeline.execution.compiling.host_steps`."""
        if self.name != RAPIDS:
            return host_steps(self.engine, part, config, samples=samples)
        from mbe_stage.pipeline.backends.cudf.compiling import device_steps

        # Without a configuration, include the problems that the same engine searches for host tables.
        others = host_steps(self.engine, part, but_with=_FRAMES) if config is None else ()
        return (*device_steps(part, config), *others)

    def compile(self, steps: Sequence[CompileStep], on_compile: OnCompile | None = None) -> dict[str, float]:
        """Compile as `mbe_stage.runtime.compile_ahead` does, and import the tier's libraries meanwhile."""
        with signals_are_heard(), run_state.at_step("compile"):
            return compile_ahead(steps, on_compile, beside=self._import_libraries)

    def _import_libraries(self) -> None:
        if self.name != RAPIDS:
            return
        if process.is_ours():
            process.import_pylibcugraph_alone()
        importlib.import_module("mbe_stage.pipeline.backends.cudf.backend")

    @contextmanager
    def open(self, execution: ExecutionConfig) -> Iterator[steps.Steps]:
        """Open the tier's steps; device resources are released when the context ends.

        Raises
        ------
        DeviceMemoryExhausted
            Within the context, on the ``rapids`` tier: GPU memory ran out.
        """
        with signals_are_heard():
            if self.name != RAPIDS:
                load_host_modules()
                yield steps.Steps(ARROW, self.engine)
                return
            self._import_libraries()
            from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
            from mbe_stage.pipeline.backends.cudf.memory import device_pool

            with device_pool(execution.device_memory, _beside(execution)) as pool:
                yield steps.Steps(CudfBackend(pool), self.engine)


def _beside(execution: ExecutionConfig) -> tuple[int, ...]:
    """Return the devices that search besides the current one, which holds the tables."""
    if execution.devices is None:
        return ()
    from mbe_stage.device.selection import current_number, device_numbers

    return tuple(sorted(set(device_numbers(execution.devices)) - {current_number()}))


def choose_tier(
    execution: ExecutionConfig,
    problem: str = OURS,
    derived: Sequence[DerivedPublication] = (),
    *,
    has_graphs: bool = False,
) -> Tier:
    """Choose the tier of `execution.engine`; ``auto`` takes the first of rapids, cuda, cpu that runs here.

    If several devices share the search, ``auto`` is cuda. A tier is skipped if the problem has no engine or tables for
    it, or a derived output has no tables for it.

    Parameters
    ----------
    derived : sequence of DerivedPublication
        Other outputs of the run.
    has_graphs : bool
        The input has a column of graphs, which is written from host memory.

    Raises
    ------
    InvalidArgument
        The problem has no such engine.
    EngineUnavailable
        The requested tier cannot run here; the message says why and what to install.
    """
    if execution.engine == AUTO and execution.devices is None:
        reason = "a cluster returns results into host memory" if execution.runner != "local" else None
        reason = reason or ("a column of graphs is written from host memory" if has_graphs else None)
        reason = reason or _not_on_rapids(problem, derived) or rapids_unavailable_reason(problem)
        if reason is None:
            tier = Tier(RAPIDS, _ENGINE, "cuDF, cuGraph and the CUDA engine run here")
        else:
            name, _ = choose_engine(problem)
            tier = Tier(name, name, f"not {RAPIDS}: {reason}")
        log.debug("tier auto: %s; %s", tier.name, tier.reason)
        return tier
    # Devices that share a search run one engine and, with `auto`, return their results to the host.
    return tier_named(_ENGINE if execution.engine == AUTO else execution.engine, problem, derived)


def tier_named(name: str, problem: str = OURS, derived: Sequence[DerivedPublication] = ()) -> Tier:
    """Return the tier of that name, checked to run here; parameters are those of `choose_tier`.

    Raises
    ------
    InvalidArgument
        The problem has no such engine.
    EngineUnavailable
        It cannot run here.
    """
    if name == RAPIDS:
        reason = _not_on_rapids(problem, derived) or rapids_unavailable_reason(problem)
        if reason is not None:
            raise EngineUnavailable(f"engine {RAPIDS!r} cannot run here: {reason}")
        return Tier(RAPIDS, _ENGINE, "requested by name")
    get_engine(problem, name)
    return Tier(name, name, "requested by name")


def _not_on_rapids(problem: str, derived: Sequence[DerivedPublication]) -> str | None:
    """Describe the part of the run that no machine could do on that tier; or None."""
    if _FRAMES not in publication_of(problem).frames:
        return f"the problem {problem!r} cannot write tables in device memory; use auto, or one of its engines"
    if _ENGINE not in engine_names(problem):
        return f"the problem {problem!r} has no engine {_ENGINE!r}; use auto, or one of its engines"
    hosts = next((each.name for each in derived if _FRAMES not in each.frames), None)
    if hosts is None:
        return None
    return f"the derived output {hosts!r} cannot read results in device memory; use auto, or leave its section out"


def rapids_unavailable_reason(problem: str = OURS) -> str | None:
    """Return what the rapids tier lacks here, for a problem that has it; or None.

    This imports nothing: `import cudf` succeeds without a GPU, and takes seconds.
    """
    missing = [module for module in ("cudf", "cugraph") if importlib.util.find_spec(module) is None]
    if missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {_INSTALL}"
    return unavailable_reason(problem, _ENGINE)


def load_host_modules() -> None:
    """Import what reads text, before its time is taken; quick if already done. Some other readers load SciPy."""
    for module in _READING:
        import_module(module)


def on_a_tier_that_fits(
    config: Config,
    work: Callable[[Tier, tuple[str, ...], OnProgress], Result],
    on_progress: OnProgress | None = None,
) -> Result:
    """Do a whole job on the tier of `execution.engine`, or on the next one.

    Parameters
    ----------
    work : callable
        Takes the tier, the warnings of its choice, and a progress callback; starts over when called again.
    on_progress : callable, optional
        Called after every block.

    Raises
    ------
    EngineUnavailable
        See `pipeline.execution.tiers.choose_tier`.
    MemoryBudgetExceeded
        No other tier may take over.
    """
    has_graphs = config.input.by is not None
    tier = choose_tier(config.execution, config.problem, derived_of(config), has_graphs=has_graphs)
    try:
        with noting_the_beginning(on_progress) as note:
            return work(tier, (), note)
    except MemoryBudgetExceeded as refusal:
        found = _next_tier(config, tier, refusal)
        if found is None:
            raise
        # The frames of the failure hold its arrays, and the next tier may need the memory of the same GPU.
        traceback.clear_frames(refusal.__traceback__)
    other, warning = found
    gc.collect()
    return work(other, (warning,), on_progress or _ignore)


def _next_tier(config: Config, tier: Tier, refusal: MemoryBudgetExceeded) -> tuple[Tier, str] | None:
    """Return the tier that takes over and the warning, which is logged; None if the error stays."""
    if config.execution.engine != AUTO or tier.name != RAPIDS or refusal.has_begun:
        return None
    name, _ = choose_engine(config.problem)
    warning = (
        f"tier auto: {tier.name} had too little device memory before the first result, and {name} takes over; "
        f"{tier.name} reported: {refusal}"
    )
    log.warning("%s", warning)
    return Tier(name, name, f"{RAPIDS} had too little device memory"), warning


@contextmanager
def noting_the_beginning(on_progress: OnProgress | None) -> Iterator[OnProgress]:
    """Wrap the progress callback, so that memory errors leaving the context know if results were handed out."""
    has_begun = False

    def note(progress: Any) -> None:
        nonlocal has_begun
        has_begun = has_begun or progress.n_found > 0
        run_state.state.progress = progress
        if on_progress is not None:
            on_progress(progress)

    try:
        yield Listener(note, wants_outlook(on_progress))
    except MemoryBudgetExceeded as refusal:
        refusal.has_begun = refusal.has_begun or has_begun
        raise


def _ignore(_progress: object) -> None:
    pass
