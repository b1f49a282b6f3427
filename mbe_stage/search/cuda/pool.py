"""Open nodes kept between two quanta, and how their words are moved together in the pool."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.device import whole_lines
from mbe_stage.device.copying import copy_pieces
from mbe_stage.search.cuda import control as layout


class KeptNodes:
    """The nodes that have children left, or a child that a warp took and could not finish.

    Parameters
    ----------
    nodes : (n_nodes, NODE_FIELDS) int64
    pending : (n_warps,) int64, on the host
        Nodes whose child a warp has to start over; below 0 for none.

    Attributes
    ----------
    live : (n,) int64, on the host
        The numbers of the nodes, ascending.
    fields : (n, NODE_FIELDS) int64
        A copy of the nodes. `write` changes where their blocks begin.
    n, n_words : int
        Number of nodes, and of words of their blocks. Blocks begin on cache lines; entries of one frame's stack share
        one.
    """

    def __init__(self, nodes: cp.ndarray, pending: np.ndarray) -> None:
        is_kept = nodes[:, layout.CURSOR] < nodes[:, layout.END]
        is_kept[cp.asarray(pending[pending >= 0])] = True
        kept = cp.flatnonzero(is_kept)
        self.live, self.fields = cp.asnumpy(kept), nodes[kept]
        blocks = cp.asnumpy(self.fields[:, [layout.OFFSET, layout.WORDS]])
        self._starts, first, block_of = np.unique(blocks[:, 0], return_index=True, return_inverse=True)
        self._sizes, self._block_of = blocks[first, 1], block_of.reshape(-1)
        self._ends = np.cumsum(whole_lines(self._sizes))
        self._places = self._ends - whole_lines(self._sizes)
        self.n, self.n_words = self.live.size, int(self._ends[-1]) if self._ends.size else 0

    def copy(self, words: cp.ndarray, target: cp.ndarray, first: int = 0, stop: int | None = None) -> None:
        """Copy some blocks, by default all, to the beginning of another array, contiguously."""
        starts, sizes, places = self._starts[first:stop], self._sizes[first:stop], self._places[first:stop]
        copy_pieces(words.view(cp.int32), starts, sizes, target.view(cp.int32), places - places[:1])

    def slide(self, words: cp.ndarray, room: int) -> None:
        """Move all blocks to the beginning of their pool. No block moves towards the end, so none is overwritten.

        Parameters
        ----------
        words : uint32
        room : int
            Words of device memory available for this, at least the size of the largest block.
        """
        is_elsewhere = self._starts != self._places
        first = int(np.argmax(is_elsewhere)) if is_elsewhere.any() else self._ends.size
        while first < self._ends.size:
            place = int(self._places[first])
            stop = max(first + 1, int(np.searchsorted(self._ends, place + room, side="right")))
            together = cp.empty(int(self._ends[stop - 1]) - place, cp.uint32)
            self.copy(words, together, first, stop)
            words[place : int(self._ends[stop - 1])] = together
            first = stop

    def write(self, nodes: cp.ndarray, control: np.ndarray) -> None:
        """Write the nodes to the beginning of a table, and their number into the control words on the host."""
        self.fields[:, layout.OFFSET] = cp.asarray(self._places[self._block_of])
        self.fields[:, layout.LINK] = layout.ANYBODYS
        nodes.fill(0)
        nodes[: self.n] = self.fields
        control[layout.N_NODES], control[layout.POOL_TOP] = self.n, self.n_words
        control[layout.N_OPEN] = int((self.fields[:, layout.CURSOR] < self.fields[:, layout.END]).sum())

    def numbers(self, nodes: np.ndarray) -> np.ndarray:
        """Return the new numbers of some nodes; numbers below 0 stay."""
        return np.where(nodes >= 0, np.searchsorted(self.live, nodes), nodes)
