"""Check the tables of (p, q)-counts; no code is shared with engines and writers.

`pq_recount` counts again by another method where one exists.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.pq_recount import Recount, Walk
from mbe_stage.pipeline.verify.products import matrix_of

Cell = tuple[int, int]
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_PATTERN = f"^({_WHOLE.pattern})$"
# Digits of a decimal128(38, 0), and the default limit of Python's conversions.
_MOST_DIGITS, _PYTHON_DIGITS = 38, 4000
_BATCH_ROWS = 1 << 16


def check(job: Job) -> None:
    """Check the tables against each other, the manifest and, if it is given, the input.

    Raises
    ------
    VerificationError
        The first error found.
    """
    section = job.manifest.config.problem_section
    cells = [
        (p, q)
        for p in range(1 if section.table else section.p, section.p + 1)
        for q in range(1 if section.table else section.q, section.q + 1)
    ]
    counts = read_counts(job.run, cells)
    job.report.n_found = len(cells)
    job.passed("counts", f"{len(cells):,} as numbers and as text")
    _check_manifest(job, counts)
    again = None if job.edges is None else _Again.of(job, job.edges, cells)
    of_counts = hashlib.sha256()
    _add(of_counts, (f"{p} {q} {_text(count)}" for (p, q), count in counts.items()))
    of_local = () if section.local == "none" else _check_local(job, counts, again)
    whole = hashlib.sha256("\n".join([of_counts.hexdigest(), *of_local]).encode()).hexdigest()
    job.check_fingerprint(whole)
    job.passed("content fingerprint", whole)
    _check_counts(job, counts, again)


@dataclass(frozen=True, slots=True)
class _Again:
    """Counts computed again from the input."""

    recount: Recount
    walk: Walk | None

    @classmethod
    def of(cls, job: Job, edges: EdgeData, cells: list[Cell]) -> _Again:
        section = job.manifest.config.problem_section
        wanted = (
            _ids(section.containing_left, edges.left_keys, job, "left"),
            _ids(section.containing_right, edges.right_keys, job, "right"),
        )
        recount = Recount(matrix_of(edges), *wanted)
        return cls(recount, recount.walked(cells, with_local=section.local != "none"))

    def count(self, cell: Cell) -> int | None:
        closed = self.recount.count(*cell)
        if closed is not None and self.walk is not None and closed != self.walk.counts[cell]:
            raise AssertionError(f"two ways of counting differ at {cell}")
        return closed if self.walk is None else self.walk.counts[cell]

    def of_vertices(self, cell: Cell) -> tuple[Mapping[int, int], Mapping[int, int]] | None:
        if self.walk is not None:
            return self.walk.left[cell], self.walk.right[cell]
        return self.recount.of_vertices(*cell)


def _ids(wanted: Iterable[int | str], keys: pa.Array, job: Job, side: str) -> tuple[int, ...]:
    by_text = {str(key): i for i, key in enumerate(keys.to_pylist())}
    missing = [key for key in wanted if str(key) not in by_text]
    if missing:
        raise VerificationError(
            f"{job.run / 'manifest.json'}: containing_{side} of the config is {missing[0]!r}, which is not in the input"
        )
    return tuple(by_text[str(key)] for key in wanted)


def _check_manifest(job: Job, counts: Mapping[Cell, int]) -> None:
    stated = job.manifest.counts
    largest = max(counts.values())
    p, q = next(cell for cell, count in counts.items() if count == largest)
    expected = {
        "counts": len(counts),
        "above_zero": sum(count > 0 for count in counts.values()),
        "largest": _text(largest),
        "largest_p": p,
        "largest_q": q,
    }
    if job.edges is not None:
        for side, ids in (("left", job.edges.left_ids), ("right", job.edges.right_ids)):
            expected[f"most_{side}_degree"] = int(np.bincount(ids).max())
    else:
        job.not_checked("counts: most_left_degree, most_right_degree: the input is not given")
    for name, value in expected.items():
        if getattr(stated, name) != value:
            raise VerificationError(
                f"{job.run / 'manifest.json'}: counts.{name} is {getattr(stated, name)!r}; recomputed {value!r}"
            )
    job.passed("counts of the manifest", ", ".join(expected))


def _check_local(job: Job, counts: Mapping[Cell, int], again: _Again | None) -> tuple[str, ...]:
    """Check the local tables; return their checksums for the fingerprint."""
    run, manifest, n_left = job.run, job.manifest, job.manifest.input.n_left
    keys, pairs = _keys(job), _pairs(job)
    ends = None if pairs is None else _ends(job, pairs, keys)
    of_vertices, of_edges = hashlib.sha256(), hashlib.sha256()
    _add(of_vertices, (json.dumps(str(key), ensure_ascii=False) for key in keys.to_pylist()))
    if ends is not None:
        _add(of_edges, (f"{left} {right}" for left, right in zip(*(each.tolist() for each in ends), strict=True)))
    n_held, is_whole = 0, manifest.truncated is None
    for cell, local in locals_of(run, list(counts), keys, n_left, pairs):
        _add(of_vertices, map(_text, [*local.left, *local.right]))
        _add(of_edges, map(_text, local.edges or ()))
        if is_whole:
            check_sums(run, cell, counts[cell], local, ends)
        n_held += again is not None and _is_held_against(job, cell, local, ends, again)
    if is_whole:
        what = "vertices and edges" if pairs is not None else "vertices"
        job.passed("local counts", f"those of {what} add up to p, q and p q times each of {len(counts):,} counts")
    else:
        job.not_checked(f"local counts: their sums: the run is incomplete ({manifest.truncated})")
    if n_held:
        job.passed("local counts against the input", f"of {n_held:,} of {len(counts):,} counts")
    if n_held < len(counts):
        why = "the input is not given" if again is None else "too many to count again"
        job.not_checked(f"local counts against the input: of {len(counts) - n_held:,} of {len(counts):,} counts: {why}")
    return (of_vertices.hexdigest(), *([of_edges.hexdigest()] if ends is not None else []))


def _keys(job: Job) -> pa.Array:
    """Return the keys of the left and right vertices in one column, from the input or in table order."""
    if job.edges is None:
        n = job.manifest.input.n_left + job.manifest.input.n_right
        return _first_rows(job, "pq_vertices.parquet", ["key"], n)[0]
    left, right = job.edges.left_keys, job.edges.right_keys
    if left.type != right.type or not pa.types.is_integer(left.type):
        left, right = left.cast(pa.large_string()), right.cast(pa.large_string())
    return pa.concat_arrays([left, right])


def _pairs(job: Job) -> tuple[pa.Array, pa.Array] | None:
    """Return the keys of each edge's ends, in table order; None without a table."""
    if job.manifest.config.problem_section.local != "edges":
        return None
    if job.edges is None:
        left, right = _first_rows(job, "pq_edges.parquet", ["left_key", "right_key"], job.manifest.input.n_edges)
        return left, right
    edges = job.edges
    return edges.left_keys.take(pa.array(edges.left_ids)), edges.right_keys.take(pa.array(edges.right_ids))


