"""Clean rows within a memory budget: rows stay in temporary files, and edges that no result can contain are dropped.

Keys are numbered while rows are read (`pipeline.backends.arrow.spooled`). Then parts of the rows, by left id, give the
distinct edges in order. All edges count for the fingerprint and the degrees. If they do not fit, edges of vertices with
too few neighbours are dropped, round by round, until there is no such vertex.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import pairwise, starmap
from operator import and_, index
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.bicliques.keys import Fingerprint, add_edges
from mbe_stage.graphs.pairs import count_ids, distinct_pairs, leave_out_pairs, select_pairs
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW, ArrowBackend
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.backends.arrow.key_encoder import is_ascending
from mbe_stage.pipeline.backends.arrow.measures import has_numbers
from mbe_stage.pipeline.backends.arrow.plain import is_text, plain_type
from mbe_stage.pipeline.backends.arrow.rows import column_of, measured
from mbe_stage.pipeline.backends.arrow.spooled import PIECE, ReadingSteps, SavedState, Spooled, Spools, too_much
from mbe_stage.pipeline.backends.backend import Column, is_key, key_roles
from mbe_stage.pipeline.clean.cleaning import (
    bucket_of,
    finite_weights,
    has_window,
    moments_from,
    no_edges,
    of_later,
    present,
)
from mbe_stage.pipeline.clean.doubts import with_doubts
from mbe_stage.pipeline.clean.events import Events
from mbe_stage.pipeline.clean.facts import InputFacts, facts_of
from mbe_stage.pipeline.clean.keys import facts_of_rows, log_read, number_keys, number_tuples
from mbe_stage.pipeline.clean.time_buckets import beginnings, bucket_names
from mbe_stage.pipeline.clean.window import window_of
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io import RawEdges

log = logging.getLogger(__name__)

# Bytes per edge: its ids and its place in the graph. Per vertex: hash, degrees, remaining degree and offset. Per row of
# a part: ids, sorted ids, and ids of the previous part.
_EDGE_BYTES, _VERTEX_BYTES, _ROW_BYTES = 12, 36, 24
# Bytes per key of several columns while it is made: its code, and the end of its text in two forms. Sampled texts.
_TUPLE_BYTES, _SAMPLED_TUPLES = 20, 1 << 14
_FEWEST_ROWS = 1 << 16
_STEPS = ("edges", "edges of later buckets")
_Pairs = tuple[np.ndarray, np.ndarray]


def clean_within(
    numbered: NumberedRows, config: InputConfig, most_bytes: int, least: tuple[int, int], saved: ReadingSteps
) -> EdgeData:
    """Clean rows as `pipeline.clean.cleaning.clean` does; drop edges that no result can contain if not all fit.

    Keys, facts and degrees cover all edges. Weights and times of the rows are views of files. A result has at least
    `least` left and right vertices. If what remains does not fit, `MemoryBudgetExceeded` names a sufficient budget.
    """
    keys, n_rows = [side.keys for side in (numbered.left, *numbered.rights)], numbered.n
    n_left, source = len(keys[0]), numbered.facts.source
    of_vertices = sum(each.nbytes + _VERTEX_BYTES * len(each) for each in keys)
    if of_vertices > most_bytes:
        # This is enough even if all rows are distinct edges.
        needed, what = of_vertices + _EDGE_BYTES * n_rows, f"{sum(map(len, keys)):,} vertices and {n_rows:,} rows"
        raise too_much(f"{source}: {what}", needed, most_bytes)
    hashes = [key_hashes(keys[0], "left"), *(key_hashes(each, "right") for each in keys[1:])]
    most_edges = (most_bytes - of_vertices) // _EDGE_BYTES

    def new_cores() -> list[_Core]:
        return [_Core((n_left, len(right.keys)), least) for right in numbered.rights]

    cores = new_cores()
    are_saved = [saved.load(step, core.restore) is not None for core, step in zip(cores, _STEPS, strict=False)]
    if not all(are_saved) or sum(core.n for core in cores) > most_edges:
        cores = new_cores()
        most_rows = max(_FEWEST_ROWS, (most_bytes - of_vertices) // (2 * _ROW_BYTES))
        for core, right, of_right in zip(cores, numbered.rights, hashes[1:], strict=True):
            with run_state.at_part(f"ordering {n_rows:,} edges in parts"):
                for pairs in numbered.parts(right, most_rows):
                    add_edges(core.fingerprint, *pairs, hashes[0], of_right)
                    core.add(*pairs)
        if sum(core.n for core in cores) > most_edges:
            lack_of_memory.give_back()
            for core in cores:
                core.reduce(most_edges)
        for core, step in zip(cores, _STEPS, strict=False):
            saved.save(step, core.state())
    n_edges, n_held = (sum(of) for of in zip(*((core.fingerprint.n_items, core.n) for core in cores), strict=True))
    needed = of_vertices + _EDGE_BYTES * n_held
    if needed > most_bytes:
        sizes = f"{n_left:,} x {sum(map(len, keys[1:])):,}"
        what = f"{n_held:,} of {n_edges:,} edges between {sizes} vertices can matter to a result, and"
        remedy = "" if least == (1, 1) else ", or raise the minimum sizes"
        raise too_much(f"{source}: {what}", needed, most_bytes, remedy)
    log.info("holding %s of %s edges; the others can be in no result", f"{n_held:,}", f"{n_edges:,}")
    core, is_whole = cores[0], n_held == n_edges
    events, of_events = numbered.events(hashes[0], hashes[1])
    facts = of_later(numbered.facts, n_rows, len(keys[1]), core.fingerprint.n_items, str(core.fingerprint))
    facts = replace(facts, events_fingerprint=of_events, n_edges_held=None if is_whole else n_held)
    log_read(facts)
    degrees = None if is_whole else core.degrees
    ids = core.edges()
    edges = EdgeData(*ids, keys[0], keys[1], facts, (hashes[0], hashes[1]), events, degrees=degrees)
    found: EdgeData = with_doubts(edges, config, {"left": range(n_left), "right": range(len(keys[1]))})
    if events is None or len(cores) == 1:
        return found
    later = cores[1].fingerprint
    facts = of_later(found.facts, n_rows, len(keys[2]), later.n_items, str(later))
    events = replace(events, right=numbered.rights[1].numbers.whole())
    shifted = EdgeData(*cores[1].edges(), keys[0], keys[2], facts, (hashes[0], hashes[2]), events)
    return replace(found, half_later=shifted)


class _Column(NamedTuple):
    """The number of each row, and the keys by number."""

    numbers: Spooled
    keys: pa.Array


@dataclass(slots=True)
class NumberedRows:
    """The rows that have all values and pass the filters, as ids, which are the ranks of their keys.

    A second right column has time buckets shifted by half. Weights and times have the form of `Events`, which exist if
    an output uses them. Facts are as if there were no edges.
    """

    left: _Column
    rights: list[_Column]
    weights: Spooled | None
    times: Spooled | None
    facts: InputFacts
    has_events: bool

    @classmethod
    def of(cls, saved: SavedState) -> NumberedRows:
        """Restore what `state` has returned."""
        weights, times, *columns = saved.arrays
        left, right, *more = (
            _Column(_ids(ids, len(keys)), keys)
            for ids, keys in zip(columns[::2], map(_keys, columns[1::2]), strict=True)
        )
        weights, times = (
            None if of is None else _spooled(kind, _parts(of, pa.from_numpy_dtype(kind)))
            for of, kind in ((weights, np.float64), (times, np.int64))
        )
        if any(of.n != left.numbers.n for of in (weights, times, right.numbers, *(of.numbers for of in more)) if of):
            raise ValueError("columns of unequal length")
        return cls(left, [right, *more], weights, times, facts_of(saved.facts["facts"]), saved.facts["has_events"])

    def state(self) -> SavedState:
        """Return what a resumed run needs."""
        columns = (array for column in (self.left, *self.rights) for array in column)
        facts = {"facts": asdict(self.facts), "has_events": self.has_events}
        return SavedState([self.weights, self.times, *columns], facts)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.left.numbers.n

    def parts(self, right: _Column, most_rows: int) -> Iterator[_Pairs]:
        """Yield distinct edges in order, from at most `most_rows` rows at a time."""
        counts, first = np.zeros(len(self.left.keys), np.int64), 0
        for part in self.left.numbers.parts():
            count_ids(part, counts)
        ends = np.cumsum(counts, out=counts)
        while first < ends.size:
            before = int(ends[first - 1]) if first else 0
            end = max(first + 1, int(np.searchsorted(ends, before + most_rows, "right")))
            n = int(ends[end - 1]) - before
            yield self._of_many(first, right) if n > most_rows else self._distinct(first, end, n, right)
            first = end

    def events(self, left_hashes: np.ndarray, right_hashes: np.ndarray) -> tuple[Events | None, str | None]:
        """Return weights and times of the rows as views of files, and their fingerprint; None if they are not kept."""
        if not self.has_events:
            return None, None
        columns = self.left.numbers, self.rights[0].numbers, self.weights, self.times
        found = Fingerprint()
        for start in range(0, self.n, PIECE):
            part: list[Any] = [None if each is None else each.read(start, start + PIECE) for each in columns]
            Events(*part).add_to(found, left_hashes, right_hashes)
        whole: list[Any] = [None if each is None else each.whole() for each in columns]
        return Events(*whole), str(found)

    def _distinct(self, first: int, end: int, n: int, right: _Column) -> _Pairs:
        found, at = (np.empty(n, np.int32), np.empty(n, np.int32)), 0
        for pairs in self._pairs(right):
            at = select_pairs(pairs, range(first, end), found, at)
        left, rights = distinct_pairs(*found, end - first, len(right.keys))
        left += np.int32(first)
        return left, rights

    def _of_many(self, vertex: int, right: _Column) -> _Pairs:
        """Return the edges of a left vertex with too many rows."""
        seen = np.zeros(len(right.keys), np.bool_)
        for of_left, of_right in self._pairs(right):
            seen[of_right[of_left == vertex]] = True
        rights = np.flatnonzero(seen).astype(np.int32)
        return np.full(rights.size, vertex, np.int32), rights

    def _pairs(self, right: _Column) -> Iterator[_Pairs]:
        return zip(self.left.numbers.parts(), right.numbers.parts(), strict=True)


class _Budgeted(ArrowBackend):
    """Makes texts of keys of several columns within the budget."""

    def __init__(self, spools: Spools) -> None:
        self._spools = spools

    def made_in_parts(self, texts_of: Callable[[np.ndarray], pa.Array], n: int) -> pa.Array:
        sample = texts_of(np.linspace(0, n - 1, min(n, _SAMPLED_TUPLES)).astype(np.int64))
        of_text = pc.sum(pc.binary_length(sample)).as_py() / len(sample)
        n_bytes = self._spools.nbytes + int(n * (_TUPLE_BYTES + 2 * of_text))
        self._spools.check(f"{n:,} keys of several columns", n_bytes)
        return ARROW.made_in_parts(texts_of, n)


def number_rows(rows: RawEdges, spools: Spools, config: InputConfig) -> NumberedRows:
    """Number the keys of rows as `pipeline.clean.cleaning.clean` does; `spools` has the columns of each file."""
    of = _Numbering(rows, spools, config)
    sizes, warnings = (len(of.left.keys), len(of.rights[0].keys), 0), (*rows.warnings, *of.warnings)
    facts = facts_of_rows(rows, of.dropped, sizes, "", warnings=warnings)
    has_events = config.keeps_events and bool(of.measures)
    return NumberedRows(of.left, of.rights, of.weights, of.times, facts, has_events)


class _Numbering:
    """The state of `number_rows`; for `n` and `dropped` see `pipeline.clean.keys.KeptRows`."""

    def __init__(self, rows: RawEdges, spools: Spools, config: InputConfig) -> None:
        self._spools, self._config = spools, config
        self.n, self.dropped = rows.n_rows, dict.fromkeys(("null", "weight", "time"), 0)
        self.measures = [role for role in rows.roles if not is_key(role)]
        self._rows = reduce(self._with_numbers, self.measures, rows)
        read = {role: self._read(role) for role in rows.roles if is_key(role)}
        self._columns = {role: column.numbers for role, column in read.items()}
        self._drop()
        if not self.n:
            raise no_edges(rows, self.dropped, config)
        numbered = {role: self._number(role, column) for role, column in read.items()}
        shifts = [] if config.time_bucket is None else [False, True] if config.keeps_events else [False]
        buckets = [[self._buckets(half_later)] for half_later in shifts] or [[]]
        self.weights, self.times, self.warnings = self._kept_measures() if config.keeps_events else (None, None, ())
        self._compact()
        by = [numbered["by"]] if "by" in numbered else []
        roles = key_roles("right", len(config.right_columns))
        self.left = self._tuples("left", [*by, numbered["left"]])
        self.rights = [self._tuples(roles[0], [*by, *map(numbered.get, roles), *bucket]) for bucket in buckets]

    def _with_numbers(self, rows: RawEdges, role: str) -> RawEdges:
        """Return the rows with numbers or moments in place of texts."""
        if not is_text(plain_type(rows.table.column(role).type)):
            return rows
        # Times as text are numbers if all of them are, else moments.
        are_numbers = role == "weight" or all(has_numbers(part.table.column(role)) for _, part in self._parts(rows))
        kinds = {measured(part, role, are_numbers).type for _, part in self._parts(rows)}
        kind = kinds.pop() if len(kinds) == 1 else pa.float64()
        spooled = self._spools.column(role, kind, False)
        for _, part in self._parts(rows):
            spooled.add(measured(part, role, are_numbers).cast(kind, safe=False))
        return rows.with_column(role, spooled.finish())

    def _read(self, role: str) -> _Column:
        """Return a column of keys of all files."""
        if role not in self._spools.encoders:
            parts = self._parts(self._rows)
            self._spools.encoded(role, (column_of(part, role, self._config.key_type).values for _, part in parts))
        return _merged(self._spools, role, self._config)

    def _drop(self) -> None:
        """Drop rows without a value, and rows that do not pass the filters."""
        rows, config = self._rows, self._config

        def columns(start: int, part: RawEdges) -> dict[str, Column]:
            keys = {role: Column(None, of.read(start, start + PIECE) >= 0) for role, of in self._columns.items()}
            return keys | {role: column_of(part, role) for role in self.measures}

        dropping = config.model_copy(update={"nulls": "drop"})
        if config.nulls == "error" and any(
            present(rows, columns(*of), dropping, np) is not None for of in self._parts(rows)
        ):
            every = [{role: _there(each) for role, each in columns(*of).items()} for of in self._parts(rows)]
            whole = {role: Column(None, np.concatenate([of[role] for of in every])) for role in every[0]}
            present(rows, whole, config, np)
        self._keep("null", lambda *of: present(rows, columns(*of), dropping, np))
        if (least := config.min_weight) is not None:
            self._keep("weight", lambda _, part: column_of(part, "weight").values >= least)
        if has_window(config):
            refuse = self._rows.refusal_of("timestamp")
            inside = window_of(self._kept_times, self._are_moments, config, refuse, ARROW)
            self._keep("time", lambda _, part: inside(column_of(part, "timestamp").values))

    def _keep(self, rule: str, passing: Callable[[int, RawEdges], Any]) -> None:
        """Drop rows that do not pass: their keys become -1."""
        before, self.n = self.n, 0
        for start, part in self._parts(self._rows):
            keys = [column.read(start, start + PIECE) for column in self._columns.values()]
            kept = reduce(and_, (of >= 0 for of in keys))
            if (mask := passing(start, part)) is not None:
                kept &= mask
            self.n += int(np.count_nonzero(kept))
            for column, of in zip(self._columns.values(), keys, strict=True):
                if of[~kept].max(initial=-1) >= 0:
                    column.write(start, np.where(kept, of, np.int32(-1)))
        self.dropped[rule] = before - self.n

    def _parts(self, rows: RawEdges) -> Iterator[tuple[int, RawEdges]]:
        """Yield the rows in parts, each with the number of its first row."""
        for start in range(0, rows.n_rows, PIECE):
            yield start, rows.part(start, PIECE)
            self._spools.release()

    def _kept(self, role: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield weights or times of the remaining rows, and a mask of those with a value, part by part."""
        of_rows = next(iter(self._columns.values()))
        for start, part in self._parts(self._rows):
            column, kept = column_of(part, role), of_rows.read(start, start + PIECE) >= 0
            yield column.values[kept], _there(column)[kept]

    def _kept_times(self) -> Iterator[np.ndarray]:
        return (times for times, _ in self._kept("timestamp"))

    @property
    def _are_moments(self) -> bool:
        return column_of(self._rows.part(0, 1), "timestamp").moments

    def _buckets(self, half_later: bool) -> _Column:
        """Return the time bucket of each remaining row."""
        of_bucket, refuse = bucket_of(self._config, half_later), self._rows.refusal_of("timestamp")
        begins = beginnings(self._kept_times, self._are_moments, *of_bucket, refuse, ARROW)
        encoder = self._spools.encoded("bucket", map(pa.array, begins))
        return _Column(encoder.rows, ARROW.text_column(bucket_names(encoder.keys.to_numpy(), *of_bucket)))

    def _kept_measures(self) -> tuple[Spooled | None, Spooled | None, tuple[str, ...]]:
        """Return weights and times of the remaining rows in the form of `Events`, and warnings."""
        weights, as_times, warnings = None, None, tuple[str, ...]()
        if "weight" in self.measures:
            weights = _spooled(np.float64, starmap(finite_weights, self._kept("weight")))
        if "timestamp" in self.measures:
            has_buckets = self._config.time_bucket is not None
            as_times, warnings = moments_from(lambda: self._kept("timestamp"), self._are_moments, has_buckets)
        times = None if as_times is None else _spooled(np.int64, starmap(as_times, self._kept("timestamp")))
        return weights, times, warnings

    def _compact(self) -> None:
        """Keep only the remaining rows."""
        for column in self._columns.values() if self.n < self._rows.n_rows else ():
            end = 0
            for start in range(0, column.n, PIECE):
                numbers = column.read(start, start + PIECE)
                column.write(end, kept := numbers[numbers >= 0])
                end += kept.size
            column.n = end

    def _tuples(self, role: str, parts: Sequence[Any]) -> _Column:
        return _Column(*number_tuples(parts, self._rows.refusal_of(role), _Budgeted(self._spools), self._paired))

    def _paired(
        self, first: tuple[Spooled, np.ndarray], second: tuple[Spooled, np.ndarray], n_second: int
    ) -> tuple[Spooled, np.ndarray]:
        """Implement `pipeline.clean.keys.Paired`."""
        # Free the memory that numbering the parts has used.
        lack_of_memory.give_back()
        (ids, ranks), (others, of_others) = first, second
        parts = zip(ids.parts(), others.parts(), strict=True)
        codes = (ranks[one].astype(np.int64) * n_second + of_others[other] for one, other in parts)
        encoder = self._spools.encoded("tuple", map(pa.array, codes))
        return encoder.rows, encoder.keys.to_numpy()

    def _number(self, role: str, column: _Column) -> _Column:
        """Replace the numbers of a column by the ranks of the keys in use."""
        numbers, keys = column
        counts = np.zeros(len(keys), np.int64)
        for part in numbers.parts():
            count_ids(part[part >= 0], counts)
        used = np.flatnonzero(counts)

        def refuse(number: int | None, *, found: str, expected: str, remedy: str) -> InputError:
            row = None if number is None else _first_row(numbers, used[number])
            return self._rows.refusal(row, role, found=found, expected=expected, remedy=remedy)

        keys = keys if used.size == len(keys) else keys.take(pa.array(used))
        values = pa.DictionaryArray.from_arrays(pa.array(np.arange(used.size, dtype=np.int32)), keys, safe=False)
        new = np.full(counts.size + 1, -1, np.int32)
        new[used], keys = number_keys(values, self._config.key_type, self._rows.keys, refuse, ARROW)
        _renumber(numbers, new)
        return _Column(numbers, keys)


