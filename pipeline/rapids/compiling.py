"""What the tier ``rapids`` needs compiled: the engine's kernels and those of the tables; see `pipeline.compiling`."""

from __future__ import annotations

from collections.abc import Sequence

from mbe_stage.bicliques import engine_cuda
from mbe_stage.compile_ahead import CompileStep
from pipeline.compiling import Part
from pipeline.config import Config

__all__ = ["device_steps"]


def device_steps(part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:  # noqa: ARG001
    """What a part of a job needs compiled, for what the configuration asks; without them, for everything."""
    return () if part == "read" else engine_cuda.compile_steps()
