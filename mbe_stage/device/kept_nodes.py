"""Open nodes that are kept between two quanta: moved into a new pool, and nobody's own any more."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.device import node_layout as at
from mbe_stage.device.copying import copy_pieces

__all__ = ["KeptNodes"]


class KeptNodes:
    """The nodes that have children left, or of which a warp has one in its hands.

    Parameters
    ----------
    nodes : (n_nodes, NODE_FIELDS) int64
    pending : (n_warps,) int64, on the host
        The nodes of the children that warps have to begin anew; below 0 for none.

    Attributes
    ----------
    n : int
    fields : (n, NODE_FIELDS) int64
        Of the nodes, as they stand; where their blocks begin changes when they are moved.
    n_words : int
        Of their blocks, each on cache lines of its own; several nodes may have one block.
    """

    def __init__(self, nodes: cp.ndarray, pending: np.ndarray) -> None:
        is_kept = nodes[:, at.CURSOR] < nodes[:, at.END]
        is_kept[cp.asarray(pending[pending >= 0])] = True
        kept = cp.flatnonzero(is_kept)
        self.fields = nodes[kept]
        self._numbers = np.full(is_kept.size, -1, np.int64)
        self._numbers[cp.asnumpy(kept)] = np.arange(kept.size)
        blocks = cp.asnumpy(self.fields[:, [at.OFFSET, at.WORDS]])
        self._starts, first, self._block_of = np.unique(blocks[:, 0], return_index=True, return_inverse=True)
        self._sizes = blocks[first, 1]
        ends = np.cumsum(-(-self._sizes // 32) * 32)
        self._places = ends - -(-self._sizes // 32) * 32
        self.n, self.n_words = int(kept.size), int(ends[-1]) if ends.size else 0

    def move(self, words: cp.ndarray, new_words: cp.ndarray, new_nodes: cp.ndarray) -> int:
        """Copy blocks and nodes to the beginning of a pool and of a table; how many of them have children left.

        Parameters
        ----------
        words, new_words : uint32
            The old pool and the new one.
        new_nodes : (n_nodes, NODE_FIELDS) int64
            It may be the old table.
        """
        copy_pieces(words.view(cp.int32), self._starts, self._sizes, new_words.view(cp.int32), self._places)
        self.fields[:, at.OFFSET] = cp.asarray(self._places[self._block_of.reshape(-1)])
        self.fields[:, at.LINK] = at.ANYBODYS
        new_nodes.fill(0)
        new_nodes[: self.n] = self.fields
        return int((self.fields[:, at.CURSOR] < self.fields[:, at.END]).sum())

    def numbers(self, nodes: np.ndarray) -> np.ndarray:
        """The new numbers of some nodes; what is below 0 stays."""
        return np.where(nodes >= 0, self._numbers[np.maximum(nodes, 0)], nodes)
