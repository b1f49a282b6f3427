"""The largest bicliques of a published run, by size or with a vertex, read with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.publish.reading import bicliques_parts, numbers_of, open_part, reading, vertex_keys

SideName = Literal["left", "right"]
Measure = Literal["edges", "left", "right"]
"""Measures of a biclique's size."""

_MEASURES = {"edges": "n_edges", "left": "n_left", "right": "n_right"}
# Rows of the three narrow columns in memory at once: 2 MB.
_ROWS = 1 << 16
# Rows with member lists in memory at once.
_MEMBER_ROWS = 1 << 13
# Row groups whose chosen rows are read in parallel: Arrow decodes without the interpreter's lock.
_GROUPS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Biclique:
    """A published biclique, with its vertices as the user wrote them.

    Attributes
    ----------
    key : int
        `biclique_key`.
    left, right : tuple of int or str
        The members' own keys, in the order of the side's keys.
    """

    key: int
    left: tuple[int | str, ...]
    right: tuple[int | str, ...]
    n_edges: int

    def without(self, other: Biclique) -> tuple[int | str, ...]:
        """Return the members that the other one lacks, left ones first."""
        left, right = set(other.left), set(other.right)
        return (*(key for key in self.left if key not in left), *(key for key in self.right if key not in right))


@dataclass(frozen=True, slots=True, eq=False)
class BicliqueIds:
    """A published biclique by dense ids: its key, ascending members (int32), and edges."""

    key: int
    left: np.ndarray
    right: np.ndarray
    n_edges: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a row: part, row group, and row within the row group."""

    part: Path
    group: int
    row: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions on the bicliques to consider.

    Attributes
    ----------
    side, vertex : optional
        Require this dense id among that side's members; `find_vertex` turns a key into an id.
    min_left, min_right : int
        Minimum vertices on a side: the largest of all are often stars.
    """

    side: SideName | None = None
    vertex: int | None = None
    min_left: int = 1
    min_right: int = 1

    def rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the ascending positions of matching rows in a batch, which has the members of `side`."""
        rows = _rows_with(batch, self.side, self.vertex)
        n_left, n_right = (numbers_of(batch.column(name))[rows] for name in ("n_left", "n_right"))
        return rows[(n_left >= self.min_left) & (n_right >= self.min_right)]


ALL = Conditions()
"""All bicliques match."""


def largest_bicliques(
    run_path: str | Path, limit: int, by: Measure = "edges", conditions: Conditions = ALL
) -> list[Biclique]:
    """Return the largest bicliques of a run that meet some conditions.

    Streams over the Parquet files: memory depends on `limit` and on the size of a row group, not on the run.

    Parameters
    ----------
    run_path : path
        A run directory.
    limit : int
        Maximum number.
    by : {"edges", "left", "right"}
        Measure of size; ties go to the smaller key.

    Returns
    -------
    list of Biclique
        Largest first.

    Raises
    ------
    PublishError
        The directory has no table of bicliques, or a damaged one.
    """
    return with_keys(run_path, largest_ids(run_path, limit, by, conditions))


def largest_ids(
    run_path: str | Path, limit: int, by: Measure = "edges", conditions: Conditions = ALL
) -> list[BicliqueIds]:
    """Return `largest_bicliques` by dense ids, with 4 bytes per member."""
    run_path = Path(run_path)
    if limit < 1:
        return []
    best = _Best(limit)
    with reading(run_path):
        for largest, part, group in _groups_by_largest(run_path, _MEASURES[by]):
            if largest is not None and best.is_above(largest):
                continue
            start = 0
            for batch in _batches(open_part(part), group, _MEASURES[by], conditions.side):
                best.add(batch, conditions.rows(batch), _MEASURES[by], part, group, start)
                start += batch.num_rows
        return _chosen_rows(best)


def with_keys(run_path: str | Path, bicliques: Iterable[BicliqueIds]) -> list[Biclique]:
    """Return the same bicliques with their vertices as the user wrote them.

    Raises
    ------
    PublishError
        The run has no tables of vertices, or a damaged one.
    """
    with reading(run_path):
        left, right = (_one_array(vertex_keys(run_path, side)) for side in ("left", "right"))
        return [
            Biclique(
                key=one.key,
                left=_keys_of(one.left, left),
                right=_keys_of(one.right, right),
                n_edges=one.n_edges,
            )
            for one in bicliques
        ]


def _one_array(keys: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return one array if the table has one part, for faster look-ups."""
    return keys.chunk(0) if keys.num_chunks == 1 else keys


def _keys_of(members: np.ndarray, keys: pa.Array | pa.ChunkedArray) -> tuple[int | str, ...]:
    if members.size and not 0 <= members.min() <= members.max() < len(keys):
        raise pa.ArrowIndexError(f"vertices up to {members.max()}, of {len(keys)}")
    return tuple(keys[i].as_py() for i in members.tolist())


def find_vertex(run_path: str | Path, key: str, side: SideName | None = None) -> tuple[SideName, int]:
    """Return the side and dense id of a vertex, given its key as text.

    Raises
    ------
    InputError
        No such vertex, or one on each side and `side` is not given.
    """
    run_path = Path(run_path)
    sides: tuple[SideName, ...] = (side,) if side else ("left", "right")
    found = [(name, row) for name in sides if (row := _row_of(vertex_keys(run_path, name), key)) is not None]
    if not found:
        raise InputError.at(
            run_path,
            found=f"no vertex {key!r} on {'the ' + side if side else 'either'} side",
            expected="a key as written in the input",
            remedy=f"see the column 'key' of {' and '.join(f'{name}_vertices.parquet' for name in sides)}",
        )
    if len(found) > 1:
        raise InputError.at(
            run_path,
            found=f"vertex {key!r} on both sides",
            expected="one side",
            remedy="choose one: --side left or --side right",
        )
    return found[0]


