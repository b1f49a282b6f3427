"""Partition a core into parts that are searched one by one within a budget: sets of roots with their data.

A biclique belongs to its first row, so disjoint sets of roots have disjoint bicliques. The subtree of a root needs only
its columns and their later rows. A *part* has the columns of some roots, and for each column the rows from the first of
these roots on. So a part needs no data of others (BCPar: GBC, section VI). Data that cannot be in a wanted biclique is
left out: columns with too few rows from the root on, and rows with too few of the part's columns.

All arrays are on the host. For the choice of a part's roots see `docs/decisions/parts-of-a-graph.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs import csr
from mbe_stage.graphs.csr import reordered, transposed
from mbe_stage.pq_counts.ordering import RowLists
from mbe_stage.pq_counts.partition_loops import (
    Core,
    Fewest,
    PartLists,
    Prices,
    assign_parts,
    lists_of_part,
    places_and_paths,
)
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import steps_of

__all__ = [
    "Core",
    "Fewest",
    "GraphPart",
    "PartLists",
    "PartSizes",
    "Prices",
    "compile_steps",
    "core_of",
    "cut",
    "lists_of",
]


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Sizes of a part.

    Attributes
    ----------
    n_root_entries, n_column_entries : int
        Entries in the lists of its roots, and in those of its columns.
    max_row_degree, max_column_degree : int
        Longest list of a root and of a column. No node has more columns than `max_row_degree`.
    max_matrix_rows : int
        Most rows that share enough columns with one of the roots, so the most rows of a node. If many short columns
        meet in a root, this is far above `max_column_degree`.
    max_node_words : int
        Most 32-bit words of a root's matrix, with its rows and its columns as bits.
    paths : int
        Two-step paths from its roots to later rows.
    """

    n_roots: int
    n_rows: int
    n_columns: int
    n_root_entries: int
    n_column_entries: int
    max_row_degree: int
    max_column_degree: int
    max_matrix_rows: int
    max_node_words: int
    paths: int

    @property
    def list_bytes(self) -> int:
        """Bytes of the part's arrays."""
        offsets = 8 * (self.n_rows + self.n_columns + 2)
        return offsets + 12 * self.n_root_entries + 4 * self.n_column_entries + 4 * self.n_roots


@dataclass(frozen=True, slots=True, eq=False)
class GraphPart:
    """Some roots, and the sizes of the data read for them.

    Attributes
    ----------
    roots : (n_roots,) int32
        Rows of the core, ascending.
    """

    roots: np.ndarray
    sizes: PartSizes


def core_of(lists: RowLists, fewest: Fewest) -> Core:
    """Prepare a core to be cut, with its columns in ascending degree, too.

    Parameters
    ----------
    lists : RowLists
        Result of `ordering.row_lists`.
    """
    row_offsets, _, column_offsets, rows = lists
    order = np.argsort(np.diff(column_offsets), kind="stable")
    column_offsets, rows = reordered(column_offsets, rows, order)
    columns = transposed(column_offsets, rows, row_offsets)
    positions, paths = np.empty(columns.size, np.int32), np.zeros(row_offsets.size - 1, np.int64)
    core = Core(row_offsets, columns, positions, column_offsets, rows, paths, fewest)
    places_and_paths(core)
    return core


def cut(core: Core, prices: Prices, wanted: np.ndarray | None = None) -> list[GraphPart]:
    """Cut a core into parts that fit a budget; a part keeps half of the warps that its first root alone would have.

    Parameters
    ----------
    wanted : integers, optional
        The roots, by default all. Roots without paths are in no part.

    Raises
    ------
    MemoryBudgetExceeded
        A root alone does not fit; `needed_bytes` is enough for each of them.
    """
    roots = np.flatnonzero(core.paths)
    if wanted is not None:
        roots = np.intersect1d(roots, wanted)
    order = np.ascontiguousarray(roots[::-1], np.int32)
    ends, sizes, needed = assign_parts(core, order, prices)
    if needed > 0:
        raise MemoryBudgetExceeded(
            f"counting what is below one vertex needs {needed:,} bytes of device memory, the budget is "
            f"{prices.budget:,}: raise it (device_memory_bytes), or use the engine cpu",
            needed_bytes=needed,
        )
    bounds = pairwise([0, *ends.tolist()])
    return [
        GraphPart(np.sort(order[start:end]), PartSizes(*row))
        for (start, end), row in zip(bounds, sizes.tolist(), strict=True)
    ]


def lists_of(core: Core, part: GraphPart) -> PartLists:
    """Collect the lists read for the roots of a part, which `cut` made of the same core."""
    busiest_first = part.roots[np.argsort(-core.paths[part.roots], kind="stable")]
    return PartLists(*lists_of_part(core, busiest_first))


def compile_steps() -> Sequence[CompileStep]:
    """Compile the functions of this module."""
    return (*csr.compile_steps(), *steps_of(places_and_paths, assign_parts, lists_of_part))
