"""Device memory of a run: a pool with a limit, its peak, and one clear error where it is not enough."""

from __future__ import annotations

import gc
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline.backends.cudf.plan import mebibytes
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import DeviceMemoryExhausted
from mbe_stage.pipeline.execution import process
from mbe_stage.pipeline.execution.lack_of_memory import is_of_device_memory

__all__ = ["DevicePool", "device_pool", "naming_the_limit", "out_of_device_memory"]

log = logging.getLogger(__name__)

_FREE_SHARE = 0.9
"""Of the free memory, what a run without a limit takes: the rest is for the driver, kernels and their stacks."""

_ASKED = re.compile(r"(?:failed to allocate|requested bytes)\D*([\d.]+)(?: ([KMGT])iB)?", re.IGNORECASE)
"""How RMM says what it was asked for: in bytes, or in a unit of them."""


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """The memory that RMM hands out while a run lasts.

    Attributes
    ----------
    limit_bytes : int
        Most that is allocated at once.
    resource : rmm.mr.StatisticsResourceAdaptor
        Where it is allocated from.
    beside : tuple of DevicePool
        Of the other devices that have a part in the run.
    """

    limit_bytes: int
    resource: Any
    beside: tuple[DevicePool, ...] = ()

    def used_bytes(self) -> int:
        """Allocated now."""
        return self.resource.allocation_counts.current_bytes

    def peak_bytes(self) -> int:
        """Most that was allocated at once so far, of any one device."""
        return max([self.resource.allocation_counts.peak_bytes, *(other.peak_bytes() for other in self.beside)])

    def left_bytes(self) -> int:
        """What may still be allocated."""
        return max(0, self.limit_bytes - self.used_bytes())

    def bytes_for(self, work: Callable[[], object]) -> int:
        """Most that is allocated at once while `work` is done, beside what was before."""
        self.resource.push_counters()
        try:
            work()
        finally:
            counters = self.resource.pop_counters()
        return counters.peak_bytes


@contextmanager
def device_pool(limit_bytes: int | None = None, beside: Sequence[int] = ()) -> Iterator[DevicePool]:
    """Let cuDF, CuPy and Numba take their device memory from one pool with a limit, while the context lasts.

    The pool is the driver's stream-ordered one, which does not fragment; a resource that the process has set up
    itself, of Dask-CUDA for example, is kept and only limited. Afterwards the pool is given back to the device, except
    what the caller still holds.

    Parameters
    ----------
    limit_bytes : int, optional
        Nine tenths of what is free by default; of each device.
    beside : sequence of int
        Other devices that get such a pool of their own.
    """
    # With so much imported it takes a tenth of a second, and a process of our own has nothing from before.
    if not process.is_ours():
        give_back_unused()
    # Makes RMM the allocator of CuPy and Numba.
    import cudf  # noqa: F401

    with ExitStack() as ends:
        others = tuple(ends.enter_context(_pool_of(number, limit_bytes)) for number in beside)
        own = ends.enter_context(_pool_of(None, limit_bytes))
        try:
            with out_of_device_memory(replace(own, beside=others)) as pool:
                yield pool
        finally:
            try:
                ends.close()
            finally:
                if not process.is_ours():
                    give_back_unused()


@contextmanager
def _pool_of(number: int | None, limit_bytes: int | None) -> Iterator[DevicePool]:
    """The pool of one device, of the current one where it is None, while the context lasts."""
    import cupy
    import rmm.mr

    device = cupy.cuda.Device(number)
    with device:
        before = rmm.mr.get_current_device_resource()
        upstream = rmm.mr.CudaAsyncMemoryResource() if type(before) is rmm.mr.CudaMemoryResource else before
        limit = limit_bytes or int(rmm.mr.available_device_memory()[0] * _FREE_SHARE)
        resource = rmm.mr.StatisticsResourceAdaptor(rmm.mr.LimitingResourceAdaptor(upstream, limit))
        rmm.mr.set_current_device_resource(resource)
    try:
        yield DevicePool(limit, resource)
    finally:
        if number is None:
            rmm.mr.set_current_device_resource(before)
        else:
            # Without selecting it: a device that was lost cannot be, and the run may have gone on without it.
            rmm.mr.set_per_device_resource(number, before)


@contextmanager
def out_of_device_memory(pool: DevicePool) -> Iterator[DevicePool]:
    """Turn what RMM, libcudf and cuGraph say when memory runs out into one error that names the budget.

    Raises
    ------
    DeviceMemoryExhausted
    """
    try:
        yield pool
    except (MemoryError, RuntimeError) as error:
        # Any other error is not ours to explain.
        if not is_of_device_memory(error):
            raise
        reached_limit, place = "memory limit" in str(error), _place(error)
        at_least = pool.used_bytes() + _asked_bytes(str(error))
        log.debug("out of device memory", exc_info=error)
        # The frames of the failed call hold its arrays, and the error would hold the frames: a next run needs both.
        traceback.clear_frames(error.__traceback__)
        raise _exhausted(pool, reached_limit, place, at_least) from None


@contextmanager
def naming_the_limit(limit_for: Callable[[int], int]) -> Iterator[None]:
    """Where the engine refuses its share as too little, have the error say which limit would do.

    Parameters
    ----------
    limit_for : callable
        The limit of which the engine's share is so many bytes.

    Raises
    ------
    MemoryBudgetExceeded
    """
    try:
        yield
    except MemoryBudgetExceeded as error:
        if error.needed_bytes is None:
            raise
        limit = mebibytes(limit_for(error.needed_bytes))
        raise MemoryBudgetExceeded(
            f"{error}; its budget is a share of {setting('execution.device_memory')}, of which {limit} would do"
        ) from error


def give_back_unused() -> None:
    """Return what nobody refers to any more to the device."""
    import cupy

    gc.collect()
    # Of CuPy before RMM became its allocator.
    cupy.get_default_memory_pool().free_all_blocks()


def _place(error: BaseException) -> str:
    """The innermost function of this project that was at work."""
    place = "this process"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "mbe_stage" and module != __name__:
            place = f"{module}.{frame.f_code.co_name}"
    return place


def _asked_bytes(text: str) -> int:
    """What could not be allocated; 0 where the text does not say."""
    asked = _ASKED.search(text)
    if asked is None:
        return 0
    return int(float(asked[1]) * 1024 ** " KMGT".index(asked[2] or " "))


def _exhausted(pool: DevicePool, reached_limit: bool, place: str, at_least: int) -> DeviceMemoryExhausted:
    import rmm.mr

    free, total = (round(n / 2**20) for n in rmm.mr.available_device_memory())
    has = f"{free:,} of {total:,} MiB free"
    limit = f"{mebibytes(pool.limit_bytes)} ({setting('execution.device_memory')})"
    if reached_limit:
        needs = f"{mebibytes(at_least)} at least" if at_least > pool.limit_bytes else "more"
        return DeviceMemoryExhausted(
            f"device memory: the limit of {limit} is reached in {place}, which needs {needs}; "
            f"raise it (the GPU has {has}), or ask for larger groups ({setting('query.min_left')}, "
            f"{setting('query.min_right')})",
            may_pass=False,
        )
    return DeviceMemoryExhausted(
        f"device memory: the GPU is full in {place}, with {has}, before the limit of {limit} is reached; "
        f"lower {setting('execution.device_memory')} to what is free, or end the programs that hold the rest "
        "(nvidia-smi lists them)",
        may_pass=True,
    )
