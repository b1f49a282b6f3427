"""Cut a core into parts that are searched one by one within a budget: sets of roots with their data.

A biclique belongs to its first row, so disjoint sets of roots have disjoint bicliques. The subtree of a root needs only
its columns and their later rows. A *part* has the columns of some roots, and for each column the rows from the first of
these roots on. So a part needs no data of other parts (BCPar: GBC, section VI). Data that no wanted biclique can
contain is left out: columns with too few rows from the root on, and rows with too few of the part's columns.

All arrays are on the host. For the choice of a part's roots see `docs/decisions/parts-of-a-graph.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import int64, njit, types

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs import csr
from mbe_stage.graphs.csr import reordered, transposed
from mbe_stage.pq_counts.ordering import RowLists
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# Fields of a part's sizes, in the order of `partition.PartSizes`.
ROOTS, ROWS, COLUMNS, ROOT_ENTRIES, COLUMN_ENTRIES, ROW_DEGREE, COLUMN_DEGREE = range(7)
MATRIX_ROWS, NODE_WORDS, PATHS = range(7, 10)
N_SIZES = 10
_NUMBER_BITS = 32


class Fewest(NamedTuple):
    """Numbers of rows and columns of the smallest wanted biclique, at least two."""

    rows: int
    columns: int


class Core(NamedTuple):
    """A core with rows and columns in ascending degree, as the CUDA engine numbers them.

    Attributes
    ----------
    row_offsets : (n_rows + 1,) int64
    columns : (n_edges,) int32
        Columns of each row, ascending.
    positions : (n_edges,) int32
        For each entry of `columns`, the position of its row in `rows`.
    column_offsets : (n_columns + 1,) int64
    rows : (n_edges,) int32
        Rows of each column, ascending.
    paths : (n_rows,) int64
        Number of two-step paths from each row to later rows, through columns with enough later rows; 0 if no wanted
        biclique begins there.
    """

    row_offsets: np.ndarray
    columns: np.ndarray
    positions: np.ndarray
    column_offsets: np.ndarray
    rows: np.ndarray
    paths: np.ndarray
    fewest: Fewest


class Prices(NamedTuple):
    """Device memory for searching a part besides its lists, in bytes, and the cost of a part.

    Attributes
    ----------
    fixed : int
        Bytes for any part.
    reserve : int
        Memory that speeds up the search: this much, or half of the memory left after all necessary data.
    degree : int
        Bytes for each column of the longest root, or for each row of the largest matrix, whichever are fewer: this
        bounds the leaf signatures of a node.
    node_word : int
        Bytes for each word of the largest node.
    warp, warp_row, warp_matrix_row, warp_word : int
        Bytes for each warp; and, for each warp, bytes per row, per row of the largest matrix of a root, and per word of
        a column mask.
    paths : int
        Number of two-step paths that a warp walks in the time that a part costs.
    """

    budget: int
    fixed: int
    reserve: int
    degree: int
    node_word: int
    warp: int
    warp_row: int
    warp_matrix_row: int
    warp_word: int
    least_warps: int
    most_warps: int
    paths: int


class PartLists(NamedTuple):
    """Lists of a part; rows and columns have new numbers in the order of the core.

    Attributes
    ----------
    row_offsets : (n_rows + 1,) int64
        Offsets of the rows' columns; rows that are not roots have none.
    row_members : (n_root_entries,) int32
    positions : (n_root_entries,) int64
        For each entry of `row_members`, the position of its row in `column_members`.
    column_offsets : (n_columns + 1,) int64
    column_members : (n_column_entries,) int32
    order : (n_roots,) int32
        The roots, in descending number of two-step paths.
    """

    row_offsets: np.ndarray
    row_members: np.ndarray
    positions: np.ndarray
    column_offsets: np.ndarray
    column_members: np.ndarray
    order: np.ndarray


_FEWEST = types.NamedUniTuple(int64, 2, Fewest)


_CORE = types.NamedTuple((LONGS, INTS, INTS, LONGS, INTS, LONGS, _FEWEST), Core)


_PRICES = types.NamedUniTuple(int64, 12, Prices)


@compiled(_CORE)
def places_and_paths(core):
    """Compute the positions and paths of a core.

    Parameters
    ----------
    core : Core
        A core with uninitialised positions and zero paths.
    """
    n_rows = core.paths.size
    ends, degrees = core.row_offsets[:-1].copy(), np.zeros(n_rows, np.int32)
    for column in range(core.column_offsets.size - 1):
        stop = core.column_offsets[column + 1]
        for j in range(core.column_offsets[column], stop):
            row = core.rows[j]
            core.positions[ends[row]] = j
            ends[row] += 1
            if stop - j >= core.fewest.rows:
                degrees[row] += 1
                core.paths[row] += stop - 1 - j
    for row in range(n_rows):
        if degrees[row] < core.fewest.columns:
            core.paths[row] = 0


@njit(nogil=True, inline="always")
def _add_root(core, root, part, seen, owners, firsts, sizes):
    """Add a root, and the data that it needs, to the sizes of a part.

    Parameters
    ----------
    part : int
        Number of the part, larger than those of earlier parts.
    seen : (n_rows,) int64
        The last part that loaded entries of a row, in the bits above the number of entries.
    owners : (n_columns,) int32
        The last part that loaded a column.
    firsts : (n_columns,) int32
        First entry of the column loaded by that part.
    sizes : (N_SIZES,) int64
    """
    fewest = core.fewest
    none = int64(part) << _NUMBER_BITS
    degree = 0
    for k in range(core.row_offsets[root], core.row_offsets[root + 1]):
        column, first = core.columns[k], core.positions[k]
        stop = core.column_offsets[column + 1]
        if stop - first < fewest.rows:
            continue
        degree += 1
        start = stop
        if owners[column] == part:
            start = firsts[column]
        else:
            owners[column] = part
            firsts[column] = stop
            sizes[COLUMNS] += 1
        if first >= start:
            continue
        firsts[column] = first
        sizes[COLUMN_DEGREE] = max(sizes[COLUMN_DEGREE], stop - first)
        for j in range(first, start):
            row = core.rows[j]
            number = max(seen[row], none) + 1
            seen[row] = number
            # Rows with too few entries are left out in the end.
            if number - none == fewest.columns:
                sizes[ROWS] += 1
                sizes[COLUMN_ENTRIES] += fewest.columns
            elif number - none > fewest.columns:
                sizes[COLUMN_ENTRIES] += 1
    sizes[ROOTS] += 1
    sizes[ROOT_ENTRIES] += degree
    sizes[ROW_DEGREE] = max(sizes[ROW_DEGREE], degree)
    sizes[PATHS] += core.paths[root]
    n_rows = min(core.paths.size - 1 - root, core.paths[root] // fewest.columns)
    sizes[MATRIX_ROWS] = max(sizes[MATRIX_ROWS], n_rows)
    n_words = n_rows * ((degree + 31) // 32) + degree * ((n_rows + 31) // 32)
    sizes[NODE_WORDS] = max(sizes[NODE_WORDS], n_words)


@njit(nogil=True, inline="always")
def _whole_lines(n):
    return (n + 31) // 32 * 32


@njit(nogil=True, inline="always")
def _warps_and_bytes(sizes, prices):
    """Return the number of warps that can search a part, and the bytes for the fewest warps."""
    lists = 8 * (sizes[ROWS] + sizes[COLUMNS] + 2) + 12 * sizes[ROOT_ENTRIES] + 4 * sizes[COLUMN_ENTRIES]
    shared = lists + 4 * sizes[ROOTS] + prices.fixed + prices.degree * min(sizes[ROW_DEGREE], sizes[MATRIX_ROWS])
    shared += prices.node_word * _whole_lines(sizes[NODE_WORDS])
    one = prices.warp + prices.warp_row * _whole_lines(sizes[ROWS])
    one += prices.warp_matrix_row * _whole_lines(sizes[MATRIX_ROWS])
    one += prices.warp_word * _whole_lines((sizes[ROW_DEGREE] + 31) // 32)
    left = prices.budget - shared
    n_warps = (left - min(prices.reserve, left // 2)) // one
    if n_warps < prices.least_warps:
        n_warps = min(prices.least_warps, left // one)
    return min(prices.most_warps, n_warps), shared + prices.least_warps * one


@compiled(_CORE, INTS, _PRICES, seconds=1.0)
def assign_parts(core, order, prices):
    """Assign every root to a part, one part after the other.

    Few warps fit beside lists of many rows. So a part ends if its roots would be searched faster without later ones, by
    more than another part costs, or if the next root does not fit.

    Parameters
    ----------
    order : (n_roots,) int32

    Returns
    -------
    ends : (n_parts,) int64
        End of each part in `order`.
    sizes : (n_parts, N_SIZES) int64
    needed : int64
        Bytes of the largest root that exceeds the budget, 0 if there is none.
    """
    seen = np.zeros(core.paths.size, np.int64)
    owners, firsts = np.zeros(core.column_offsets.size - 1, np.int32), np.empty(core.column_offsets.size - 1, np.int32)
    ends, sizes = np.zeros(64, np.int64), np.zeros((64, N_SIZES), np.int64)
    now, before = np.zeros(N_SIZES, np.int64), np.zeros(N_SIZES, np.int64)
    n_parts, needed, at_best = 0, int64(0), 0.0
    i = 0
    while i < order.size:
        before[:] = now
        _add_root(core, order[i], n_parts + 1, seen, owners, firsts, now)
        n_warps, least_bytes = _warps_and_bytes(now, prices)
        if now[ROOTS] == 1:
            if n_warps < prices.least_warps:
                needed = max(needed, least_bytes)
            at_best = 0.0
        elif n_warps < prices.least_warps or before[PATHS] / n_warps > at_best + prices.paths:
            # The next part begins with this root.
            if n_parts + 1 == ends.size:
                ends, sizes = np.append(ends, np.zeros_like(ends)), np.append(sizes, np.zeros_like(sizes), axis=0)
            ends[n_parts], sizes[n_parts] = i, before
            n_parts += 1
            now[:] = 0
            continue
        at_best += core.paths[order[i]] / max(1, n_warps)
        i += 1
    if order.size > 0:
        ends[n_parts], sizes[n_parts] = i, now
        n_parts += 1
    return ends[:n_parts].copy(), sizes[:n_parts].copy(), needed


@compiled(_CORE, INTS, seconds=1.0)
def lists_of_part(core, roots):
    """Fill the arrays of `PartLists`.

    Parameters
    ----------
    roots : (n_roots,) int32
        Roots in the order of their search.
    """
    fewest = core.fewest
    n_rows, n_columns = core.paths.size, core.column_offsets.size - 1
    degrees, firsts = np.zeros(n_rows, np.int32), core.column_offsets[1:].copy()
    for root in roots:
        for k in range(core.row_offsets[root], core.row_offsets[root + 1]):
            column, first = core.columns[k], core.positions[k]
            if core.column_offsets[column + 1] - first >= fewest.rows:
                degrees[root] += 1
                firsts[column] = min(firsts[column], first)
    n_entries = np.zeros(n_rows, np.int32)
    for column in range(n_columns):
        for j in range(firsts[column], core.column_offsets[column + 1]):
            n_entries[core.rows[j]] += 1
    numbers, row_offsets = _kept_rows(n_entries, degrees, fewest.columns)
    n_kept = np.count_nonzero(firsts < core.column_offsets[1:])
    column_offsets = np.zeros(n_kept + 1, np.int64)
    column_members = np.empty(np.sum(n_entries[numbers >= 0]), np.int32)
    row_members, positions = np.empty(row_offsets[-1], np.int32), np.empty(row_offsets[-1], np.int64)
    ends = row_offsets[:-1].copy()
    written = kept = 0
    for column in range(n_columns):
        stop = core.column_offsets[column + 1]
        for j in range(firsts[column], stop):
            number = numbers[core.rows[j]]
            if number < 0:
                continue
            if degrees[core.rows[j]] > 0 and stop - j >= fewest.rows:
                row_members[ends[number]], positions[ends[number]] = kept, written
                ends[number] += 1
            column_members[written] = number
            written += 1
        if firsts[column] < stop:
            kept += 1
            column_offsets[kept] = written
    return row_offsets, row_members, positions, column_offsets, column_members, numbers[roots]


@njit(nogil=True)
def _kept_rows(n_entries, degrees, fewest_columns):
    """Number the rows with enough entries, -1 for others; return the offsets of the roots' lists."""
    numbers = np.full(n_entries.size, -1, np.int32)
    offsets = np.zeros(np.count_nonzero(n_entries >= fewest_columns) + 1, np.int64)
    n = 0
    for row in range(n_entries.size):
        if n_entries[row] >= fewest_columns:
            numbers[row] = n
            offsets[n + 1] = offsets[n] + degrees[row]
            n += 1
    return numbers, offsets


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Sizes of a part.

    Attributes
    ----------
    n_root_entries, n_column_entries : int
        Number of entries in the lists of its roots, and in those of its columns.
    max_row_degree, max_column_degree : int
        Longest list of a root, and of a column. No node has more columns than `max_row_degree`.
    max_matrix_rows : int
        Most rows that share enough columns with one root, and so the most rows of a node. If many short columns meet in
        a root, this is far above `max_column_degree`.
    max_node_words : int
        Most 32-bit words of a root's matrix, with its rows and its columns as bits.
    paths : int
        Number of two-step paths from its roots to later rows.
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
    """A set of roots, and the sizes of their data.

    Attributes
    ----------
    roots : (n_roots,) int32
        Rows of the core, ascending.
    """

    roots: np.ndarray
    sizes: PartSizes


def core_of(lists: RowLists, fewest: Fewest) -> Core:
    """Prepare a core for cutting, with its columns in ascending degree too.

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
    """Cut a core into parts that fit a budget; a part keeps at least half of the warps of its first root alone.

    Parameters
    ----------
    wanted : integers, optional
        The roots to cover, all by default. Roots without paths are in no part.

    Raises
    ------
    MemoryBudgetExceeded
        A single root exceeds the budget; `needed_bytes` is enough for each root.
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
    """Collect the lists for the roots of a part from `cut` of the same core."""
    busiest_first = part.roots[np.argsort(-core.paths[part.roots], kind="stable")]
    return PartLists(*lists_of_part(core, busiest_first))


def compile_steps() -> Sequence[CompileStep]:
    """Return the steps to compile the functions of this module."""
    return (*csr.compile_steps(), *steps_of(places_and_paths, assign_parts, lists_of_part))
