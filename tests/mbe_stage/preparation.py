"""Check the device's preparation of a graph against the host's reduction; on CuPy or its stand-in."""

from __future__ import annotations

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR
from mbe_stage.bicliques.cpu.layout import subgraph_parts
from mbe_stage.bicliques.ordering import Arranged, arranged
from mbe_stage.bicliques.reduction import core_of

__all__ = ["differences", "expected", "graph_of", "is_sorted_as_expected", "prepared"]


def graph_of(made: Arranged) -> BipartiteCSR:
    """Return the graph of a node, its rows on the right."""
    n_rows, n_columns = made.rows.n, made.columns.n
    n_edges = (made.node.size - subgraph_parts(n_rows, n_columns, 0)[-1] - n_columns) // 2
    _, row_offsets, column_offsets, row_members, column_members, end = subgraph_parts(n_rows, n_columns, n_edges)
    return BipartiteCSR(
        n_left=n_columns,
        n_right=n_rows,
        left_offsets=made.node[column_offsets:row_members].astype(np.int64),
        left_members=made.node[column_members:end],
        right_offsets=made.node[row_offsets:column_offsets].astype(np.int64),
        right_members=made.node[row_members:column_members],
    )


def differences(found: dict[str, np.ndarray] | None, wanted: dict[str, np.ndarray] | None) -> list[str]:
    if found is None or wanted is None:
        return [] if found is wanted else ["whether anything is left"]
    assert found.keys() == wanted.keys()
    return [name for name in wanted if not np.array_equal(found[name], wanted[name])]


def expected(graph: BipartiteCSR, query: BicliqueQuery) -> dict[str, np.ndarray] | None:
    """Return node 0, groups and paths by the host's reduction; None if nothing is left."""
    made = arranged(core_of(graph, query))
    small = graph_of(made)
    if small.n_edges == 0:
        return None
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
    result = {"ints": np.concatenate(parts), "paths": paths}
    for side, groups in (("rows", made.rows), ("columns", made.columns)):
        result |= {
            f"offsets of {side}": groups.offsets,
            f"members of {side}": groups.members,
            f"multiplicities of {side}": groups.multiplicities,
        }
    return result


def prepared(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> dict[str, np.ndarray] | None:
    """Return the same by the device's preparation."""
    import cupy as cp

    from mbe_stage.bicliques.cuda import layout
    from mbe_stage.bicliques.cuda.prepare import prepare

    made = prepare(graph, query, n_blocks, 1 << 33)
    if made is None:
        return None
    facts = made.facts
    d_ints, d_nodes = cp.full(facts.pool_ints + 5, -7, cp.int32), cp.zeros((2, layout.NODE_FIELDS), cp.int64)
    roots = made.write(d_ints, d_nodes)
    ints, nodes, paths, order = map(cp.asnumpy, (d_ints, d_nodes, roots.paths, roots.order))
    assert nodes[0, : layout.NODE_END + 1].tolist() == [
        0,
        facts.n_columns,
        facts.n_rows,
        facts.n_edges,
        0,
        facts.n_rows,
    ]
    assert facts.wedges == paths.sum()
    row_offsets = ints[2 * facts.n_columns + 1 + facts.n_rows :][: facts.n_rows + 1]
    assert facts.max_row_degree == np.diff(row_offsets).max()
    # Most paths first, to within an eighth.
    assert np.array_equal(np.sort(order), np.arange(facts.n_rows))
    in_order = paths[order]
    assert (np.minimum.accumulate(in_order) * 1.125 + 1 > in_order).all()
    n_ints = 2 * facts.n_rows + 3 * facts.n_columns + 3 + 2 * facts.n_edges
    assert (ints[n_ints:] == -7).all()
    result = {"ints": ints[:n_ints], "paths": paths}
    for side, groups, multiplicities in zip(("rows", "columns"), made.groups(), made.multiplicities(), strict=True):
        result |= _groups(side, *map(cp.asnumpy, (*groups, multiplicities)))
    return result


def _groups(
    side: str, offsets: np.ndarray, members: np.ndarray, alone: np.ndarray, multiplicities: np.ndarray
) -> dict[str, np.ndarray]:
    """Return offsets from 0 on and members in order; check that `alone` agrees."""
    members = members[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    of = np.repeat(np.arange(multiplicities.size), multiplicities)
    members = members[np.lexsort((members, of))]
    assert np.array_equal(alone, np.where(multiplicities == 1, members[offsets[:-1]], -1))
    return {f"offsets of {side}": offsets, f"members of {side}": members, f"multiplicities of {side}": multiplicities}


def is_sorted_as_expected(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> bool:
    """Return whether the device sorts the columns as NumPy does, by the words of their last rows."""
    import cupy as cp

    from mbe_stage.bicliques.cuda import layout
    from mbe_stage.bicliques.cuda.prepare import LONG_ROW, prepare

    made = prepare(graph, query, n_blocks, 1 << 33, sorts_columns=True)
    assert made is not None
    if not made.facts.is_sorted:
        return made.facts.max_row_degree < LONG_ROW
    n_rows, n, n_edges = made.facts.n_rows, made.facts.n_columns, made.facts.n_edges
    d_ints, d_nodes = cp.zeros(made.facts.pool_ints, cp.int32), cp.zeros((1, layout.NODE_FIELDS), cp.int64)
    made.write(d_ints, d_nodes)
    ends = np.cumsum([n + 1, n, n_rows, n_rows + 1, n + 1, n_edges, n_edges])
    ids_at, row_ids_at, row_offsets_at, offsets_at, row_members_at, members_at, end = ends
    before = cp.asnumpy(d_ints)
    prefixes = cp.asnumpy(made.sorted_columns(d_ints)).view(np.uint64)
    after = cp.asnumpy(d_ints)
    holds = np.zeros((n, n_rows), np.bool_)
    row_offsets = before[row_offsets_at:offsets_at]
    holds[before[row_members_at:members_at], np.repeat(np.arange(n_rows), np.diff(row_offsets))] = True
    last = holds[:, max(0, n_rows - layout.PREFIX_ROWS) :]
    bits = np.uint64(1) << np.arange(layout.PREFIX_ROWS - last.shape[1], layout.PREFIX_ROWS).astype(np.uint64)
    words = (last * bits).sum(axis=1, dtype=np.uint64)
    order = np.argsort(words, kind="stable")
    columns, members = np.nonzero(holds[order])
    row_members = np.nonzero(holds[order].T)[1]
    offsets = np.searchsorted(columns, np.arange(n + 1))
    wanted = [before[:ids_at], order, before[row_ids_at:row_offsets_at], row_offsets, offsets, row_members, members]
    _, multiplicities = map(cp.asnumpy, made.multiplicities())
    made.write_sizes(d_ints)
    sizes = (last * multiplicities[:, None]).sum(axis=0)
    return (
        np.array_equal(after[:end], np.concatenate(wanted))
        and np.array_equal(prefixes[layout.PREFIX_ROWS :], words[order])
        and np.array_equal(prefixes[layout.PREFIX_ROWS - sizes.size : layout.PREFIX_ROWS], sizes)
        and not prefixes[: layout.PREFIX_ROWS - sizes.size].any()
        and np.array_equal(np.diff(cp.asnumpy(d_ints)[: n + 1]), multiplicities[order])
    )
