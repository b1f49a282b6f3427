"""The words that all warps share and that the host sets before a quantum and reads after it, in one piece of memory."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan
from mbe_stage.device.arrays import upload


class Control:
    """Control words, idle mask and mailboxes: one copy to the device begins a quantum, one back ends it.

    Parameters
    ----------
    pool_top : int
        Entries of the pool that node 0 takes.
    constraints : (6,) int64
        As in `layout.Pool`.

    Attributes
    ----------
    fields : (CONTROL_FIELDS,) int32
    fields_64 : (CONTROL_64_FIELDS,) int64
    constraints : (6,) int64
    idle_mask : ((n_warps + 31) // 32,) uint32
    mailbox : (n_warps,) int32
        As in `layout`, on the device.
    host, host_64
        The same fields on the host, as the last quantum left them. What is changed here is what the next one begins
        with.
    n_found : int
        Bicliques counted so far.
    """

    def __init__(self, n_warps: int, pool_top: int, constraints: np.ndarray) -> None:
        # In this order, the 64-bit words first: what was found, 64-bit fields, constraints; fields; idle mask;
        # mailboxes.
        fields_64_at = 8
        constraints_at = fields_64_at + 8 * at.CONTROL_64_FIELDS
        fields_at = constraints_at + constraints.nbytes
        mask_at = fields_at + 4 * at.CONTROL_FIELDS
        mailbox_at = mask_at + 4 * ((n_warps + 31) // 32)
        n_bytes = mailbox_at + 4 * n_warps
        self._device = cp.empty(n_bytes, cp.uint8)
        self._host = np.zeros(n_bytes, np.uint8)
        self._n_read_back = mask_at
        self._found = self._device[:fields_64_at].view(cp.int64).reshape(())
        self.fields_64 = self._device[fields_64_at:constraints_at].view(cp.int64)
        self.constraints = self._device[constraints_at:fields_at].view(cp.int64)
        self.fields = self._device[fields_at:mask_at].view(cp.int32)
        self.idle_mask = self._device[mask_at:mailbox_at].view(cp.uint32)
        self.mailbox = self._device[mailbox_at:].view(cp.int32)
        self._found_host = self._host[:fields_64_at].view(np.int64)
        self.host_64 = self._host[fields_64_at:constraints_at].view(np.int64)
        self.host = self._host[fields_at:mask_at].view(np.int32)
        self._host[constraints_at:fields_at].view(np.int64)[:] = constraints
        self.host[at.N_NODES] = self.host[at.N_OPEN] = 1
        self.host_64[at.POOL_TOP] = pool_top

    @property
    def n_found(self) -> int:
        """Bicliques counted so far."""
        return int(self._found_host[0])

    def begin(self, plan: MemoryPlan) -> None:
        """Set what a quantum begins with."""
        self.host[at.SIGNAL] = self.host[at.STATUS] = 0
        self.host[at.N_BUSY] = plan.n_warps
        self.host_64[at.MEMBERS_TOP : at.NEEDED_MEMBERS + 1] = 0
        self.host_64[at.QUANTUM_NS] = int(plan.quantum_seconds * 1e9)
        self.host_64[at.CHUNK_MEMBERS] = plan.chunk_members
        upload(self._host, self._device)

    def finish(self, found_by_warp: cp.ndarray) -> None:
        """Wait for the quantum, and read what it left."""
        found_by_warp.sum(out=self._found)
        self._host[: self._n_read_back] = cp.asnumpy(self._device[: self._n_read_back])
