"""The table of bicliques, batch by batch: checks of single rows, and sums over all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.verify.recipe import biclique_keys
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, readonly, readonly_view, steps_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.verify.job import Job

# Approximate members of one side in a batch, by the average row of the row group: 16 MB of ids.
_MEMBERS_PER_BATCH = 1 << 22
_ROWS_PER_BATCH = 1 << 18
_SIDES = ("left", "right")
# Characters of a key in a message.
_KEY = 80


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows; `offsets` and `members` are (left, right), `start` is the first row's number in `table`."""

    start: int
    keys: np.ndarray
    offsets: tuple[np.ndarray, np.ndarray]
    members: tuple[np.ndarray, np.ndarray]
    n_left: np.ndarray
    n_right: np.ndarray
    n_edges: np.ndarray
    table: str = "bicliques"

    def name(self, row: int) -> str:
        """Return the name of a row for messages."""
        return f"{self.table} row {self.start + row} ({self.table.removesuffix('s')}_key {self.keys[row]})"

    def sizes(self, side: int) -> np.ndarray:
        """Return the members per row of a side, from the lists."""
        return np.diff(self.offsets[side])


@dataclass(frozen=True, slots=True, eq=False)
class RowRules:
    """Conditions that every row must meet; `hashes` and `containing` are (left, right)."""

    hashes: tuple[np.ndarray, np.ndarray]
    containing: tuple[np.ndarray, np.ndarray]
    minima: tuple[int, int]
    maxima: tuple[int | None, int | None]
    min_edges: int

    def accepts(self, sizes: np.ndarray) -> np.ndarray:
        """Return which of these sizes, ``(n, 2)``, the query accepts."""
        accepted = sizes[:, 0] * sizes[:, 1] >= self.min_edges
        for side in (0, 1):
            accepted &= sizes[:, side] >= self.minima[side]
            if self.maxima[side] is not None:
                accepted &= sizes[:, side] <= self.maxima[side]
        return accepted


def rules_of(
    manifest: Manifest, keys: tuple[pa.ChunkedArray, pa.ChunkedArray], hashes: tuple[np.ndarray, np.ndarray]
) -> RowRules:
    """Return the query's conditions in dense ids.

    Raises
    ------
    VerificationError
        The query names a vertex that does not exist.
    """
    query = manifest.config.query
    return RowRules(
        hashes=hashes,
        containing=(wanted_ids(keys[0], query.containing_left), wanted_ids(keys[1], query.containing_right)),
        minima=(query.min_left, query.min_right),
        maxima=(query.max_left, query.max_right),
        min_edges=query.min_edges,
    )


class VertexStatistics:
    """Per vertex of a side: its number of bicliques, and the largest one (most edges, then smallest key)."""

    def __init__(self, n_vertices: int) -> None:
        self.n_bicliques = np.zeros(n_vertices, np.int64)
        self.edges = np.zeros(n_vertices, np.int64)
        self.key = np.zeros(n_vertices, np.int64)

    def add(self, batch: Batch, side: int) -> None:
        """Add the members of a batch."""
        _take_part(
            batch.offsets[side], batch.members[side], batch.keys, batch.n_edges, self.n_bicliques, self.edges, self.key
        )


class Tally:
    """Sums over all rows."""

    def __init__(self, n_rows: int, n_vertices: tuple[int, int]) -> None:
        self.keys = np.empty(n_rows, np.int64)
        self.n_rows = 0
        self.n_members = [0, 0]
        self.histogram: Counter[tuple[int, int]] = Counter()
        self.of_vertices = tuple(VertexStatistics(n) for n in n_vertices)

    def add(self, batch: Batch) -> None:
        """Add a batch of checked rows."""
        self.keys[self.n_rows : self.n_rows + batch.keys.size] = batch.keys
        self.n_rows += batch.keys.size
        # Both sizes in one number: sorting those is several times faster than sorting pairs.
        sizes, counts = np.unique(batch.sizes(0) << 32 | batch.sizes(1), return_counts=True)
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            self.histogram[size >> 32, size & 0xFFFFFFFF] += count
        for side in (0, 1):
            self.n_members[side] += batch.members[side].size
            self.of_vertices[side].add(batch, side)


def batches(parts: list[Path], read: Callable[[Path, pa.RecordBatch, int], Batch] | None = None) -> Iterator[Batch]:
    """Yield all rows of the table in batches of bounded memory.

    Parameters
    ----------
    read : callable, optional
        Takes a part, some of its rows and the number of the first, and returns a batch; bicliques by default.
    """
    read = read or BICLIQUES
    start = 0
    for part in parts:
        file = pq.ParquetFile(part)
        for group in range(file.metadata.num_row_groups):
            for record in file.iter_batches(_rows_per_batch(file.metadata.row_group(group)), row_groups=[group]):
                if record.num_rows:
                    yield read(part, record, start)
                start += record.num_rows


