"""Sums of several threads add up to the sum of all blocks, however many sums there may be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.pipeline.backends.arrow import summaries
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.pipeline.problems.bicliques.arrow import Summary
from mbe_stage.pipeline.problems.cliques.arrow import Summary as CliqueSummary
from tests.patience import PATIENCE
from tests.pipeline.test_summary import N_LEFT, N_RIGHT, plain, random_block, summed


def nothing() -> Summary:
    return Summary(N_LEFT, N_RIGHT)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let further sums pay off from the first key on."""
    monkeypatch.setattr(summaries, "_LEAST_SHARE", 0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("most_bytes", [0, 3 << 20, 64 << 20])
def test_sums_of_threads_equal_the_whole(most_bytes: int) -> None:
    chance = np.random.default_rng(most_bytes % 97)
    parts = [random_block(chance, 40) for _ in range(60)]
    sums = Summaries(nothing, most_bytes)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts[:50]))
    assert plain(sums.whole()) == plain(summed(*parts[:50]))
    # Adding continues from there, after a merge with the sums of another process.
    sums.merge(summed(*parts[50:55]))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts[55:]))
    assert plain(sums.whole()) == plain(summed(*parts))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("most_bytes", "at_once"), [(0, 1), (3 << 20, 2), (64 << 20, 4)])
def test_as_many_threads_add_at_once_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, at_once: int
) -> None:
    inside, most_inside, lock = 0, 0, threading.Lock()
    add = Summary.add
    meet: Callable[[], object] = threading.Barrier(at_once, timeout=PATIENCE).wait

    def counted(self: Summary, *part: object) -> None:
        nonlocal inside, most_inside
        with lock:
            inside += 1
            most_inside = max(most_inside, inside)
        # Wait for as many threads as may be inside together.
        meet()
        add(self, *part)  # type: ignore[arg-type]
        with lock:
            inside -= 1

    monkeypatch.setattr(Summary, "add", counted)
    chance = np.random.default_rng(0)
    parts = [random_block(chance, 5) for _ in range(4)]
    sums = Summaries(nothing, most_bytes)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: sums.add(*part), parts))
    assert most_inside == at_once
    monkeypatch.undo()
    assert plain(sums.whole()) == plain(summed(*parts))


class Counted:
    """A sum of numbers that counts merged sums, and holds each thread until all are inside."""

    n_bytes = 800

    def __init__(self, inside: threading.Barrier) -> None:
        self.total, self.inside = 0, inside

    def add(self, block: int, keys: np.ndarray) -> None:
        if keys.size:
            self.inside.wait(PATIENCE)
        self.total += block

    def merge(self, other: Counted) -> None:
        self.total += other.total


def test_few_results_have_one_sum_and_many_have_more() -> None:
    made: list[Counted] = []
    inside = threading.Barrier(2)

    def make() -> Counted:
        made.append(Counted(inside))
        return made[-1]

    sums = Summaries(make, most_bytes=1 << 20)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: sums.add(number, np.empty(0, np.int64)), range(100)))
    assert len(made) == 1
    # Two threads wait inside for each other, so a second sum is needed: 400 bytes of keys are half of its size.
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: sums.add(number, np.empty(50, np.int64)), [7, 8]))
    assert len(made) == 2
    assert sums.whole().total == sum(range(100)) + 15


@pytest.mark.parametrize("n_sums", range(1, 9))
def test_all_sums_are_merged_once(n_sums: int) -> None:
    inside = threading.Barrier(n_sums)
    sums = Summaries(lambda: Counted(inside), most_bytes=1 << 20)
    for each in (1, 10):
        with ThreadPoolExecutor(n_sums) as pool:
            list(pool.map(lambda number: sums.add(number, np.empty(800, np.int64)), [each] * n_sums))
    assert sums.whole().total == sums.whole().total == 11 * n_sums


def test_cliques_too() -> None:
    chance = np.random.default_rng(1)
    whole, parts = CliqueSummary(30), []
    for _ in range(40):
        sizes = chance.integers(1, 5, 20).astype(np.int32)
        members = [np.sort(chance.choice(30, size, replace=False)) for size in sizes]
        parts.append((CliqueBlock(20, sizes, np.concatenate(members).astype(np.int32)), chance.integers(-99, 99, 20)))
        whole.add(*parts[-1])
    sums = Summaries(lambda: CliqueSummary(30), 64 << 20)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts))
    of_threads = sums.whole()
    assert str(of_threads.fingerprint) == str(whole.fingerprint)
    assert of_threads.sizes.counts == whole.sizes.counts
    assert of_threads.members == whole.members
    for name in ("n_bicliques", "largest_edges", "largest_keys"):
        assert getattr(of_threads.vertices, name).tolist() == getattr(whole.vertices, name).tolist()
