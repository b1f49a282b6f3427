"""Clean rows within a memory budget: rows stay in temporary files, and edges that no result can have are not held.

The keys of the rows are numbered while they are read (`pipeline.backends.arrow.spooled`). Then parts of the rows, by
their left ids, give the distinct edges in order; all of them count for the fingerprint and the degrees. If they do not
fit, edges of vertices with too few neighbours go, round by round, until no more go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.bicliques.keys import Fingerprint, add_edges
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.pairs import count_ids, distinct_pairs
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.backends.arrow.key_encoder import encoded, indices_of
from mbe_stage.pipeline.backends.arrow.rows import HostRows
from mbe_stage.pipeline.backends.arrow.spooled import PIECE, SpooledEncoder, SpooledInts
from mbe_stage.pipeline.backends.backend import Column
from mbe_stage.pipeline.clean.cleaning import facts_of_rows, no_edges, present
from mbe_stage.pipeline.clean.doubts import with_doubts
from mbe_stage.pipeline.clean.keys import number_keys
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError

log = logging.getLogger(__name__)

_SIDES = ("left", "right")
# Ids of an edge and its place in the graph; of a vertex the hash, degrees, offset and flags; of a row in a part the
# ids, ordered ones, and those of the part before.
_EDGE_BYTES, _VERTEX_BYTES, _ROW_BYTES = 12, 36, 24
_FEWEST_ROWS = 1 << 16
_Pairs = tuple[np.ndarray, np.ndarray]


def clean_within(
    rows: HostRows,
    encoders: Mapping[str, Sequence[SpooledEncoder]],
    config: InputConfig,
    most_bytes: int,
    least: tuple[int, int],
) -> EdgeData:
    """Clean rows of two keys as `pipeline.clean.cleaning.clean`, and leave out edges if not all fit.

    Keys, facts and degrees are those of all edges.

    Parameters
    ----------
    encoders : mapping
        Those that took the columns ``left`` and ``right`` of each file.
    least : (int, int)
        The fewest left and right vertices of a result.

    Raises
    ------
    InputError
        As `clean`.
    MemoryBudgetExceeded
        The remaining edges do not fit; the message says what would do.
    """
    numbered = _NumberedRows(rows, encoders, config)
    keys, sizes, n_rows = numbered.keys, (len(numbered.keys[0]), len(numbered.keys[1])), numbered.n
    hashes = key_hashes(keys[0], "left"), key_hashes(keys[1], "right")
    of_vertices = sum(each.nbytes + _VERTEX_BYTES * len(each) for each in keys)
    most_edges = (most_bytes - of_vertices) // _EDGE_BYTES
    core, fingerprint = _Core(sizes, least), Fingerprint()
    with run_state.at_part(f"ordering {n_rows:,} edges in parts"):
        for left, right in numbered.parts(max(_FEWEST_ROWS, (most_bytes - of_vertices) // (2 * _ROW_BYTES))):
            add_edges(fingerprint, left, right, *hashes)
            core.add(left, right)
    if core.n > most_edges:
        core.reduce()
    n_edges, n_held = fingerprint.n_items, core.n
    needed = of_vertices + _EDGE_BYTES * n_held
    if needed > most_bytes:
        raise MemoryBudgetExceeded(
            f"{rows.source}: {n_held:,} of {n_edges:,} edges between {sizes[0]:,} x {sizes[1]:,} vertices can be in a "
            f"result, and take {needed:,} bytes; expected at most {most_bytes:,} "
            f"({setting('execution.memory_budget')}): raise it to {(needed >> 20) + 1}MiB, or raise the minimum sizes",
            needed_bytes=needed,
        )
    log.info("holding %s of %s edges; the others can be in no result", f"{n_held:,}", f"{n_edges:,}")
    is_whole, dropped = n_held == n_edges, {"null": rows.n_rows - n_rows, "weight": 0, "time": 0}
    beside = {"warnings": rows.warnings, "n_edges_held": None if is_whole else n_held}
    facts = facts_of_rows(rows, dropped, (*sizes, n_edges), str(fingerprint), **beside)
    degrees = None if is_whole else core.degrees
    edges = EdgeData(*core.edges(), keys[0], keys[1], facts, hashes, degrees=degrees)
    doubted: EdgeData = with_doubts(edges, config, {"left": range(sizes[0]), "right": range(sizes[1])})
    return doubted


class _NumberedRows:
    """Rows as pairs of ids, which are the ranks of their keys.

    Attributes
    ----------
    n : int
        Rows with both keys.
    keys : list of pa.Array
        Of each side, by id.
    """

    def __init__(self, rows: HostRows, encoders: Mapping[str, Sequence[SpooledEncoder]], config: InputConfig) -> None:
        self._rows = [[encoder.rows for encoder in encoders[side]] for side in _SIDES]
        self.keys = [_merged(encoders[side], config) for side in _SIDES]
        counts = [np.zeros(len(keys), np.int64) for keys in self.keys]
        for pair in self.pairs():
            for ids, of_side in zip(pair, counts, strict=True):
                count_ids(ids, of_side)
        self.n = int(counts[0].sum())
        if self.n < rows.n_rows and config.nulls == "error":
            masks = zip(*((left >= 0, right >= 0) for _, left, right in self._all_pairs()), strict=True)
            present(
                rows,
                {side: Column(None, np.concatenate(of)) for side, of in zip(_SIDES, masks, strict=True)},
                config,
                np,
            )
        if not self.n:
            raise no_edges(rows, {"null": rows.n_rows, "weight": 0, "time": 0}, config)
        new = [self._number(at, np.flatnonzero(counts[at]), rows, config) for at in range(len(_SIDES))]
        self._ends = np.empty(len(self.keys[0]), np.int64)
        self._ends[new[0][counts[0] > 0]] = counts[0][counts[0] > 0]
        self._ends = np.cumsum(self._ends)

    def pairs(self) -> Iterator[_Pairs]:
        """Yield the ids of rows with both keys, some rows at a time."""
        for _, left, right in self._all_pairs():
            kept = (left >= 0) & (right >= 0)
            yield (left, right) if kept.all() else (left[kept], right[kept])

    def parts(self, most_rows: int) -> Iterator[_Pairs]:
        """Yield distinct edges in order, those of so many rows at a time."""
        ends, first = self._ends, 0
        while first < ends.size:
            before = int(ends[first - 1]) if first else 0
            end = max(first + 1, int(np.searchsorted(ends, before + most_rows, "right")))
            n = int(ends[end - 1]) - before
            yield self._of_many(first) if n > most_rows else self._distinct(first, end, n)
            first = end

    def _distinct(self, first: int, end: int, n: int) -> _Pairs:
        left, right, at = np.empty(n, np.int32), np.empty(n, np.int32), 0
        for lefts, rights in self.pairs():
            is_in = (lefts >= first) & (lefts < end)
            size = int(np.count_nonzero(is_in))
            left[at : at + size], right[at : at + size] = lefts[is_in] - np.int32(first), rights[is_in]
            at += size
        left, right = distinct_pairs(left, right, end - first, len(self.keys[1]))
        left += np.int32(first)
        return left, right

    def _of_many(self, vertex: int) -> _Pairs:
        """Return the edges of a left vertex with too many rows."""
        seen = np.zeros(len(self.keys[1]), np.bool_)
        for left, right in self.pairs():
            seen[right[left == vertex]] = True
        right = np.flatnonzero(seen).astype(np.int32)
        return np.full(right.size, vertex, np.int32), right

    def _all_pairs(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the first of some rows, and their ids, which are -1 without a key."""
        first = 0
        for left, right in zip(*self._rows, strict=True):
            for start in range(0, left.n, PIECE):
                yield first + start, left.read(start, start + PIECE), right.read(start, start + PIECE)
            first += left.n

    def _number(self, at: int, used: np.ndarray, rows: HostRows, config: InputConfig) -> np.ndarray:
        """Make the ids of a side the ranks of the keys in use; return the new id of each."""

        def refuse(number: int | None, *, found: str, expected: str, remedy: str) -> InputError:
            row = None if number is None else self._first_row(at, used[number])
            return rows.refusal(row, _SIDES[at], found=found, expected=expected, remedy=remedy)

        keys, numbers = self.keys[at], pa.array(np.arange(used.size, dtype=np.int32))
        values = pa.DictionaryArray.from_arrays(
            numbers, keys if used.size == len(keys) else keys.take(pa.array(used)), safe=False
        )
        new = np.full(len(keys) + 1, -1, np.int32)
        new[used], self.keys[at] = number_keys(values, config.key_type, rows.keys, refuse, ARROW)
        for spooled in self._rows[at]:
            _renumber(spooled, new)
        return new[:-1]

    def _first_row(self, at: int, number: int) -> int:
        found = (first + np.flatnonzero((ids[at] == number) & (ids[1 - at] >= 0)) for first, *ids in self._all_pairs())
        return next(int(rows[0]) for rows in found if rows.size)