def sampled(
    job: Job, parts: list[Path], read: Callable[[Path, pa.RecordBatch, int], Batch], n_rows: int, chosen: np.ndarray
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Yield `batches`, each with its chosen rows; report progress, and check the order if `output.sort` is set.

    Parameters
    ----------
    n_rows : int
        Number of rows in all parts.
    chosen : (n,) int64
        Numbers of rows, ascending, from `chosen_rows`.
    """
    last: int | None = None
    for batch in batches(parts, read):
        stop = batch.start + batch.keys.size
        begin, end = np.searchsorted(chosen, [batch.start, stop])
        yield batch, chosen[begin:end] - batch.start
        if job.manifest.config.output.sort:
            last = check_order(batch, last)
        job.progress(stop / n_rows)


def check_rows(batch: Batch, rules: RowRules) -> None:
    """Check each row by itself, without other rows or the graph.

    Raises
    ------
    VerificationError
        Names the first offending row.
    """
    for side in (0, 1):
        check_members(batch, side, rules.hashes[side].size, f"{_SIDES[side]} ")
    sizes = np.column_stack([batch.sizes(0), batch.sizes(1)])
    for column, found, expected in (
        ("n_left", batch.n_left, sizes[:, 0]),
        ("n_right", batch.n_right, sizes[:, 1]),
        ("n_edges", batch.n_edges, sizes[:, 0] * sizes[:, 1]),
    ):
        check_column(batch, column, found, expected, "its lists say")
    sums = [np.add.reduceat(rules.hashes[side][batch.members[side]], batch.offsets[side][:-1]) for side in (0, 1)]
    keys = biclique_keys(*sums)
    if (row := _first(batch.keys != keys)) is not None:
        raise VerificationError(f"{batch.name(row)}: the key of its members is {keys[row]}")
    if (row := _first(~rules.accepts(sizes))) is not None:
        n_left, n_right = sizes[row]
        raise VerificationError(f"{batch.name(row)}: {n_left} x {n_right} does not meet the run's query")
    for side in (0, 1):
        check_containing(batch, side, rules.containing[side], f"{_SIDES[side]} ")


def check_members(batch: Batch, side: int, n_vertices: int, noun: str) -> None:
    """Check that a side has members, all vertices and ascending; `noun` precedes "member" and "vertices" in messages.

    Raises
    ------
    VerificationError
        Names the first offending row.
    """
    members, offsets = batch.members[side], batch.offsets[side]
    if (row := _first(batch.sizes(side) == 0)) is not None:
        raise VerificationError(f"{batch.name(row)}: has no {noun}members")
    if (place := _first((members < 0) | (members >= n_vertices))) is not None:
        raise VerificationError(
            f"{batch.name(_row_of(offsets, place))}: {noun}member {members[place]} is not one of the "
            f"{n_vertices} {noun}vertices"
        )
    descends = np.diff(members) <= 0
    # Between one row's last member and the next row's first there is no order.
    descends[offsets[1:-1] - 1] = False
    if (place := _first(descends)) is not None:
        raise VerificationError(
            f"{batch.name(_row_of(offsets, place))}: {noun}members are not ascending and distinct: "
            f"{members[place + 1]} follows {members[place]}"
        )


def check_containing(batch: Batch, side: int, wanted: np.ndarray, noun: str) -> None:
    """Check that every row has some vertices among the members of a side; `noun` precedes "vertex" in messages.

    Raises
    ------
    VerificationError
        Names the first offending row.
    """
    for vertex in wanted:
        holds = np.zeros(batch.keys.size, np.bool_)
        holds[_row_of(batch.offsets[side], np.flatnonzero(batch.members[side] == vertex))] = True
        if (row := _first(~holds)) is not None:
            raise VerificationError(f"{batch.name(row)}: lacks {noun}vertex {vertex}, which the run's query requires")


def wanted_ids(keys: pa.ChunkedArray, wanted: tuple[int | str, ...]) -> np.ndarray:
    """Return the dense ids of keys, found by their text."""
    text = set(map(str, wanted))
    if not text:
        return np.empty(0, np.int64)
    found = {key: vertex for vertex, key in enumerate(keys.cast(pa.string()).to_pylist()) if key in text}
    if missing := sorted(text - set(found)):
        key = shortened(repr(missing[0]), _KEY)
        raise VerificationError(f"the query requires {key}, which is not a vertex of that side")
    return np.array(sorted(found.values()), np.int64)


def _rows_per_batch(group: pq.RowGroupMetaData) -> int:
    """Return the number of rows of a row group to read at once, to bound memory."""
    values = [group.column(i).num_values for i in range(group.num_columns)]
    return max(1, min(_ROWS_PER_BATCH, _MEMBERS_PER_BATCH * group.num_rows // max(1, *values)))


def reader(
    table: str, lists: tuple[str | None, str | None], numbers: tuple[str, str, str]
) -> Callable[[Path, pa.RecordBatch, int], Batch]:
    """Return a function that takes a part, some of its rows and the number of the first, and returns a batch.

    Parameters
    ----------
    table : str
        Name of the table, in the plural; the column of keys has the singular.
    lists : pair of str or None
        The columns of left and right members; None for a side without members.
    numbers : (str, str, str)
        The columns of `n_left`, `n_right` and `n_edges`.
    """

    def read(part: Path, record: pa.RecordBatch, start: int) -> Batch:
        for name, column in zip(record.schema.names, record.columns, strict=True):
            if nulls := column.null_count or (name in lists and column.flatten().null_count):
                raise VerificationError(
                    f"{part}, column {name!r}: holds {nulls} nulls from row {start} on; expected none"
                )
        nobody = pa.ListArray.from_arrays(np.zeros(record.num_rows + 1, np.int32), pa.array([], pa.int32()))
        sides = [nobody if name is None else record.column(name) for name in lists]
        n_left, n_right, n_edges = (record.column(name).to_numpy() for name in numbers)
        return Batch(
            start=start,
            keys=record.column(f"{table.removesuffix('s')}_key").to_numpy(),
            offsets=(list_offsets(sides[0]), list_offsets(sides[1])),
            members=(sides[0].flatten().to_numpy(), sides[1].flatten().to_numpy()),
            n_left=n_left,
            n_right=n_right,
            n_edges=readonly_view(n_edges.astype(np.int64, copy=False)),
            table=table,
        )

    return read


BICLIQUES = reader("bicliques", _SIDES, ("n_left", "n_right", "n_edges"))
"""Reads rows of bicliques."""


def chosen_rows(n_rows: int, sample: int, rng: np.random.Generator) -> np.ndarray:
    """Choose the rows to check against the graph: all, or one at random from each of `sample` equal ranges."""
    if n_rows <= sample:
        return np.arange(n_rows)
    bounds = np.arange(sample + 1, dtype=np.int64) * n_rows // max(1, sample)
    return rng.integers(bounds[:-1], bounds[1:])


def check_order(batch: Batch, last_key: int | None) -> int:
    """Check that keys ascend, as `output.sort` promises; return the last one."""
    keys = batch.keys if last_key is None else np.concatenate([[last_key], batch.keys])
    if (row := _first(keys[1:] < keys[:-1])) is not None:
        raise VerificationError(
            f"{batch.name(row + (last_key is None))}: out of order; output.sort promises ascending keys"
        )
    return int(keys[-1])


def refuse(place: Path, is_wrong: np.ndarray, what: str) -> None:
    """Raise an error that names the first wrong row of a table, if there is one."""
    if (row := _first(is_wrong)) is not None:
        raise VerificationError(f"{place}, row {row}: {what}")


def check_column(place: Batch | Path, column: str, found: np.ndarray, expected: np.ndarray, says: str) -> None:
    """Compare the values of a column; `says` precedes the expected value of the first wrong row in the message.

    Raises
    ------
    VerificationError
        They differ.
    """
    if (row := _first(found != expected)) is not None:
        name = place.name(row) if isinstance(place, Batch) else f"{place}, row {row}"
        raise VerificationError(f"{name}: {column} is {found[row]}; {says} {expected[row]}")


def list_offsets(lists: pa.ListArray) -> np.ndarray:
    """Return the offsets of a list column into its flattened values; ``(n + 1,) int64``."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0]


def _row_of(offsets: np.ndarray, place):
    return np.searchsorted(offsets, place, side="right") - 1


def _first(offends: np.ndarray) -> int | None:
    return int(np.argmax(offends)) if offends.any() else None


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_take_part)


@compiled(LONGS, readonly(INTS), readonly(LONGS), readonly(LONGS), LONGS, LONGS, LONGS)
def _take_part(offsets, members, keys, n_edges, n_bicliques, best_edges, best_key):
    """Add the members of one side of some rows to the sums of its vertices.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
        Members of each row.
    keys, n_edges : (n,) int64
        Key and number of edges of each row.
    n_bicliques, best_edges, best_key : (n_vertices,) int64
        Changed in place; among equally large bicliques the smallest key is kept.
    """
    for row in range(keys.size):
        for i in range(offsets[row], offsets[row + 1]):
            vertex = members[i]
            first = n_bicliques[vertex] == 0
            n_bicliques[vertex] += 1
            larger = n_edges[row] > best_edges[vertex]
            if first or larger or (n_edges[row] == best_edges[vertex] and keys[row] < best_key[vertex]):
                best_edges[vertex] = n_edges[row]
                best_key[vertex] = keys[row]