def _spooled(kind: type, parts: Iterable[np.ndarray]) -> Spooled:
    spooled = Spooled(kind)
    for part in parts:
        spooled.write(spooled.n, part)
    return spooled


def _there(column: Column) -> np.ndarray:
    return np.ones(len(column.values), np.bool_) if column.present is None else column.present


def _first_row(numbers: Spooled, number: int) -> int:
    found = (i * PIECE + np.flatnonzero(part == number) for i, part in enumerate(numbers.parts()))
    return next(int(rows[0]) for rows in found if rows.size)


def _merged(spools: Spools, role: str, config: InputConfig) -> _Column:
    """Return a column of keys of all files; an empty text counts as missing."""
    encoders = list(spools.encoders[role])
    of_files = [encoder.keys for encoder in encoders]
    if config.key_type == "string" or len({keys.type for keys in of_files}) > 1:
        of_files = [keys.cast(pa.large_string()) for keys in of_files]
    keys, ids = of_files[0], np.arange(len(of_files[0]), dtype=np.int32)
    if len(of_files) > 1:
        merged = spools.encoded(role, of_files)
        keys, ids = merged.keys, merged.rows.whole()
    if not pa.types.is_integer(keys.type):
        ids = np.where(ids == pc.index(keys, pa.scalar("", keys.type)).as_py(), np.int32(-1), ids)
    starts = np.cumsum([0, *map(len, of_files)])
    numbers = encoders[0].rows
    for encoder, (start, stop) in zip(encoders, pairwise(starts), strict=True):
        new = np.append(ids[start:stop], np.int32(-1))
        if encoder is encoders[0]:
            _renumber(numbers, new)
            continue
        for part in encoder.rows.parts():
            numbers.write(numbers.n, new[part])
    return _Column(numbers, keys)


