"""What the device at hand can run at once, how much of its memory a run may take, and arrays as kernels take them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.options import Execution

__all__ = ["device_budget", "kernel_bundles", "kernel_views", "out_of_memory_explained", "resident_blocks", "upload"]


def resident_blocks() -> int:
    """Blocks that are all resident: waiting warps rely on the others running.

    The kernels are compiled for this many blocks a multiprocessor (`launch_bounds`), and their shared memory allows it.
    """
    return cuda.get_current_device().MULTIPROCESSOR_COUNT * BLOCKS_PER_MULTIPROCESSOR


def device_budget(execution: Execution) -> int:
    """Bytes of device memory a run may take: as asked, or three quarters of what is free."""
    if execution.device_memory_bytes is not None:
        return execution.device_memory_bytes
    # What CuPy keeps for reuse counts as free: a run takes it from there.
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    return free * 3 // 4


@contextmanager
def out_of_memory_explained(budget_bytes: int) -> Iterator[None]:
    """Say what to do where the device has less memory than the budget promised.

    Raises
    ------
    MemoryBudgetExceeded
        In place of CuPy's error.
    """
    try:
        yield
    except cp.cuda.memory.OutOfMemoryError as error:
        free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
        raise MemoryBudgetExceeded(
            f"the GPU has {free:,} bytes of memory left, which is not enough under a budget of {budget_bytes:,}: lower "
            "the memory budget below what is free, or stop what else is on the GPU"
        ) from error


def upload(host: np.ndarray, device: cp.ndarray) -> None:
    """Copy an array to one of the same shape on the device."""
    device.set(host)


def kernel_views(*arrays: cp.ndarray) -> tuple[Any, ...]:
    """The arrays as Numba's, which costs less than a launch that is given CuPy's.

    A view does not keep its array alive: hold on to the array until the work is done.
    """
    return tuple(_view(a.device.id, a.data.ptr, a.shape, a.dtype.str) for a in arrays)


def kernel_bundles(kernel: Any, *bundles: Any) -> tuple[Any, ...]:
    """Named tuples of arrays as a kernel takes them: Numba's views, and their type worked out once.

    Numba works out the type of a tuple at every launch, which for the 22 arrays of the walk takes most of its time.
    What has the attribute `_numba_type_` is asked for it instead.
    """
    views = [type(bundle)(*kernel_views(*bundle)) for bundle in bundles]
    return tuple(_typed(kernel, type(v), tuple((a.dtype.str, a.ndim) for a in v), v)(*v) for v in views)


_KINDS: dict[tuple, type] = {}


def _typed(kernel: Any, kind: type, dtypes: tuple, example: Any) -> type:
    """The kind of tuple, with the type that it has for Numba where its arrays are of these dtypes."""
    if (kind, dtypes) not in _KINDS:
        _KINDS[kind, dtypes] = type(kind.__name__, (kind,), {"_numba_type_": kernel.typeof_pyval(example)})
    return _KINDS[kind, dtypes]


@functools.lru_cache(maxsize=512)
def _view(_device: int, address: int, shape: tuple[int, ...], dtype: str) -> Any:
    """One view for each place and shape. CuPy hands the same places out again, and making a view takes 13 us."""
    described = {"shape": shape, "typestr": dtype, "data": (address, False), "version": 3, "strides": None}
    return cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=described), sync=False)
