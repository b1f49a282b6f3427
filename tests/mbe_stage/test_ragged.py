"""Growing arrays, and offsets."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mbe_stage import ragged
from mbe_stage.cliques.results import CliqueBlock, CliqueTableSink
from mbe_stage.ragged import Growing, long_offsets, offsets_of


def test_growing_arrays_keep_everything_in_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        parts = [rng.integers(0, 1 << 30, int(rng.integers(0, 3000)), dtype=np.int32) for _ in range(12)]
        grown, seen = Growing(), []
        for n, part in enumerate(parts):
            grown.append(part)
            if rng.random() < 0.3:
                seen.append((n + 1, grown.values()))
        assert np.array_equal(grown.values(), np.concatenate(parts))
        assert grown.values().dtype == np.int32
        # Earlier views are unaffected by later appends.
        for n, values in seen:
            assert np.array_equal(values, np.concatenate(parts[:n]))


@pytest.mark.parametrize("bounds", [{}, {"_MOST_RESERVED": 1 << 14}, {"_MOST_RESERVED": 0}, {"_POPULATE_WRITE": 9999}])
def test_large_arrays_are_the_same_in_any_memory(bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In reserved address space, at its end, without any, and with pages one by one."""
    monkeypatch.setattr(ragged, "_RESERVED_FROM", 1500)
    monkeypatch.setattr(ragged, "_AT_ONCE", 1 << 12)
    for name, value in bounds.items():
        monkeypatch.setattr(ragged, name, value)
    test_growing_arrays_keep_everything_in_order()


@pytest.mark.skipif(sys.platform != "linux", reason="address space is reserved on Linux")
def test_a_large_array_is_not_moved_and_takes_little_more_than_it_holds() -> None:
    grown, part = Growing(), np.ones(1 << 18, np.int32)
    for _ in range(20):
        grown.append(part)
    before = grown.values()
    first = before.__array_interface__["data"][0]
    for _ in range(40):
        grown.append(part)
    assert grown.values().__array_interface__["data"][0] == first
    assert grown.values().sum() == 60 << 18
    assert grown._reserved is not None
    assert grown._reserved._n_touched <= grown.values().nbytes + ragged._AT_ONCE


def test_without_reserved_address_space_arrays_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object, **_options: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(ragged.mmap, "mmap", refused)
    grown = Growing()
    for n in range(24):
        grown.append(np.full(1 << 18, n, np.int32))
    assert grown._reserved is None
    assert np.array_equal(grown.values(), np.repeat(np.arange(24), 1 << 18))


def test_no_input_gives_an_empty_array() -> None:
    grown = Growing()
    assert grown.values().size == 0
    grown.append(np.empty(0, np.int32))
    assert grown.values().size == 0
    grown.append(np.array([7], np.int32))
    assert grown.values().tolist() == [7]


def test_offsets_begin_at_zero() -> None:
    sizes = np.array([3, 0, 2], np.int32)
    for offsets, dtype in ((offsets_of(sizes), np.int32), (long_offsets(sizes), np.int64)):
        assert offsets.tolist() == [0, 3, 3, 5]
        assert offsets.dtype == dtype


def test_a_table_is_unchanged_when_its_sink_grows() -> None:
    sink = CliqueTableSink()
    sink.accept(CliqueBlock(1, np.array([2], np.int32), np.array([0, 1], np.int32)))
    before = sink.table()
    sink.accept(CliqueBlock(1, np.array([2], np.int32), np.array([1, 2], np.int32)))
    assert before.as_set() == {(0, 1)}
    assert sink.table().as_set() == {(0, 1), (1, 2)}