def _renumber(spooled: Spooled, new: np.ndarray) -> None:
    """Replace numbers by new ones; the last entry of `new` replaces -1."""
    if not np.array_equal(new[:-1], np.arange(new.size - 1)):
        for part in spooled.parts():
            part[:] = new[part]


def _parts(column: pa.RecordBatchFileReader, kind: pa.DataType) -> Iterator[np.ndarray]:
    """Yield a restored column in parts."""
    for k in range(column.num_record_batches):
        part = column.get_batch(k).column(0)
        if part.type != kind:
            raise ValueError(f"a column of {part.type}, not {kind}")
        yield part.to_numpy()


def _ids(column: pa.RecordBatchFileReader, n: int) -> Spooled:
    """Return restored ids, which have to be below `n`, because compiled code does not check them."""
    ids = _spooled(np.int32, _parts(column, pa.int32()))
    if any(part.min() < 0 or part.max() >= n for part in ids.parts()):
        raise ValueError(f"ids outside of 0 to {n}")
    return ids


def _keys(column: pa.RecordBatchFileReader) -> pa.Array:
    """Return restored keys, which have to be ascending."""
    keys = column.get_batch(0).column(0)
    keys.validate(full=True)
    if keys.type not in (pa.int64(), pa.string(), pa.large_string()) or not is_ascending(keys):
        raise ValueError("keys that are not ascending")
    return keys


