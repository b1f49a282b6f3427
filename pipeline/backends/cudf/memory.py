"""Device memory of a run: a pool with a limit, its peak, and one clear error if it is not enough."""

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

log = logging.getLogger(__name__)

_FREE_SHARE = 0.9
"""Share of free memory for a run without a limit; the rest is for the driver, kernels and their stacks."""

_REQUEST = re.compile(r"(?:failed to allocate|requested bytes)\D*([\d.]+)(?: ([KMGT])iB)?", re.IGNORECASE)
"""RMM's text for a requested size: in bytes, or in a larger unit."""


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """The memory that RMM hands out during a run.

    Attributes
    ----------
    limit_bytes : int
        Limit on memory allocated at once.
    resource : rmm.mr.StatisticsResourceAdaptor
        Source of allocations.
    beside : tuple of DevicePool
        Pools of the other devices in the run.
    """

    limit_bytes: int
    resource: Any
    beside: tuple[DevicePool, ...] = ()

    def used_bytes(self) -> int:
        """Return the bytes allocated now."""
        return self.resource.allocation_counts.current_bytes

    def peak_bytes(self) -> int:
        """Return the most bytes allocated at once so far, on any one device."""
        return max([self.resource.allocation_counts.peak_bytes, *(other.peak_bytes() for other in self.beside)])

    def left_bytes(self) -> int:
        """Return the bytes that may still be allocated."""
        return max(0, self.limit_bytes - self.used_bytes())

    def bytes_for(self, work: Callable[[], object]) -> int:
        """Return the most additional bytes allocated at once by `work`."""
        self.resource.push_counters()
        try:
            work()
        finally:
            counters = self.resource.pop_counters()
        return counters.peak_bytes


@contextmanager
def device_pool(limit_bytes: int | None = None, beside: Sequence[int] = ()) -> Iterator[DevicePool]:
    """Let cuDF, CuPy and Numba allocate device memory from one limited pool within the context.

    The pool is the driver's stream-ordered one, which does not fragment. If the process has its own resource, for
    example of Dask-CUDA, that one is kept and only limited. Afterwards the pool returns its memory to the device,
    except what the caller still holds.

    Parameters
    ----------
    limit_bytes : int, optional
        For each device; 90 % of the free memory by default.
    beside : sequence of int
        Other devices, with a pool each.

    Yields
    ------
    DevicePool
    """
    # This takes a tenth of a second with so many imports, and a process of the command has no earlier garbage.
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
    """Make the pool of one device, by default the current one, within the context."""
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
            # Without selecting the device: a lost device cannot be selected, and the run may have continued without it.
            rmm.mr.set_per_device_resource(number, before)


@contextmanager
def out_of_device_memory(pool: DevicePool) -> Iterator[DevicePool]:
    """Turn out-of-memory errors of RMM, libcudf and cuGraph into one error that names the budget.

    Raises
    ------
    DeviceMemoryExhausted
    """
    try:
        yield pool
    except (MemoryError, RuntimeError) as error:
        # Other errors pass through.
        if not is_of_device_memory(error):
            raise
        reached_limit, place = "memory limit" in str(error), _place(error)
        at_least = pool.used_bytes() + _asked_bytes(str(error))
        log.debug("out of device memory", exc_info=error)
        # The frames of the failed call hold its arrays, and the error holds the frames. The next run needs the memory.
        traceback.clear_frames(error.__traceback__)
        raise _exhausted(pool, reached_limit, place, at_least) from None


@contextmanager
def naming_the_limit(limit_for: Callable[[int], int]) -> Iterator[None]:
    """If the engine refuses its share as too small, name a sufficient limit in the error.

    Parameters
    ----------
    limit_for : callable
        Returns the limit that gives the engine a share of that many bytes.

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
            f"{error}; its budget is a share of {setting('execution.device_memory')}, for which {limit} would do"
        ) from error


def give_back_unused() -> None:
    """Return unused memory to the device."""
    import cupy

    gc.collect()
    # CuPy's own pool, from before RMM became its allocator.
    cupy.get_default_memory_pool().free_all_blocks()


def _place(error: BaseException) -> str:
    """Return the innermost running function of this project."""
    place = "this process"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "mbe_stage" and module != __name__:
            place = f"{module}.{frame.f_code.co_name}"
    return place


def _asked_bytes(text: str) -> int:
    """Return the bytes of the failed allocation; 0 if the text does not say."""
    request = _REQUEST.search(text)
    if request is None:
        return 0
    return int(float(request[1]) * 1024 ** " KMGT".index(request[2] or " "))


def _exhausted(pool: DevicePool, reached_limit: bool, place: str, at_least: int) -> DeviceMemoryExhausted:
    import rmm.mr

    free, total = (round(n / 2**20) for n in rmm.mr.available_device_memory())
    has = f"{free:,} of {total:,} MiB free"
    limit = f"{mebibytes(pool.limit_bytes)} ({setting('execution.device_memory')})"
    if reached_limit:
        needs = f"at least {mebibytes(at_least)}" if at_least > pool.limit_bytes else "more"
        return DeviceMemoryExhausted(
            f"device memory: the limit of {limit} is reached in {place}, which needs {needs}; "
            f"raise it (the GPU has {has}), or ask for larger groups ({setting('query.min_left')}, "
            f"{setting('query.min_right')})",
            may_pass=False,
        )
    return DeviceMemoryExhausted(
        f"device memory: the GPU is full in {place}, with {has}, before the limit of {limit} is reached; "
        f"lower {setting('execution.device_memory')} to what is free, or stop the programs that use the rest "
        "(nvidia-smi lists them)",
        may_pass=True,
    )
