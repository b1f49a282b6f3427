"""The words that all warps share and that the host sets before a slice and reads after it, in one piece of memory."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.device import upload
from mbe_stage.bicliques.cuda.plan import MemoryPlan

__all__ = ["Control"]


class Control:
    """Control words, idle mask and mailboxes: one copy to the device begins a slice, one back ends it.

    Parameters
    ----------
    n_warps : int
    pool_top : int
        Entries of the pool that node 0 takes.

    Attributes
    ----------
    fields : (CONTROL_FIELDS,) int32
    wide_fields : (WIDE_CONTROL_FIELDS,) int64
    idle_mask : ((n_warps + 31) // 32,) uint32
    mailbox : (n_warps,) int32
        As in `layout`, on the device.
    host, wide_host
        The same fields on the host, as the last slice left them. What is changed here is what the next one begins with.
    n_found : int
        Bicliques counted so far.
    """

    def __init__(self, n_warps: int, pool_top: int) -> None:
        n_mask = (n_warps + 31) // 32
        # The 64-bit words come first: `n_found`, then the wide fields.
        sizes = np.cumsum([8, 8 * at.WIDE_CONTROL_FIELDS, 4 * at.CONTROL_FIELDS, 4 * n_mask, 4 * n_warps])
        self._device = cp.empty(sizes[-1], cp.uint8)
        self._host = np.zeros(sizes[-1], np.uint8)
        self._head = int(sizes[2])
        self._found = self._device[:8].view(cp.int64).reshape(())
        self.wide_fields = self._device[8 : sizes[1]].view(cp.int64)
        self.fields = self._device[sizes[1] : sizes[2]].view(cp.int32)
        self.idle_mask = self._device[sizes[2] : sizes[3]].view(cp.uint32)
        self.mailbox = self._device[sizes[3] :].view(cp.int32)
        self.wide_host = self._host[8 : sizes[1]].view(np.int64)
        self.host = self._host[sizes[1] : sizes[2]].view(np.int32)
        self.host[[at.N_NODES, at.N_OPEN]] = 1
        self.wide_host[at.POOL_TOP] = pool_top

    @property
    def n_found(self) -> int:
        """Bicliques counted so far."""
        return int(self._host[:8].view(np.int64)[0])

    def begin(self, plan: MemoryPlan) -> None:
        """Set what a slice begins with."""
        self.host[[at.SIGNAL, at.STATUS]] = 0
        self.host[at.N_BUSY] = plan.n_warps
        self.wide_host[at.MEMBERS_TOP : at.NEEDED_MEMBERS + 1] = 0
        self.wide_host[at.SLICE_NS] = int(plan.slice_seconds * 1e9)
        self.wide_host[at.CHUNK_MEMBERS] = plan.chunk_members
        upload(self._host, self._device)

    def finish(self, found_by_warp: cp.ndarray) -> None:
        """Wait for the slice, and read what it left."""
        found_by_warp.sum(out=self._found)
        self._host[: self._head] = cp.asnumpy(self._device[: self._head])
