"""Which tier does a run: where its tables live and which engine enumerates. Decided once a run, and said why.

==========  ==========================  ===============
tier        tables                      engine
==========  ==========================  ===============
cpu         Arrow, in host memory       ``cpu``
cuda        Arrow, in host memory       ``cuda``
reference   Arrow, in host memory       ``reference``
rapids      cuDF, in device memory      ``cuda``
==========  ==========================  ===============

All publish the same. Where ``auto`` chose ``rapids`` and the memory of the GPU is too small, ``cuda`` does the run
after all (`pipeline.execution.tier_fallback`); where it is too small for the graph as well, ``cpu`` enumerates
(`mbe_stage.enumerate_into`). A tier is opened for a run and is then the steps over a backend:
`pipeline.execution.steps.Steps`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mbe_stage.engines import AUTO, choose_engine, engine_names, get_engine, unavailable_reason
from mbe_stage.errors import EngineUnavailable
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.config.model import Config, ExecutionConfig
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.execution import process, steps
from mbe_stage.pipeline.execution.compiling import OnCompile, Part, host_steps
from mbe_stage.pipeline.execution.preload import load_host_modules
from mbe_stage.pipeline.execution.signals import signals_are_heard
from mbe_stage.pipeline.problems.base import DerivedPublication
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead

__all__ = ["RAPIDS", "Tier", "choose_tier", "rapids_unavailable_reason", "tier_named"]

log = logging.getLogger(__name__)

RAPIDS = "rapids"
_FRAMES = "cudf"
_ENGINE = "cuda"
_INSTALL = "pip install 'mbe-stage[rapids-cu13]' (rapids-cu12 for a driver of CUDA 12)"


@dataclass(frozen=True, slots=True)
class Tier:
    """How a run is done.

    Attributes
    ----------
    name : str
        As `execution.engine` spells it; never ``auto``.
    engine : str
        What enumerates, as `mbe_stage.engines` names it.
    reason : str
        Why this one.
    """

    name: str
    engine: str
    reason: str

    @property
    def uses_gpu(self) -> bool:
        """Whether the run takes memory and time of a GPU."""
        return self.engine == "cuda"

    @property
    def reads_on_gpu(self) -> bool:
        """Whether reading and cleaning take them too."""
        return self.name == RAPIDS

    def compile_steps(
        self, part: Part | None = None, config: Config | None = None, *, samples: bool = True
    ) -> Sequence[CompileStep]:
        """What a part of a job needs compiled before it begins; see `pipeline.execution.compiling.host_steps`."""
        if self.name != RAPIDS:
            return host_steps(self.engine, part, config, samples=samples)
        from mbe_stage.pipeline.backends.cudf.compiling import device_steps

        # Where everything is meant, the problems too that the same engine searches for host tables.
        others = host_steps(self.engine, part, but_with=_FRAMES) if config is None else ()
        return (*device_steps(part, config), *others)

    def compile(self, steps: Sequence[CompileStep], on_compile: OnCompile | None = None) -> dict[str, float]:
        """Compile, as `mbe_stage.runtime.compile_ahead`; meanwhile the tier's libraries are imported."""
        with signals_are_heard():
            return compile_ahead(steps, on_compile, beside=self._import_libraries)

    def _import_libraries(self) -> None:
        if self.name != RAPIDS:
            return
        if process.is_ours():
            from mbe_stage.pipeline.backends.cudf.one_gpu import import_pylibcugraph_alone

            import_pylibcugraph_alone()
        importlib.import_module("mbe_stage.pipeline.backends.cudf.backend")

    @contextmanager
    def open(self, execution: ExecutionConfig) -> Iterator[steps.Steps]:
        """The tier's steps; what they take of a device is given back when the context ends.

        Raises
        ------
        DeviceMemoryExhausted
            While the context lasts, on the ``rapids`` tier: the memory of the GPU was not enough.
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
    """The devices that search beside the one that holds the tables, which is the current one."""
    if execution.devices is None:
        return ()
    from mbe_stage.device.selection import current_number, device_numbers

    return tuple(sorted(set(device_numbers(execution.devices)) - {current_number()}))


def choose_tier(
    execution: ExecutionConfig,
    problem: str = OURS,
    derived: Sequence[DerivedPublication] = (),
) -> Tier:
    """The tier that `execution.engine` asks for; ``auto`` takes the first of rapids, cuda, cpu that runs here.

    Where devices are to share the search ``auto`` is cuda. A tier is passed over that the problem has no engine or no
    tables for, or one of the derived outputs no tables.

    Parameters
    ----------
    derived : sequence of DerivedPublication
        What else the run has to write.

    Raises
    ------
    InvalidArgument
        The problem has no such engine.
    EngineUnavailable
        The tier that was asked for by name cannot run here; the message says why and what to install.
    """
    if execution.engine == AUTO and execution.devices is None:
        reason = "a cluster brings results into the memory of the host" if execution.runner != "local" else None
        reason = reason or _not_on_rapids(problem, derived) or rapids_unavailable_reason(problem)
        if reason is None:
            tier = Tier(RAPIDS, _ENGINE, "cuDF, cuGraph and the CUDA engine run here")
        else:
            name, _ = choose_engine(problem)
            tier = Tier(name, name, f"not {RAPIDS}: {reason}")
        log.debug("tier auto: %s; %s", tier.name, tier.reason)
        return tier
    # Devices that share a search are of one engine, and `auto` has them bring what they find to the host.
    return tier_named(_ENGINE if execution.engine == AUTO else execution.engine, problem, derived)


def tier_named(name: str, problem: str = OURS, derived: Sequence[DerivedPublication] = ()) -> Tier:
    """The tier of that name, checked to run here; parameters are those of `choose_tier`.

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
        return Tier(RAPIDS, _ENGINE, "asked for by name")
    get_engine(problem, name)
    return Tier(name, name, "asked for by name")


def _not_on_rapids(problem: str, derived: Sequence[DerivedPublication]) -> str | None:
    """None, or what of the run no machine could do on that tier."""
    if _FRAMES not in publication_of(problem).frames:
        return f"the problem {problem!r} writes no tables in device memory; take auto, or one of its engines"
    if _ENGINE not in engine_names(problem):
        return f"the problem {problem!r} has no engine {_ENGINE!r}; take auto, or one of its engines"
    hosts = next((each.name for each in derived if _FRAMES not in each.frames), None)
    if hosts is None:
        return None
    return f"the derived output {hosts!r} takes no results in device memory; take auto, or leave its section out"


def rapids_unavailable_reason(problem: str = OURS) -> str | None:
    """None, or what the rapids tier lacks here for a problem that has it.

    Imports none of it: `import cudf` succeeds without a GPU, and takes seconds.
    """
    missing = [module for module in ("cudf", "cugraph") if importlib.util.find_spec(module) is None]
    if missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {_INSTALL}"
    return unavailable_reason(problem, _ENGINE)