def _first_rows(job: Job, name: str, columns: list[str], n: int) -> list[pa.Array]:
    rows, n_read = [], 0
    with pq.ParquetFile(job.run / name) as file:
        for batch in file.iter_batches(columns=columns):
            rows.append(batch)
            n_read += batch.num_rows
            if n_read >= n:
                break
    if n_read < n:
        raise VerificationError(f"{job.run / name}: has {n_read} rows; expected {n:,} per count")
    table = pa.Table.from_batches(rows).slice(0, n).combine_chunks()
    return [pa.concat_arrays(table.column(column).chunks) for column in columns]


def _ends(job: Job, pairs: tuple[pa.Array, pa.Array], keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the dense ids of each edge's ends."""
    text, n_left = [str(key) for key in keys.to_pylist()], job.manifest.input.n_left
    found = []
    for side, of_side in zip((text[:n_left], text[n_left:]), pairs, strict=True):
        place = {key: i for i, key in enumerate(side)}
        wanted = [str(key) for key in of_side.to_pylist()]
        if missing := [key for key in wanted if key not in place]:
            raise VerificationError(
                f"{job.run / 'pq_edges.parquet'}: {missing[0]!r} is the end of an edge, but not a vertex of that "
                "side in pq_vertices.parquet"
            )
        found.append(np.array([place[key] for key in wanted], np.int64))
    return found[0], found[1]


def _is_held_against(
    job: Job, cell: Cell, local: Local, ends: tuple[np.ndarray, np.ndarray] | None, again: _Again
) -> bool:
    """Check a cell's local counts against the input; return whether that was possible."""
    expected = again.of_vertices(cell)
    if expected is None:
        return False
    is_whole = job.manifest.truncated is None
    named: list[tuple[str, Mapping[Any, int], Mapping[Any, int]]] = [
        ("left vertex", dict(enumerate(local.left)), expected[0]),
        ("right vertex", dict(enumerate(local.right)), expected[1]),
    ]
    if local.edges is not None and ends is not None and again.walk is not None:
        pairs = zip(*(each.tolist() for each in ends), strict=True)
        named.append(("edge", dict(zip(pairs, local.edges, strict=True)), again.walk.edges[cell]))
    for what, found, right in named:
        for which, number in found.items():
            true = right.get(which, 0)
            if (number != true) if is_whole else (number > true):
                raise VerificationError(
                    f"{job.run}: {what} {which} is in {_text(number)} bicliques of (p, q) = {cell}; recomputed "
                    f"{_text(true)}"
                )
    return True


def _check_counts(job: Job, counts: Mapping[Cell, int], again: _Again | None) -> None:
    """Check the counts against the input as far as they can be counted again."""
    if again is None:
        job.not_checked("counts against the input: the input is not given")
        return
    is_whole, held = job.manifest.truncated is None, []
    for cell, count in counts.items():
        true = again.count(cell)
        if true is None:
            continue
        held.append(cell)
        if (count != true) if is_whole else (count > true):
            bound = "" if is_whole else "at most "
            raise VerificationError(
                f"{job.run / 'pq_counts.parquet'}: the count of (p, q) = {cell} is {_text(count)}; recomputed "
                f"{bound}{_text(true)}"
            )
    job.report.n_against_input = len(held)
    if not is_whole:
        job.not_checked(f"counts: lower bounds only: the run is incomplete ({job.manifest.truncated})")
    if held:
        job.passed("counts against the input", f"{len(held):,} of {len(counts):,}")
    if missing := [cell for cell in counts if cell not in set(held)]:
        job.not_checked(
            f"counts against the input: {len(missing):,} of {len(counts):,}, the first of (p, q) = {missing[0]}: too "
            "many bicliques to count again one by one, and no closed form"
        )


def _add(fingerprint: Any, lines: Iterable[str]) -> None:
    for line in lines:
        fingerprint.update(f"{line}\n".encode())


def _text(number: int) -> str:
    return f"{Decimal(number)}"


@dataclass(frozen=True, slots=True)
class Local:
    """The local counts of one cell: vertices by dense id, edges in table order (None without them)."""

    left: list[int]
    right: list[int]
    edges: list[int] | None


def read_counts(run: Path, cells: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Read the counts of `pq_counts`; it must have exactly these rows, in this order.

    Raises
    ------
    VerificationError
        A row is wrong, or a number differs from its text.
    """
    path = run / "pq_counts.parquet"
    table = pq.read_table(path)
    found = list(zip(*(table.column(name).to_pylist() for name in ("p", "q")), strict=True))
    if found != list(cells):
        wrong = next((i for i, (one, other) in enumerate(zip(found, cells, strict=False)) if one != other), None)
        place = min(len(found), len(cells)) if wrong is None else wrong
        has = f"(p, q) = {found[place]}" if place < len(found) else "no such row"
        expected = f"(p, q) = {cells[place]}" if place < len(cells) else f"{len(cells)} rows in all"
        raise VerificationError(f"{path}, row {place}: {has}; expected {expected}, by its config")
    return dict(zip(cells, _numbers(path, table, 0), strict=True))


def locals_of(
    run: Path,
    cells: Sequence[tuple[int, int]],
    keys: pa.Array,
    n_left: int,
    edges: tuple[pa.Array, pa.Array] | None,
) -> Iterator[tuple[tuple[int, int], Local]]:
    """Yield the local counts, cell by cell.

    Parameters
    ----------
    cells : sequence of (int, int)
    keys : pa.Array
        Keys of the left, then of the right vertices, in table order.
    edges : pair of pa.Array, or None
        The left and the right key of each edge; None without such a table.

    Raises
    ------
    VerificationError
        A row is wrong, or a number differs from its text.
    """
    n_right = len(keys) - n_left
    sides = pa.array(["left"] * n_left + ["right"] * n_right, pa.string())
    vertices = pa.array(np.concatenate([np.arange(n_left), np.arange(n_right)]).astype(np.int32))
    of_vertices = _by_cell(run / "pq_vertices.parquet", cells, {"side": sides, "vertex": vertices, "key": keys})
    if edges is None:
        for cell, numbers in of_vertices:
            yield cell, Local(numbers[:n_left], numbers[n_left:], None)
        return
    of_edges = _by_cell(run / "pq_edges.parquet", cells, {"left_key": edges[0], "right_key": edges[1]})
    for (cell, numbers), (_, each) in zip(of_vertices, of_edges, strict=True):
        yield cell, Local(numbers[:n_left], numbers[n_left:], each)


def check_sums(
    run: Path,
    cell: tuple[int, int],
    count: int,
    local: Local,
    ends: tuple[np.ndarray, np.ndarray] | None,
) -> None:
    """Check the sums over a cell's bicliques: p left vertices, q right vertices and p q edges each.

    Parameters
    ----------
    ends : pair of (n_edges,) int, or None
        The dense ids of each edge's ends, if known: each biclique of a left vertex has q of its edges.

    Raises
    ------
    VerificationError
        Local counts do not add up.
    """
    p, q = cell
    for name, numbers, times in (
        ("pq_vertices.parquet: the left vertices", local.left, p),
        ("pq_vertices.parquet: the right vertices", local.right, q),
        ("pq_edges.parquet: the edges", local.edges, p * q),
    ):
        if numbers is not None and sum(numbers) != times * count:
            raise VerificationError(
                f"{run / name} of (p, q) = {cell} add up to {_text(sum(numbers))}; expected {times} times the count: "
                f"{_text(times * count)}"
            )
    if local.edges is None or ends is None:
        return
    for side, ids, of_vertices, times in (("left", ends[0], local.left, q), ("right", ends[1], local.right, p)):
        summed = [0] * len(of_vertices)
        for vertex, number in zip(ids.tolist(), local.edges, strict=True):
            summed[vertex] += number
        for vertex, (total, number) in enumerate(zip(summed, of_vertices, strict=True)):
            if total != times * number:
                raise VerificationError(
                    f"{run / 'pq_edges.parquet'}: the edges of {side} vertex {vertex} of (p, q) = {cell} add up to "
                    f"{_text(total)}; expected {times} times its own count: {_text(times * number)}"
                )


def _by_cell(
    path: Path, cells: Sequence[tuple[int, int]], fixed: Mapping[str, pa.Array]
) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Yield the numbers of a local table, cell by cell; its other columns are the same in each cell."""
    n_rows = len(next(iter(fixed.values())))
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows != n_rows * len(cells):
            raise VerificationError(
                f"{path}: has {file.metadata.num_rows} rows; expected {n_rows} for each of {len(cells)} counts"
            )
        batches = file.iter_batches(batch_size=_BATCH_ROWS)
        waiting = pa.Table.from_batches([], file.schema_arrow)
        for k, cell in enumerate(cells):
            while waiting.num_rows < n_rows:
                waiting = pa.concat_tables([waiting, pa.Table.from_batches([next(batches)])])
            rows, waiting = waiting.slice(0, n_rows), waiting.slice(n_rows)
            expected = {**fixed, "p": _constant(cell[0], n_rows), "q": _constant(cell[1], n_rows)}
            for name, column in expected.items():
                _check_column(path, name, rows.column(name), column, k * n_rows)
            yield cell, _numbers(path, rows, k * n_rows)


def _constant(value: int, n: int) -> pa.Array:
    return pa.array(np.full(n, value, np.int64))


def _check_column(path: Path, name: str, found: pa.ChunkedArray, expected: pa.Array, first_row: int) -> None:
    same = pc.equal(found.cast(expected.type), pa.chunked_array([expected]))
    place = pc.index(same, False).as_py()
    if place >= 0:
        raise VerificationError(
            f"{path}, row {first_row + place}: {name} is {found[place].as_py()!r}; expected {expected[place].as_py()!r}"
        )


def _numbers(path: Path, rows: pa.Table, first_row: int) -> list[int]:
    """Parse `count_text` and check it against `count`."""
    text, count = rows.column("count_text"), rows.column("count")
    is_whole = pc.match_substring_regex(text, _PATTERN)
    # A decimal column cannot mark an invalid number, so the text is checked first.
    says_the_same = pc.if_else(
        pc.greater(pc.utf8_length(text), _MOST_DIGITS), pc.is_null(count), pc.equal(pc.cast(count, pa.string()), text)
    )
    right = pc.and_kleene(is_whole, pc.fill_null(says_the_same, False))
    place = pc.index(right, False).as_py()
    if place >= 0:
        raise VerificationError(
            f"{path}, row {first_row + place}: count is {count[place].as_py()} and count_text {text[place].as_py()!r}; "
            f"expected the same whole number, or null if it has more than {_MOST_DIGITS} digits"
        )
    return [int(each) if len(each) <= _PYTHON_DIGITS else int(Decimal(each)) for each in text.to_pylist()]
