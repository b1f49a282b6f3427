"""Open nodes as arrays on the host, saved between two quanta: for every search with a pool of nodes.

The children of a node are a range. So a child that a warp did not finish is saved as a node with one child.

The arrays may come from a file that others can write. So all values that kernels use as positions, or that bound their
steps, are checked first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.search.cuda import control as layout

Arrays = dict[str, np.ndarray]

SAVED_SHARE = 2
"""Saved work may take the host's memory budget divided by this; else a barrier waits for the begun roots."""
DTYPES: dict[str, Any] = {"order": np.int32, "nodes": np.int64, "words": np.uint32}
"""Roots that have not begun, nodes with children left, and the words of their blocks, at `layout.OFFSET`."""
_DIMENSIONS = {"nodes": 2, "tasks": 2, "frames": 3}


def nodes_of(fields: np.ndarray, pending: np.ndarray) -> np.ndarray:
    """Return the nodes with children left, and a node for each child to start over.

    Parameters
    ----------
    fields : (n, NODE_FIELDS) int64
    pending : (m, 2) int64
        Node and child to start over.
    """
    again = fields[pending[:, 0]]
    again[:, layout.CURSOR], again[:, layout.END] = pending[:, 1], pending[:, 1] + 1
    return np.concatenate([fields[fields[:, layout.CURSOR] < fields[:, layout.END]], again])


def merged(works: Sequence[Arrays]) -> Arrays:
    """Merge the work of several sessions into one."""
    if len(works) == 1:
        return dict(works[0])
    together = {name: np.concatenate([work[name] for work in works]) for name in works[0]}
    n_nodes, n_words = 0, 0
    for work in works:
        together["nodes"][n_nodes : n_nodes + len(work["nodes"]), layout.OFFSET] += n_words
        n_nodes, n_words = n_nodes + len(work["nodes"]), n_words + work["words"].size
    return together


def check_arrays(arrays: Arrays, dtypes: Mapping[str, Any], n_roots: int, n_fields: int = layout.NODE_FIELDS) -> None:
    """Check types and dimensions of the arrays, the fields of a node, and the order of the roots.

    Raises
    ------
    InvalidArgument
        One is wrong; the message names it.
    """
    for name, dtype in dtypes.items():
        if name not in arrays or arrays[name].dtype != dtype or arrays[name].ndim != _DIMENSIONS.get(name, 1):
            raise damaged(name)
    order = arrays["order"]
    if not are_below(order, n_roots) or np.unique(order).size != order.size:
        raise damaged("order")
    if arrays["nodes"].shape[1] != n_fields:
        raise damaged("nodes")


def are_below(values: np.ndarray, limit: Any) -> bool:
    """Return True if no value is negative, or reaches the limit, one for all or one for each."""
    return bool(((values >= 0) & (values < limit)).all())


def damaged(name: str) -> InvalidArgument:
    """Return the error for a wrong array."""
    return InvalidArgument(
        f"the saved work of a search is damaged (array {name!r}): expected work of the same graph and query, as the "
        "engine cuda saves it; start over without --resume"
    )
