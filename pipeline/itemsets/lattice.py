"""Concept lattices: all concepts of a context, and their cover relation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.results import BicliqueTable
from mbe_stage.engines import AUTO
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline.io.cxt import Context
from mbe_stage.pipeline.itemsets.baskets import baskets_of
from mbe_stage.pipeline.itemsets.rules import closed_with_covers


@dataclass(frozen=True, slots=True, eq=False)
class ConceptLattice:
    """All concepts of a context, and their cover relation.

    Attributes
    ----------
    concepts : pa.Table
        Columns `extent` and `intent`: positions of objects and of attributes, ascending. The rows are ordered by the
        size of the extent, so the least concept is the first and the greatest the last.
    covers : pa.Table
        Columns `lower` and `upper`, rows of `concepts`: the upper concept is greater, and none lies between the two.
    """

    concepts: pa.Table
    covers: pa.Table


def concept_lattice(context: Any, *, engine: str = AUTO, threads: int = 0) -> ConceptLattice:
    """Return the concept lattice of a context.

    Parameters
    ----------
    context
        A `Context`, or baskets as `closed_itemsets` takes them: transactions are objects, items attributes.
    engine, threads
        See `closed_itemsets`.

    Raises
    ------
    InvalidArgument, InputError
        See `closed_itemsets`.

    Examples
    --------
    >>> context = Context(("tea", "milk"), ("hot", "white"), np.array([[True, False], [True, True]]))
    >>> lattice = concept_lattice(context, engine="reference")
    >>> lattice.concepts["intent"].to_pylist(), lattice.covers.to_pylist()
    ([[0, 1], [0]], [{'lower': 0, 'upper': 1}])
    """
    baskets = baskets_of(context.incidence if isinstance(context, Context) else context)
    graph = BipartiteCSR.from_edges(baskets.rows, baskets.items, baskets.n_rows, len(baskets.names))
    table, upper, lower = closed_with_covers(graph, 1, engine, threads)
    if not (np.diff(table.right_offsets) == graph.n_right).any():
        # The added concept without objects is directly below every concept that is above no other one.
        lowest = np.setdiff1d(np.arange(len(table)), upper)
        upper, lower = np.append(upper, lowest), np.append(lower, np.full(lowest.size, len(table)))
        table = GroupMembers.joined([table, GroupMembers.of([((), range(graph.n_right))])])
    return _ordered(table, lower, upper)


def _ordered(table: BicliqueTable, lower: np.ndarray, upper: np.ndarray) -> ConceptLattice:
    extents, intents = (
        [members[start:end].tolist() for start, end in pairwise(offsets)]
        for offsets, members in ((table.left_offsets, table.left_members), (table.right_offsets, table.right_members))
    )
    order = sorted(range(len(table)), key=lambda row: (len(extents[row]), extents[row]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order))
    lists = pa.list_(pa.int32())
    concepts = {
        name: pa.array([of_rows[row] for row in order], lists)
        for name, of_rows in (("extent", extents), ("intent", intents))
    }
    pairs = pa.table({"lower": ranks[lower], "upper": ranks[upper]})
    return ConceptLattice(pa.table(concepts), pairs.sort_by([("lower", "ascending"), ("upper", "ascending")]))
