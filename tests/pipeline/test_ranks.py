"""Statistics of workers in a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mbe_stage.pipeline.execution.worker_stats import WorkerStats, worker_stats_of
from mbe_stage.runners.worker_stats import RankFacts
from mbe_stage.stream import StreamFacts


def facts(*ranks: Any, seconds: float = 0.0) -> StreamFacts:
    return StreamFacts(9, None, "cpu", "two of them", 5.0, 1.0, {}, (), ranks, seconds)


@dataclass
class Device:
    """Statistics of a worker whose runner makes no parts."""

    address: str
    busy_seconds: float
    device: str = "a GPU"
    n_found: int = 3
    n_bytes: int = 10
    n_leases: int = 1


def test_one_process_has_no_ranks() -> None:
    assert worker_stats_of(facts()) is None


def test_busy_ratios_and_skew() -> None:
    first = RankFacts("tcp://one", "cpu, 1 thread", 6, 2048, True, 2, 3.0)
    found = worker_stats_of(facts(first, Device("1", 1.0), seconds=4.0))
    assert found is not None
    assert [rank.busy for rank in found.each] == [0.75, 0.25]
    assert [rank.writes for rank in found.each] == [True, False]
    assert found.skew == pytest.approx(0.5)
    assert WorkerStats.model_validate_json(found.model_dump_json()) == found
    assert found.lines() == [
        ("tcp://one", "6 results, 2.0 KiB written, 2 leases, busy 75%; cpu, 1 thread"),
        ("1", "3 results, 10 B sent, 1 lease, busy 25%; a GPU"),
        ("skew", "longest busy time 50% above the mean, in 4.0 s"),
    ]


def test_idle_workers_have_no_skew() -> None:
    found = worker_stats_of(facts(Device("0", 0.0), Device("1", 0.0)))
    assert found is not None
    assert found.skew == 0.0
