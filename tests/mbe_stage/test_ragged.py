"""Arrays that grow, and offsets."""

from __future__ import annotations

import numpy as np

from mbe_stage.cliques.results import CliqueBlock, CliqueTableSink
from mbe_stage.ragged import Growing, long_offsets, offsets_of


def test_what_grows_holds_everything_in_order() -> None:
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
        # What was seen on the way is not touched by what came later.
        for n, values in seen:
            assert np.array_equal(values, np.concatenate(parts[:n]))


def test_nothing_is_an_empty_array() -> None:
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


def test_a_table_stays_as_it_is_when_the_sink_takes_more() -> None:
    sink = CliqueTableSink()
    sink.accept(CliqueBlock(1, np.array([2], np.int32), np.array([0, 1], np.int32)))
    before = sink.table()
    sink.accept(CliqueBlock(1, np.array([2], np.int32), np.array([1, 2], np.int32)))
    assert before.as_set() == {(0, 1)}
    assert sink.table().as_set() == {(0, 1), (1, 2)}