def _merged(encoders: Sequence[SpooledEncoder], config: InputConfig) -> pa.Array:
    """Return the keys of a column in all files, and let its rows number these; an empty text is no key."""
    of_files = [encoder.keys for encoder in encoders]
    if config.key_type == "string" or len({keys.type for keys in of_files}) > 1:
        of_files = [keys.cast(pa.large_string()) for keys in of_files]
    keys, ids = of_files[0], np.arange(len(of_files[0]), dtype=np.int32)
    if len(of_files) > 1:
        column = encoded(pa.chunked_array(of_files))
        keys, ids = column.dictionary, indices_of(column)
    if not pa.types.is_integer(keys.type):
        ids = np.where(ids == pc.index(keys, pa.scalar("", keys.type)).as_py(), np.int32(-1), ids)
    starts = np.cumsum([0, *map(len, of_files)])
    for encoder, (start, stop) in zip(encoders, pairwise(starts), strict=True):
        _renumber(encoder.rows, np.append(ids[start:stop], np.int32(-1)))
    return keys


def _renumber(spooled: SpooledInts, new: np.ndarray) -> None:
    """Replace numbers by new ones; the last new one replaces -1."""
    if not np.array_equal(new[:-1], np.arange(new.size - 1)):
        for part in spooled.parts():
            part[:] = new[part]


