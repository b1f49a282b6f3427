"""What comparing runs needs compiled."""

from __future__ import annotations

from mbe_stage.pipeline.views.diff import kernels, keys, one_apart, prefixes, rows
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["compile_steps"]


def compile_steps() -> tuple[CompileStep, ...]:
    """All of it, what takes longest first."""
    return tuple(step for module in (kernels, one_apart, prefixes, keys, rows) for step in module.compile_steps())
