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
after all (`pipeline.takeover`); where it is too small for the graph as well, ``cpu`` enumerates
(`mbe_stage.enumerate_into`). A tier is opened for a run and is then a set of steps, the same for all: `TierSteps`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.enumerate import Progress, RunFacts, enumerate_into
from mbe_stage.bicliques.results import CountSink
from mbe_stage.compile_ahead import CompileStep, compile_ahead
from mbe_stage.engines import AUTO, choose_engine, get_engine
from mbe_stage.errors import EngineUnavailable
from pipeline import process, steps
from pipeline.compiling import OnCompile, Part, host_steps
from pipeline.config import Config, ExecutionConfig, InputConfig
from pipeline.ingest import ingest
from pipeline.loading import load_host_modules
from pipeline.query import to_query
from pipeline.signals import signals_are_heard

__all__ = ["RAPIDS", "Tier", "TierSteps", "choose_tier", "rapids_unavailable_reason", "tier_named"]

log = logging.getLogger(__name__)

RAPIDS = "rapids"
_INSTALL = "pip install 'mbe-stage[rapids-cu13]' (rapids-cu12 for a driver of CUDA 12)"


class TierSteps(Protocol):
    """What a run needs of a tier; the edges are the tier's own kind, with `facts`, and go only to its own steps."""

    def ingest(self, config: InputConfig, source: object | None = None) -> Any:
        """As `pipeline.ingest.ingest`."""

    def enumerate_to(
        self, edges: Any, config: Config, run_path: Path, on_progress: Callable[[Progress], None] | None = None
    ) -> steps.EnumerationFacts:
        """As `pipeline.steps.enumerate_to`."""

    def count(self, edges: Any, config: Config, on_progress: Callable[[Progress], None] | None = None) -> RunFacts:
        """Enumerate, and store nothing; the facts name the tier, or the engine that took its place."""

    def peak_device_memory_bytes(self) -> int | None:
        """Most device memory that was allocated at once so far; None where it is not followed."""

    def save_edges(self, edges: Any, directory: Path) -> None:
        """Keep the edges as files between the steps of a flow."""

    def load_edges(self, directory: Path) -> Any:
        """The edges that `save_edges` kept."""


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

    def compile_steps(self, part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:
        """What a part of a job needs compiled before it begins; see `pipeline.compiling.host_steps`."""
        if self.name != RAPIDS:
            return host_steps(self.engine, part, config)
        from pipeline.rapids.compiling import device_steps

        return device_steps(part, config)

    def compile(self, steps: Sequence[CompileStep], on_compile: OnCompile | None = None) -> float:
        """Compile, as `mbe_stage.compile_ahead`; meanwhile the tier's libraries are imported."""
        with signals_are_heard():
            return compile_ahead(steps, on_compile, beside=self._import_libraries)

    def _import_libraries(self) -> None:
        if self.name != RAPIDS:
            return
        if process.is_ours():
            from pipeline.rapids.one_gpu import import_pylibcugraph_alone

            import_pylibcugraph_alone()
        importlib.import_module("pipeline.rapids.steps")

    @contextmanager
    def open(self, execution: ExecutionConfig) -> Iterator[TierSteps]:
        """The tier's steps; what they take of a device is given back when the context ends.

        Raises
        ------
        DeviceMemoryExhausted
            While the context lasts, on the ``rapids`` tier: the memory of the GPU was not enough.
        """
        with signals_are_heard():
            if self.name != RAPIDS:
                load_host_modules()
                yield _HostSteps(self.engine)
                return
            self._import_libraries()
            from pipeline.rapids.memory import device_pool
            from pipeline.rapids.steps import RapidsSteps

            with device_pool(execution.device_memory) as pool:
                yield RapidsSteps(pool)


def choose_tier(execution: ExecutionConfig) -> Tier:
    """The tier that `execution.engine` asks for; ``auto`` takes the first of rapids, cuda, cpu that runs here.

    Raises
    ------
    EngineUnavailable
        The tier that was asked for by name cannot run here; the message says why and what to install.
    """
    if execution.engine == AUTO:
        reason = rapids_unavailable_reason()
        if reason is None:
            tier = Tier(RAPIDS, "cuda", "cuDF, cuGraph and the CUDA engine run here")
        else:
            name, _ = choose_engine("bicliques")
            tier = Tier(name, name, f"not {RAPIDS}: {reason}")
        log.debug("tier auto: %s; %s", tier.name, tier.reason)
        return tier
    return tier_named(execution.engine)


def tier_named(name: str) -> Tier:
    """The tier of that name, checked to run here.

    Raises
    ------
    EngineUnavailable
        It cannot run here.
    """
    if name == RAPIDS:
        reason = rapids_unavailable_reason()
        if reason is not None:
            raise EngineUnavailable(f"engine {RAPIDS!r} cannot run here: {reason}")
        return Tier(RAPIDS, "cuda", "asked for by name")
    get_engine("bicliques", name)
    return Tier(name, name, "asked for by name")


def rapids_unavailable_reason() -> str | None:
    """None, or what the rapids tier lacks here.

    Imports none of it: `import cudf` succeeds without a GPU, and takes seconds.
    """
    missing = [module for module in ("cudf", "cugraph") if importlib.util.find_spec(module) is None]
    if missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {_INSTALL}"
    return engine_cuda.unavailable_reason()


@dataclass(frozen=True, slots=True)
class _HostSteps:
    """Tables in host memory, whatever the engine."""

    engine: str

    def ingest(self, config: InputConfig, source: object | None = None) -> Any:
        return ingest(config, source)

    def enumerate_to(
        self, edges: Any, config: Config, run_path: Path, on_progress: Callable[[Progress], None] | None = None
    ) -> steps.EnumerationFacts:
        return steps.enumerate_to(edges, config, run_path, on_progress, engine=self.engine)

    def count(self, edges: Any, config: Config, on_progress: Callable[[Progress], None] | None = None) -> RunFacts:
        query, graph = to_query(config.query, edges), edges.graph()
        return enumerate_into(
            CountSink(),
            graph,
            query,
            config.execution.to_execution(),
            self.engine,
            on_progress,
            chosen_by_auto=config.execution.engine == AUTO,
        )

    def peak_device_memory_bytes(self) -> None:
        return None

    def save_edges(self, edges: Any, directory: Path) -> None:
        steps.save_edges(edges, directory)

    def load_edges(self, directory: Path) -> Any:
        return steps.load_edges(directory)
