"""NumPy in place of CuPy, for tests without a GPU."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import types as python_types
from typing import Any

import numpy as np

__all__ = ["install"]


def install() -> None:
    """Make `import cupy` return NumPy; call it before importing modules that use CuPy."""
    cupy = python_types.ModuleType("cupy")
    # By name, since listing all would import several of NumPy's packages.
    cupy.__getattr__ = functools.partial(getattr, np)  # type: ignore[method-assign]
    cupy.empty = _left_over  # type: ignore[attr-defined]
    cupy.asnumpy = _copied  # type: ignore[attr-defined]
    # CuPy's sorts are stable.
    cupy.argsort = functools.partial(np.argsort, kind="stable")  # type: ignore[attr-defined]
    cupy.get_default_memory_pool = _Pool  # type: ignore[attr-defined]
    cupy.get_array_module = lambda *_: np  # type: ignore[attr-defined]
    stream = python_types.SimpleNamespace(synchronize=lambda: None)
    cupy.cuda = python_types.SimpleNamespace(  # type: ignore[attr-defined]
        alloc_pinned_memory=bytearray,
        get_current_stream=lambda: stream,
        runtime=python_types.SimpleNamespace(getDevice=lambda: 0),
    )
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    sys.modules["cupy"] = cupy


def _copied(array: Any, out: np.ndarray | None = None, *, blocking: bool = True) -> np.ndarray:  # noqa: ARG001
    """Return a copy, as a transfer from the device does."""
    if out is None:
        return np.array(array)
    np.copyto(out, array)
    return out


class _Pool:
    """CuPy's memory pool: NumPy keeps none."""

    def free_all_blocks(self) -> None:
        """Do nothing: no memory is kept for reuse."""

    def free_bytes(self) -> int:
        """Return 0: no memory can be given back."""
        return 0


def _left_over(shape: Any, dtype: Any = float) -> np.ndarray:
    """Return old content, as new memory on a device has."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(0xA5)
    return array