class _Core:
    """Edges on disk that a result may contain; `degrees` of the vertices, and `fingerprint`, are those of all edges."""

    def __init__(self, sizes: tuple[int, int], least: tuple[int, int]) -> None:
        self.degrees = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
        # A vertex of a result has at least as many neighbours as the minimum size of the other side.
        self._fewest = least[::-1]
        self._edges = Spooled(), Spooled()
        self.fingerprint = Fingerprint()

    def state(self) -> SavedState:
        """Return what a resumed run needs."""
        of = self.fingerprint
        return SavedState([*self._edges, *self.degrees], {"sums": [of.n_items, of.first, of.second]})

    def restore(self, saved: SavedState) -> _Core:
        """Take over what `state` has returned, and return this object."""
        arrays, facts = saved
        left, right = (_ids(ids, of.size) for ids, of in zip(arrays[:2], self.degrees, strict=True))
        degrees = [np.concatenate(list(_parts(of, pa.int64()))) for of in arrays[2:]]
        if left.n != right.n or [of.size for of in degrees] != [of.size for of in self.degrees]:
            raise ValueError("columns of other lengths")
        self._edges, self.degrees = (left, right), (degrees[0], degrees[1])
        self.fingerprint = Fingerprint(*map(index, facts["sums"]))
        return self

    @property
    def n(self) -> int:
        """Number of edges."""
        return self._edges[0].n

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """Add further edges."""
        for spooled, ids, degrees in zip(self._edges, (left, right), self.degrees, strict=True):
            count_ids(ids, degrees)
            spooled.write(spooled.n, ids)

    def reduce(self, most_edges: int) -> None:
        """Drop edges of vertices with too few neighbours until there is none; in memory once few enough remain."""
        # The remaining edges do not depend on the budget, so a run can be resumed with another budget.
        degrees = self.degrees[0].astype(np.int32), self.degrees[1].astype(np.int32)
        n_before = self.n + 1
        while self.n < n_before:
            n_before, n = self.n, 0
            piece = PIECE if n_before > most_edges else max(1, n_before)
            with run_state.at_part(f"leaving out edges that can be in no result, {n_before:,} remain"):
                for start in range(0, n_before, piece):
                    ids = self._edges[0].read(start, start + piece), self._edges[1].read(start, start + piece)
                    while (n_kept := leave_out_pairs(ids, degrees, self._fewest)) < ids[0].size:
                        ids = ids[0][:n_kept], ids[1][:n_kept]
                    for spooled, of_side in zip(self._edges, ids, strict=True):
                        spooled.write(n, of_side)
                    n += n_kept
            for spooled in self._edges:
                spooled.n = n

    def edges(self) -> _Pairs:
        """Return all ids, in memory."""
        return self._edges[0].read(0, self.n), self._edges[1].read(0, self.n)
