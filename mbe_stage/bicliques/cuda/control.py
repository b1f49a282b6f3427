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
    limits : (6,) int64
        As in `layout.Pool`.

    Attributes
    ----------
    fields : (CONTROL_FIELDS,) int32
    wide_fields : (WIDE_CONTROL_FIELDS,) int64
    limits : (6,) int64
    idle_mask : ((n_warps + 31) // 32,) uint32
    mailbox : (n_warps,) int32
        As in `layout`, on the device.
    host, wide_host
        The same fields on the host, as the last slice left them. What is changed here is what the next one begins with.
    n_found : int
        Bicliques counted so far.
    """

    def __init__(self, n_warps: int, pool_top: int, limits: np.ndarray) -> None:
        # In this order, the 64-bit words first: what was found, wide fields, limits; fields; idle mask; mailboxes.
        wide_at = 8
        limits_at = wide_at + 8 * at.WIDE_CONTROL_FIELDS
        fields_at = limits_at + limits.nbytes
        mask_at = fields_at + 4 * at.CONTROL_FIELDS
        mailbox_at = mask_at + 4 * ((n_warps + 31) // 32)
        n_bytes = mailbox_at + 4 * n_warps
        self._device = cp.empty(n_bytes, cp.uint8)
        self._host = np.zeros(n_bytes, np.uint8)
        self._n_read_back = mask_at
        self._found = self._device[:wide_at].view(cp.int64).reshape(())
        self.wide_fields = self._device[wide_at:limits_at].view(cp.int64)
        self.limits = self._device[limits_at:fields_at].view(cp.int64)
        self.fields = self._device[fields_at:mask_at].view(cp.int32)
        self.idle_mask = self._device[mask_at:mailbox_at].view(cp.uint32)
        self.mailbox = self._device[mailbox_at:].view(cp.int32)
        self._found_host = self._host[:wide_at].view(np.int64)
        self.wide_host = self._host[wide_at:limits_at].view(np.int64)
        self.host = self._host[fields_at:mask_at].view(np.int32)
        self._host[limits_at:fields_at].view(np.int64)[:] = limits
        self.host[at.N_NODES] = self.host[at.N_OPEN] = 1
        self.wide_host[at.POOL_TOP] = pool_top

    @property
    def n_found(self) -> int:
        """Bicliques counted so far."""
        return int(self._found_host[0])

    def begin(self, plan: MemoryPlan) -> None:
        """Set what a slice begins with."""
        self.host[at.SIGNAL] = self.host[at.STATUS] = 0
        self.host[at.N_BUSY] = plan.n_warps
        self.wide_host[at.MEMBERS_TOP : at.NEEDED_MEMBERS + 1] = 0
        self.wide_host[at.SLICE_NS] = int(plan.slice_seconds * 1e9)
        self.wide_host[at.CHUNK_MEMBERS] = plan.chunk_members
        upload(self._host, self._device)

    def finish(self, found_by_warp: cp.ndarray) -> None:
        """Wait for the slice, and read what it left."""
        found_by_warp.sum(out=self._found)
        self._host[: self._n_read_back] = cp.asnumpy(self._device[: self._n_read_back])
