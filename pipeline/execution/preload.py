"""Imports that reading and enumerating need, done before the first step's clock starts."""

from __future__ import annotations

from importlib import import_module

from mbe_stage.pipeline.io import READERS

__all__ = ["load_host_modules"]

_OTHERS = (
    "mbe_stage.pipeline.io.detect",
    "mbe_stage.pipeline.io.foreign",
    "mbe_stage.pipeline.io.memory",
    "pyarrow.dataset",
    "scipy.sparse",
)


def load_host_modules() -> None:
    """Import the readers and their lazily imported modules; quick if already done."""
    for module in (*READERS.values(), *_OTHERS):
        import_module(module)
