"""NumPy in the place of CuPy, for what is tested without a GPU."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import types as python_types
from typing import Any

import numpy as np

__all__ = ["install"]


def install() -> None:
    """Let modules that import CuPy get NumPy; before any of them is imported."""
    cupy = python_types.ModuleType("cupy")
    for name in dir(np):
        if not name.startswith("__"):
            setattr(cupy, name, getattr(np, name))
    cupy.empty = _left_over  # type: ignore[attr-defined]
    cupy.asnumpy = np.asarray  # type: ignore[attr-defined]
    # CuPy's sorts are stable.
    cupy.argsort = functools.partial(np.argsort, kind="stable")  # type: ignore[attr-defined]
    cupy.get_default_memory_pool = _Pool  # type: ignore[attr-defined]
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    sys.modules["cupy"] = cupy


class _Pool:
    """The pool of CuPy's arrays: NumPy keeps none."""

    def free_all_blocks(self) -> None:
        """Nothing is kept for reuse."""

    def free_bytes(self) -> int:
        """So none can be given back."""
        return 0


def _left_over(shape: Any, dtype: Any = float) -> np.ndarray:
    """What new memory holds on a device: whatever was there before."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(0xA5)
    return array
