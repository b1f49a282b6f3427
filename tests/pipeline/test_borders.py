"""Limits at exactly their border, and what several threads share: each of these tests was seen to fail with a mistake.

The mistakes were planted one at a time: a comparison off by one, a lock left out, a number rounded the other way.
"""

from __future__ import annotations

import math
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline import Config, comparison, run
from pipeline.backends.arrow import block_writer
from pipeline.backends.arrow.block_writer import BlockWriter
from pipeline.outputs.derived import GuardedCollector
from pipeline.report.heat_grid import Axis, Cell, HeatWords, heat_grid
from pipeline.stores.cells import NumberedCell
from pipeline.stores.failures import StoreConflict

SCHEMA = pa.schema([pa.field("n", pa.int64())])


# --- what several threads share ------------------------------------------------------------------------------------


class Crowded:
    """A collector that notes how many threads are in it at once, and what it misses if there are two."""

    def __init__(self) -> None:
        self.inside = self.most = self.total = 0

    def _counted(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        total = self.total
        time.sleep(0.001)
        self.total = total + 1
        self.inside -= 1

    def accept(self, _block: Any, _keys: Any) -> None:
        self._counted()

    def sums(self) -> dict[str, Any]:
        self._counted()
        return {}

    def restore(self, _sums: Any) -> None:
        self._counted()


@pytest.mark.parametrize("names", [["accept"], ["accept", "sums"], ["accept", "restore"]], ids=" and ".join)
def test_a_derived_output_takes_one_block_at_a_time(tmp_path: Path, names: list[str]) -> None:
    """Whichever of its methods several threads call."""
    crowded = Crowded()
    guarded = GuardedCollector("crowded", SimpleNamespace(run_path=tmp_path), lambda _: crowded)  # type: ignore[arg-type, return-value]
    calls = {"accept": (None, None), "sums": (), "restore": ({},)}
    start = threading.Barrier(8)

    def call(number: int) -> None:
        name = names[number % len(names)]
        start.wait()
        for _ in range(10):
            getattr(guarded, name)(*calls[name])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (crowded.most, crowded.total) == (1, 80)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_rows_in_order_have_one_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sorted: bool) -> None:
    """Spills are merged in the order in which they were written; without an order several encode at once."""
    monkeypatch.setattr(block_writer, "most_encoders", lambda _: 4)
    monkeypatch.setattr(block_writer, "ROW_GROUP_BYTES", 1)
    seen: set[int] = set()

    def rows(block: int) -> pa.RecordBatch:
        seen.add(threading.get_ident())
        time.sleep(0.005)
        return pa.record_batch([pa.array([block])], schema=SCHEMA)

    order: Any = SimpleNamespace(add=lambda _: None, batches=lambda: ()) if is_sorted else None
    writer = BlockWriter(
        tmp_path,
        {"rows": SCHEMA},
        rows,
        lambda batch: [batch],
        compression="none",
        order=order,
        block_bytes=1 << 20,
        memory_budget=1 << 30,
    )
    with writer:
        for block in range(40):
            writer.accept(block, 1 << 20)
    assert (len(seen) == 1) == is_sorted


# --- exact borders -------------------------------------------------------------------------------------------------


def shades(numbers: list[int], most: int) -> list[int]:
    axis = Axis(np.arange(len(numbers)), np.arange(len(numbers)), 40)
    cells = [Cell(0, column, number, "") for column, number in enumerate(numbers)]
    drawing = heat_grid(cells, axis, Axis(np.arange(1), np.arange(1), 40), most, HeatWords("", "", "", ""))
    return [int(shade) for shade in re.findall(r'<rect class="h(\d+)"[^>]*><title>', drawing)]


@pytest.mark.parametrize("most", [2, 10, 1000, 10**6])
def test_a_shade_is_the_nearest_one(most: int) -> None:
    """The legend puts shade i at the number ``most ** (i / 15)``: a cell has the shade that is nearest to it."""
    numbers = sorted({round(most ** (step / 97)) for step in range(98)})
    for number, shade in zip(numbers, shades(numbers, most), strict=True):
        places = [abs(math.log(number) - math.log(most) * i / 15) for i in range(16)]
        assert places[shade] == pytest.approx(min(places))
    assert shades([1, most], most) == [0, 15]


def pairs(*groups: tuple[str, str]) -> pa.Table:
    edges = [(u, v) for left, right in groups for u in left for v in right]
    return pa.table({"l": [u for u, _ in edges], "r": [v for _, v in edges]})


def publish(out: Path, edges: pa.Table, compare: int = 100) -> Any:
    output = {"directory": str(out), "compare": compare, "report": False}
    made = run(Config.from_mapping({"output": output, "execution": {"engine": "reference"}}), edges)
    return made.manifest.comparison


@pytest.mark.parametrize("spare", [0, -1])
def test_as_many_bicliques_as_are_compared_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """Two and three: 5 are within a limit of 5, and not within one of 4."""
    monkeypatch.setattr(comparison, "MOST_BICLIQUES", 5 + spare)
    publish(tmp_path, pairs(("ab", "xy"), ("cd", "zw")))
    found = publish(tmp_path, pairs(("ab", "xy"), ("cd", "zw"), ("ef", "vu")))
    assert (found.counts == {"new": 1}) == (spare == 0)
    assert any("too many to compare" in remark for remark in found.remarks) == (spare < 0)


@pytest.mark.parametrize("spare", [0, -1])
def test_as_many_as_may_differ_are_looked_at(tmp_path: Path, spare: int) -> None:
    """One is gone and one is there in its place: 2 differ."""
    publish(tmp_path, pairs(("abc", "xyz"), ("de", "vw")))
    found = publish(tmp_path, pairs(("abc", "xyz"), ("def", "vw")), compare=2 + spare)
    assert (found.counts == {"grown": 1}) == (spare == 0)
    assert bool(found.remarks) == (spare < 0)


class Names:
    """A place in memory that keeps two writers apart."""

    address = Path("place")

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def create(self, name: str, content: bytes) -> None:
        if name in self.content:
            raise StoreConflict(name)
        self.content[name] = content

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def delete(self, names: list[str]) -> None:
        for name in names:
            self.content.pop(name, None)

    def listed(self, below: str) -> list[Any]:
        return [SimpleNamespace(name=name) for name in sorted(self.content) if name.startswith(below)]

    def size(self, name: str) -> int | None:
        return None if name not in self.content else len(self.content[name])


def test_a_number_goes_when_there_are_eight_greater_ones() -> None:
    names = Names()
    cell = NumberedCell(names, "latest", keeps_apart=True)  # type: ignore[arg-type]
    for number in range(1, 30):
        cell.write(b"%d" % number, number - 1 or None)
        kept = [int(name.rpartition("/")[2]) for name in names.content]
        assert kept == list(range(max(1, number - 7), number + 1))


@pytest.mark.parametrize(("greater", "has_won"), [(7, True), (8, False)])
def test_who_sees_eight_greater_numbers_has_lost(greater: int, has_won: bool) -> None:
    """The number may have been taken and removed before; with seven it was not."""
    names = Names()
    cell = NumberedCell(names, "latest", keeps_apart=True)  # type: ignore[arg-type]
    names.content = {f"latest/{3 + each:08}": b"" for each in range(1, greater + 1)}
    if has_won:
        cell.write(b"mine", 2)
    else:
        with pytest.raises(StoreConflict):
            cell.write(b"mine", 2)
    assert ("latest/00000003" in names.content) == has_won
