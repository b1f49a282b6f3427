"""The device memory of a run's warps and of its output, as planned."""

from __future__ import annotations

import cupy as cp

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.control import Control
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan
from mbe_stage.device import whole_lines

__all__ = ["new_output", "new_scratch", "new_warps", "scratch_of", "zeroed_scratch"]


def new_scratch(plan: MemoryPlan) -> dict[str, cp.ndarray]:
    """The arrays of `layout.Warps` that hold nothing between two quanta; `bits` and `counts` are yet to be zeroed."""
    n_rows, n_columns = whole_lines(plan.n_rows), whole_lines(plan.max_row_degree)
    return {
        "bits": cp.empty((plan.n_warps, n_rows), cp.uint32),
        "counts": cp.empty((plan.n_warps, n_rows), cp.int32),
        "nonzero": cp.empty((plan.n_warps, n_rows), cp.int32),
        "columns": cp.empty((plan.n_warps, n_columns), cp.int32),
    }


def zeroed_scratch(plan: MemoryPlan) -> dict[str, cp.ndarray]:
    """The same, ready to be worked with."""
    scratch = new_scratch(plan)
    scratch["bits"].fill(0)
    scratch["counts"].fill(0)
    return scratch


def scratch_of(warps: at.Warps) -> dict[str, cp.ndarray]:
    """The same arrays of warps that there are."""
    return {"bits": warps.bits, "counts": warps.counts, "nonzero": warps.nonzero, "columns": warps.columns}


def new_warps(plan: MemoryPlan, control: Control, scratch: dict[str, cp.ndarray]) -> at.Warps:
    """Warps with nothing in progress, on this scratch."""
    n = plan.n_warps
    state = cp.zeros((n, at.STATE_FIELDS), cp.int64)
    state[:, at.DEPTH] = -1
    state[:, at.PENDING_NODE] = -1
    ints = cp.empty((n, plan.ints), cp.int32)
    if plan.descriptors:
        # A task that is given takes the whole header along, whether columns stand behind its bits or not.
        ints[:, : at.HEADER_IDS] = 0
    return at.Warps(
        words=cp.empty((n, plan.words), cp.uint32),
        ints=ints,
        frames=cp.zeros((n, at.MAX_DEPTH, at.FRAME_FIELDS), cp.int32),
        state=state,
        own_nodes=cp.zeros((n, at.MAX_OWN_NODES), cp.int32),
        idle_mask=control.idle_mask,
        mailbox=control.mailbox,
        **scratch,
    )


def new_output(plan: MemoryPlan) -> at.Output:
    """An output buffer of one entry at least, whether something is written or not."""
    return at.Output(
        members=cp.empty(max(1, plan.members), cp.int32),
        starts=cp.empty(max(1, plan.descriptors), cp.int64),
        left_sizes=cp.empty(max(1, plan.descriptors), cp.int32),
        right_sizes=cp.empty(max(1, plan.descriptors), cp.int32),
    )
