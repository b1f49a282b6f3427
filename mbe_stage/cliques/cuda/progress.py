"""Which roots a search has not finished: those that open nodes are below, and those in the hands of warps."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.cliques.cuda import layout as at

__all__ = ["unfinished_roots"]


def unfinished_roots(nodes: cp.ndarray, words: cp.ndarray, pending: np.ndarray, order: cp.ndarray) -> int:
    """How many of the roots that were begun are not finished.

    Parameters
    ----------
    nodes : (n_nodes, NODE_FIELDS) int64
        Those that have children left, or that a warp has a child of in its hands.
    words : uint32
        Their blocks.
    pending : (n_warps, 2) int64, on the host
        The node and the child that each warp has in its hands.
    order : (n_roots,) int32
    """
    places = nodes[:, at.OFFSET] + cp.where(nodes[:, at.KIND] == at.FRAME, at.BASE_AT, nodes[:, at.N_CANDIDATES])
    # The root is the first vertex of every base.
    of_nodes = words[places].astype(cp.int64)
    begun = pending[pending[:, 0] == at.ROOT, 1]
    firsts = pending[pending[:, 0] == at.SMALL, 1]
    numbers = (firsts[:, None] + np.arange(at.ROOTS_AT_ONCE)).reshape(-1)
    small = order[cp.asarray(numbers[numbers < order.size])].astype(cp.int64)
    return int(cp.unique(cp.concatenate([of_nodes, cp.asarray(begun), small])).size)
