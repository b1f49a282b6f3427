"""The device memory of a run: the control words, the warps' arrays and the output.

Host and warps share the control words. They stand in one piece of memory, so one copy sets them before a quantum and
one reads them after it.
"""

from __future__ import annotations

import functools
from itertools import accumulate

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan
from mbe_stage.device import whole_lines
from mbe_stage.device.arrays import upload


class Control:
    """Control words, idle mask and mailboxes: one copy to the device begins a quantum, one back ends it.

    Parameters
    ----------
    pool_top : int
        Entries of the pool that node 0 takes.

    Attributes
    ----------
    fields : (CONTROL_FIELDS,) int32
    fields_64 : (CONTROL_64_FIELDS,) int64
    idle_mask : ((n_warps + 31) // 32,) uint32
    mailbox : (n_warps,) int32
        As in `layout`, on the device.
    host, host_64
        The same fields on the host, after the last quantum. Changes here apply to the next one.
    n_found : int
        Bicliques counted so far.
    """

    def __init__(self, n_warps: int, pool_top: int) -> None:
        n_mask = (n_warps + 31) // 32
        # Words of 32 bits: 64-bit fields, fields, idle mask, mailbox. The first two parts are read back.
        # No two parts share a cache line.
        sizes = 2 * layout.CONTROL_64_FIELDS, layout.CONTROL_FIELDS, n_mask, n_warps
        places = [0, *accumulate(map(whole_lines, sizes))]
        self._device, self._host = cp.empty(places[-1] // 2, cp.int64), np.zeros(places[-1] // 2, np.int64)
        self._n_read_back = places[2] // 2
        of_64, of_fields = slice(layout.CONTROL_64_FIELDS), slice(places[1], places[1] + sizes[1])
        words = self._device.view(cp.int32)
        self.fields_64, self.fields = self._device[of_64], words[of_fields]
        self.idle_mask = words[places[2] : places[2] + n_mask].view(cp.uint32)
        self.mailbox = words[places[3] : places[3] + n_warps]
        self.host_64, self.host = self._host[of_64], self._host.view(np.int32)[of_fields]
        self.host[layout.N_NODES] = self.host[layout.N_OPEN] = 1
        self.host_64[layout.POOL_TOP] = pool_top

    @property
    def n_found(self) -> int:
        """Bicliques counted so far."""
        return int(self.host_64[layout.ALL_FOUND])

    def begin(self, plan: MemoryPlan) -> None:
        """Set the words at the beginning of a quantum."""
        self.host[layout.SIGNAL] = self.host[layout.STATUS] = 0
        self.host[layout.N_BUSY] = plan.n_warps
        self.host_64[layout.MEMBERS_TOP : layout.NEEDED_MEMBERS + 1] = 0
        self.host_64[layout.QUANTUM_NS] = int(plan.quantum_seconds * 1e9)
        self.host_64[layout.CHUNK_MEMBERS] = plan.chunk_members
        upload(self._host, self._device)

    def finish(self) -> None:
        """Wait for the quantum, and read its words."""
        self._host[: self._n_read_back] = cp.asnumpy(self._device[: self._n_read_back])


def new_scratch(plan: MemoryPlan) -> dict[str, cp.ndarray]:
    """Allocate the arrays of `layout.Warps` that are empty between quanta; `bits` and `counts` are not zeroed yet."""
    by_row, by_column = ((plan.n_warps, whole_lines(n)) for n in (plan.n_rows, plan.max_row_degree))
    return {
        "bits": cp.empty(by_row, cp.uint32),
        "counts": cp.empty(by_row, cp.int32),
        "nonzero": cp.empty(by_row, cp.int32),
        "columns": cp.empty(by_column, cp.int32),
    }


def scratch_of(warps: layout.Warps) -> dict[str, cp.ndarray]:
    """Return these arrays of existing warps."""
    return {"bits": warps.bits, "counts": warps.counts, "nonzero": warps.nonzero, "columns": warps.columns}


def new_warps(plan: MemoryPlan, control: Control, scratch: dict[str, cp.ndarray]) -> layout.Warps:
    """Make warps without work, with this scratch."""
    n = plan.n_warps
    ints = cp.empty((n, plan.ints), cp.int32)
    if plan.has_ids:
        # A donated task copies the whole header, even if there are no columns behind its bits.
        ints[:, : layout.HEADER_IDS] = 0
    return layout.Warps(
        words=cp.empty((n, plan.words), cp.uint32),
        ints=ints,
        frames=cp.zeros((n, layout.MAX_DEPTH, layout.FRAME_FIELDS), cp.int32),
        state=_idle_state(cp.cuda.runtime.getDevice(), n).copy(),
        own_nodes=cp.zeros((n, layout.MAX_OWN_NODES), cp.int32),
        idle_mask=control.idle_mask,
        mailbox=control.mailbox,
        **scratch,
    )


@functools.lru_cache(8)
def _idle_state(_device: int, n: int) -> cp.ndarray:
    """Return the state of warps without work, to be copied: setting two of its fields takes five times as long."""
    state = cp.zeros((n, layout.STATE_FIELDS), cp.int64)
    state[:, layout.DEPTH : layout.PENDING_NODE + 1] = -1
    return state


def slots_of(n: int) -> dict[str, cp.ndarray]:
    """Allocate slots for `n` bicliques, at least one."""
    return {
        "starts": cp.empty(max(1, n), cp.int64),
        "left_sizes": cp.empty(max(1, n), cp.int32),
        "right_sizes": cp.empty(max(1, n), cp.int32),
    }
