"""What reading and enumerating import when first called, imported before the clock of the first step starts."""

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
    """Import the readers and the modules that they import at their first use; quick if that is done."""
    for module in (*READERS.values(), *_OTHERS):
        import_module(module)
