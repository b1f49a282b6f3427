"""Sums of several threads become those of all blocks, however many of them may be there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipeline.outputs.bicliques.arrow.summaries import Summaries
from pipeline.outputs.bicliques.arrow.summary import Summary
from tests.pipeline.test_summary import N_LEFT, N_RIGHT, plain, random_block, summed


@pytest.mark.parametrize("most_bytes", [0, 3 << 20, 64 << 20])
def test_what_threads_add_is_what_there_is(most_bytes: int) -> None:
    chance = np.random.default_rng(most_bytes % 97)
    parts = [random_block(chance, 40) for _ in range(60)]
    sums = Summaries(N_LEFT, N_RIGHT, 20, most_bytes)
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
    meet: Callable[[], object] = threading.Barrier(at_once).wait

    def counted(self: Summary, *part: object) -> None:
        nonlocal inside, most_inside
        with lock:
            inside += 1
            most_inside = max(most_inside, inside)
        # As many as may have to be here together, else this waits for good.
        meet()
        add(self, *part)  # type: ignore[arg-type]
        with lock:
            inside -= 1

    monkeypatch.setattr(Summary, "add", counted)
    chance = np.random.default_rng(0)
    parts = [random_block(chance, 5) for _ in range(4)]
    sums = Summaries(N_LEFT, N_RIGHT, 20, most_bytes)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: sums.add(*part), parts))
    assert most_inside == at_once
    monkeypatch.undo()
    assert plain(sums.whole()) == plain(summed(*parts))