class _Best:
    """The `limit` best rows so far; ties go to the smaller key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._measures = np.empty(0, np.int64)
        self._keys = np.empty(0, np.int64)
        self._places: list[_Place] = []

    def add(self, batch: pa.RecordBatch, rows: np.ndarray, measure: str, part: Path, group: int, start: int) -> None:
        """Add rows of a batch.

        Parameters
        ----------
        batch : pa.RecordBatch
            From the table of bicliques.
        rows : (n,) int64
            Positions of the rows in the batch.
        measure : str
            The column with the size of a row.
        part : Path
            The file of the batch.
        group, start : int
            The row group of the batch, and the position of the batch's first row in it.
        """
        measures = numbers_of(batch.column(measure)).astype(np.int64)[rows]
        if len(self._places) == self._limit:
            # Rows below the worst kept row cannot get in: most batches end here.
            rows, measures = rows[kept := measures >= self._measures[-1]], measures[kept]
        if rows.size == 0:
            return
        keys = numbers_of(batch.column("biclique_key"))[rows]
        chosen = np.lexsort((keys, -measures))[: self._limit]
        places = self._places + [_Place(part, group, start + int(row)) for row in rows[chosen]]
        measures = np.concatenate([self._measures, measures[chosen]])
        keys = np.concatenate([self._keys, keys[chosen]])
        order = np.lexsort((keys, -measures))[: self._limit]
        self._measures, self._keys = measures[order], keys[order]
        self._places = [places[i] for i in order]

    def is_above(self, measure: int) -> bool:
        """Return True if no row of at most this measure can get in."""
        return len(self._places) == self._limit and bool(measure < self._measures[-1])

    def places(self) -> list[_Place]:
        """Return the places of the best rows, best first."""
        return self._places


def _groups_by_largest(run_path: Path, measure: str) -> list[tuple[int | None, Path, int]]:
    """Return every row group with its largest measure from the statistics, largest first, so most are skipped."""
    groups: list[tuple[int | None, Path, int]] = []
    for part in bicliques_parts(run_path):
        metadata = pq.read_metadata(part)
        column = metadata.schema.names.index(measure)
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(column).statistics
            largest = statistics.max if statistics is not None and statistics.has_min_max else None
            groups.append((largest, part, group))
    return sorted(groups, key=lambda group: (group[0] is not None, -(group[0] or 0)))


def _batches(file: pq.ParquetFile, group: int, measure: str, side: SideName | None) -> Iterator[pa.RecordBatch]:
    columns = list(dict.fromkeys(["biclique_key", measure, "n_left", "n_right"])) + ([side] if side else [])
    return file.iter_batches(_MEMBER_ROWS if side else _ROWS, row_groups=[group], columns=columns)


def _rows_with(batch: pa.RecordBatch, side: SideName | None, vertex: int | None) -> np.ndarray:
    if side is None or vertex is None:
        return np.arange(batch.num_rows)
    members = batch.column(side)
    hits = np.flatnonzero(numbers_of(members.flatten()) == vertex)
    offsets = numbers_of(members.offsets) - members.offsets[0].as_py()
    return np.unique(np.searchsorted(offsets, hits, side="right") - 1)


def _chosen_rows(best: _Best) -> list[BicliqueIds]:
    """Read the chosen rows, several row groups at a time."""
    places = best.places()

    def rows_of(group: tuple[Path, int]) -> list[tuple[int, BicliqueIds]]:
        wanted = sorted(place.row for place in places if (place.part, place.group) == group)
        return list(_read_rows(open_part(group[0]), group[1], wanted))

    groups = sorted({(place.part, place.group) for place in places})
    rows: dict[_Place, BicliqueIds] = {}
    with ThreadPoolExecutor(_GROUPS_AT_ONCE) as pool:
        for (part, group), found in zip(groups, pool.map(rows_of, groups), strict=True):
            for row, biclique in found:
                rows[_Place(part, group, row)] = biclique
    return [rows[place] for place in places]


def _read_rows(file: pq.ParquetFile, group: int, wanted: list[int]) -> Iterator[tuple[int, BicliqueIds]]:
    columns = ["biclique_key", "left", "right", "n_edges"]
    start = 0
    for batch in file.iter_batches(_MEMBER_ROWS, row_groups=[group], columns=columns):
        if start > wanted[-1]:
            return
        here = [row for row in wanted if start <= row < start + batch.num_rows]
        for row in here:
            key, left, right, n_edges = (batch.column(name)[row - start] for name in columns)
            # Copied, so the batch can be freed.
            own_left, own_right = (numbers_of(side.values).copy() for side in (left, right))
            yield row, BicliqueIds(key.as_py(), own_left, own_right, n_edges.as_py())
        start += batch.num_rows


def _row_of(keys: pa.ChunkedArray, key: str) -> int | None:
    if pa.types.is_integer(keys.type):
        try:
            value = pa.scalar(int(key), keys.type)
        except (ValueError, OverflowError, pa.ArrowInvalid):
            return None
    else:
        value = pa.scalar(key, keys.type)
    # Importing it takes as long as the rest of `mbe top` without a vertex.
    import pyarrow.compute as pc

    row = pc.index(keys, value).as_py()
    return None if row < 0 else row
