"""The tables of (p, q)-counts as they are written: rows, numbers and their text, and what local counts add up to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError

__all__ = ["Local", "check_sums", "locals_of", "read_counts"]

_WHOLE = re.compile(r"0|[1-9][0-9]*")
_PATTERN = f"^({_WHOLE.pattern})$"
# Digits of a decimal128(38, 0); and those that Python takes without asking.
_MOST_DIGITS, _PYTHON_DIGITS = 38, 4000
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Local:
    """The local counts of one cell, by dense id; of the edges in the order of the table, None without them."""

    left: list[int]
    right: list[int]
    edges: list[int] | None


def read_counts(run: Path, cells: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The counts of `pq_counts`, which has just these rows, in this order.

    Raises
    ------
    VerificationError
        Another row, or a number that is not what its text says.
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
    """The local counts, cell by cell.

    Parameters
    ----------
    cells : sequence of (int, int)
    keys : pa.Array
        Of the left vertices, then of the right ones, as the table has them.
    edges : pair of pa.Array, or None
        The left and the right key of each edge; None where there is no such table.

    Raises
    ------
    VerificationError
        Another row than there should be, or a number that is not what its text says.
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
    """What the bicliques of a cell amount to: p left vertices each, q right ones, and p q edges.

    Parameters
    ----------
    cell : (int, int)
    count : int
        Of the bicliques.
    ends : pair of (n_edges,) int, or None
        The dense ids of each edge's ends, where they are known: each biclique of a left vertex has q of its edges.

    Raises
    ------
    VerificationError
        Local counts that do not add up.
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
    """The numbers of a local table, cell by cell; its other columns are the same in each."""
    n_rows = len(next(iter(fixed.values())))
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows != n_rows * len(cells):
            raise VerificationError(
                f"{path}: has {file.metadata.num_rows} rows; expected {n_rows} of each of {len(cells)} counts"
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
    """What `count_text` says, once it was held against `count`."""
    text, count = rows.column("count_text"), rows.column("count")
    is_whole = pc.match_substring_regex(text, _PATTERN)
    # Decimals have no sign of a number that is none: text is looked at first.
    says_the_same = pc.if_else(
        pc.greater(pc.utf8_length(text), _MOST_DIGITS), pc.is_null(count), pc.equal(pc.cast(count, pa.string()), text)
    )
    right = pc.and_kleene(is_whole, pc.fill_null(says_the_same, False))
    place = pc.index(right, False).as_py()
    if place >= 0:
        raise VerificationError(
            f"{path}, row {first_row + place}: count is {count[place].as_py()} and count_text {text[place].as_py()!r}; "
            f"expected the same whole number, and null where it has more than {_MOST_DIGITS} digits"
        )
    return [int(each) if len(each) <= _PYTHON_DIGITS else int(Decimal(each)) for each in text.to_pylist()]


def _text(number: int) -> str:
    return f"{Decimal(number)}"
