"""The device memory that a run may take, and the error if it runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cupy as cp

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.options import Execution


def device_budget(execution: Execution) -> int:
    """Return the bytes of device memory for a run: as requested, or three quarters of the free memory."""
    if execution.device_memory_bytes is not None:
        return execution.device_memory_bytes
    # Memory that CuPy keeps for reuse counts as free, because a run can take it.
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    return free * 3 // 4


@contextmanager
def device_work(budget_bytes: int) -> Iterator[None]:
    """Make the default stream current, since Numba launches there; turn memory errors into `MemoryBudgetExceeded`.

    Later work on the caller's stream waits for this work.

    Raises
    ------
    MemoryBudgetExceeded
        The device has less free memory than the budget.
    """
    current = cp.cuda.get_current_stream()
    if current != cp.cuda.Stream.null:
        # Work enqueued on it may produce the arrays used here.
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
