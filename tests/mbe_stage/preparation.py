"""What the device's preparation of a graph must come to, by the host's reduction; on CuPy or on its stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR
from mbe_stage.ordering import enumerates_left, rows_by_degree
from mbe_stage.reduction import reduce_graph

__all__ = ["expected", "prepared"]


def expected(graph: BipartiteCSR, query: BicliqueQuery) -> dict[str, Any] | None:
    """Node 0, the groups and the paths, from the host's reduction; None where nothing is left."""
    reduced = reduce_graph(graph, query)
    if reduced.graph.n_edges == 0:
        return None
    if enumerates_left(reduced.graph):
        reduced = reduced.swapped()
    reduced = rows_by_degree(reduced)
    small = reduced.graph
    parts = (
        np.arange(small.n_left + 1),
        np.arange(small.n_left),
        np.arange(small.n_right),
        small.right_offsets,
        small.left_offsets,
        small.right_members,
        small.left_members,
    )
    paths = np.add.reduceat(small.left_degrees[small.right_members], small.right_offsets[:-1])
    return {
        "ints": np.concatenate(parts).tolist(),
        "paths": paths.tolist(),
        "groups": [
            (groups.offsets.tolist(), groups.members.tolist(), groups.weights.tolist())
            for groups in (reduced.right_groups, reduced.left_groups)
        ],
    }


def prepared(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> dict[str, Any] | None:
    """The same, from the device's preparation."""
    import cupy as cp

    from mbe_stage.bicliques.cuda import layout as at
    from mbe_stage.bicliques.cuda.prepare import prepare

    made = prepare(graph, query, n_blocks, 1 << 33)
    if made is None:
        return None
    facts = made.facts
    d_ints, d_nodes = cp.full(facts.pool_ints + 5, -7, cp.int32), cp.zeros((2, at.NODE_FIELDS), cp.int64)
    roots = made.write(d_ints, d_nodes, n_blocks)
    ints, nodes, paths, order = map(cp.asnumpy, (d_ints, d_nodes, roots.paths, roots.order))
    assert nodes[0, : at.NODE_END + 1].tolist() == [0, facts.n_columns, facts.n_rows, facts.n_edges, 0, facts.n_rows]
    assert facts.wedges == paths.sum()
    row_offsets = ints[2 * facts.n_columns + 1 + facts.n_rows :][: facts.n_rows + 1]
    assert facts.max_row_degree == np.diff(row_offsets).max()
    # The most paths first, to within an eighth.
    assert sorted(order.tolist()) == list(range(facts.n_rows))
    in_order = paths[order]
    assert (np.minimum.accumulate(in_order) * 1.125 + 1 > in_order).all()
    n_ints = 2 * facts.n_rows + 3 * facts.n_columns + 3 + 2 * facts.n_edges
    assert (ints[n_ints:] == -7).all()
    return {
        "ints": ints[:n_ints].tolist(),
        "paths": paths.tolist(),
        "groups": [
            _groups(*map(cp.asnumpy, (*groups, weights)))
            for groups, weights in zip(made.groups(), made.weights(), strict=True)
        ],
    }


def _groups(offsets: np.ndarray, members: np.ndarray, alone: np.ndarray, weights: np.ndarray) -> tuple[list, ...]:
    """Offsets from 0 on, and members in order; that `alone` says the same is checked on the way."""
    members = members[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    of = np.repeat(np.arange(weights.size), weights)
    members = members[np.lexsort((members, of))]
    assert alone.tolist() == np.where(weights == 1, members[offsets[:-1]], -1).tolist()
    return offsets.tolist(), members.tolist(), weights.tolist()
