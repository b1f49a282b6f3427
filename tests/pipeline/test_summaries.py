"""Sums of several threads become those of all blocks, however many of them may be there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mbe_stage.cliques.results import CliqueBlock
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.pipeline.problems.bicliques.arrow import Summary
from mbe_stage.pipeline.problems.cliques.arrow import Summary as CliqueSummary
from tests.patience import PATIENCE
from tests.pipeline.test_summary import N_LEFT, N_RIGHT, plain, random_block, summed


def nothing() -> Summary:
    return Summary(N_LEFT, N_RIGHT)


@pytest.mark.parametrize("most_bytes", [0, 3 << 20, 64 << 20])
def test_what_threads_add_is_what_there_is(most_bytes: int) -> None:
    chance = np.random.default_rng(most_bytes % 97)
    parts = [random_block(chance, 40) for _ in range(60)]
    sums = Summaries(nothing, most_bytes)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts[:50]))
    assert plain(sums.whole()) == plain(summed(*parts[:50]))
    # It goes on from there, with what another process has summed up beside it.
    sums.merge(summed(*parts[50:55]))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts[55:]))
    assert plain(sums.whole()) == plain(summed(*parts))


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
        # As many as may have to be here together.
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


def test_cliques_too() -> None:
    chance = np.random.default_rng(1)
    whole, parts = CliqueSummary(30), []
    for _ in range(40):
        sizes = chance.integers(1, 5, 20).astype(np.int32)
        members = [np.sort(chance.choice(30, size, replace=False)) for size in sizes]
        parts.append((CliqueBlock(20, sizes, np.concatenate(members).astype(np.int32)), chance.integers(-99, 99, 20)))
        whole.add(*parts[-1])
    sums = Summaries(lambda: CliqueSummary(30))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda part: sums.add(*part), parts))
    of_threads = sums.whole()
    assert str(of_threads.fingerprint) == str(whole.fingerprint)
    assert of_threads.sizes.counts == whole.sizes.counts
    assert of_threads.members == whole.members
    for name in ("n_bicliques", "largest_edges", "largest_keys"):
        assert getattr(of_threads.vertices, name).tolist() == getattr(whole.vertices, name).tolist()
