"""Device memory that a run may take, and the error if there is less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cupy as cp

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.options import Execution


def device_budget(execution: Execution) -> int:
    """Bytes of device memory for a run: as requested, or three quarters of the free memory."""
    if execution.device_memory_bytes is not None:
        return execution.device_memory_bytes
    # Memory that CuPy keeps for reuse counts as free: a run takes it from there.
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    return free * 3 // 4


@contextmanager
def device_work(budget_bytes: int) -> Iterator[None]:
    """Work on the default stream, where Numba launches, whatever stream is current; explain errors of memory.

    Work enqueued on the current stream afterwards waits for this work.

    Raises
    ------
    MemoryBudgetExceeded
        The device has less memory than the budget promised.
    """
    current = cp.cuda.get_current_stream()
    if current != cp.cuda.Stream.null:
        # Work enqueued there may make the arrays that are used here.
        current.synchronize()
    try:
        with cp.cuda.Stream.null:
            yield
        if current != cp.cuda.Stream.null:
            current.wait_event(cp.cuda.Stream.null.record())
    except cp.cuda.memory.OutOfMemoryError as error:
        free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
        raise MemoryBudgetExceeded(
            f"the GPU has {free:,} bytes of memory left, which is not enough under a budget of {budget_bytes:,}: lower "
            "the memory budget below what is free, or stop what else is on the GPU"
        ) from error