class _Core:
    """Edges on disk that may be in a result.

    Attributes
    ----------
    degrees : pair of (n,) int64
        Of the vertices among all edges.
    """

    def __init__(self, sizes: tuple[int, int], least: tuple[int, int]) -> None:
        self.degrees = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
        # A vertex needs as many neighbours as the other side of a result has members.
        self._fewest = least[::-1]
        self._edges = SpooledInts(), SpooledInts()

    @property
    def n(self) -> int:
        """Number of edges."""
        return self._edges[0].n

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """Take further edges."""
        for spooled, ids, degrees in zip(self._edges, (left, right), self.degrees, strict=True):
            count_ids(ids, degrees)
            spooled.write(spooled.n, ids)

    def reduce(self) -> None:
        """Leave out edges of vertices with too few neighbours, until no more can go."""
        # What remains does not depend on the budget, so a run can be resumed with another one.
        degrees, is_reduced = self.degrees, False
        while not is_reduced:
            with run_state.at_part(f"leaving out edges that can be in no result, {self.n:,} remain"):
                degrees = self._without([of >= fewest for of, fewest in zip(degrees, self._fewest, strict=True)])
            few = [(of > 0) & (of < fewest) for of, fewest in zip(degrees, self._fewest, strict=True)]
            is_reduced = not any(of.any() for of in few)

    def edges(self) -> _Pairs:
        """Return all ids."""
        return self._edges[0].read(0, self.n), self._edges[1].read(0, self.n)

    def _without(self, has_enough: Sequence[np.ndarray]) -> _Pairs:
        """Keep edges between vertices that have enough neighbours; return the degrees among these."""
        degrees, n = (np.zeros_like(self.degrees[0]), np.zeros_like(self.degrees[1])), 0
        for start in range(0, self.n, PIECE):
            left, right = (spooled.read(start, start + PIECE) for spooled in self._edges)
            kept = has_enough[0][left] & has_enough[1][right]
            for spooled, ids, of_side in zip(self._edges, (left[kept], right[kept]), degrees, strict=True):
                count_ids(ids, of_side)
                spooled.write(n, ids)
            n += int(np.count_nonzero(kept))
        for spooled in self._edges:
            spooled.n = n
        return degrees
