"""Cores of bipartite graphs, compared with the definition."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.graphs import subgraphs
from mbe_stage.graphs.subgraphs import live_degrees, peel_to_core


def core_of(matrix: np.ndarray, alive: tuple[np.ndarray, np.ndarray], least: tuple[int, int]) -> np.ndarray:
    """Return the matrix without the rows and columns that have too few entries."""
    rest = matrix & alive[0][:, None] & alive[1]
    while True:
        kept = rest & (rest.sum(1) >= least[1])[:, None] & (rest.sum(0) >= least[0])
        if np.array_equal(kept, rest):
            return rest
        rest = kept


@pytest.mark.parametrize("seed", range(300))
def test_cores_within_cores(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = random.integers(0, 60, 2)
    # Many rows with few entries, so that lists are copied; some cores vanish.
    matrix = random.random(shape) < (random.random(shape[0]) ** random.integers(1, 6))[:, None]
    graph = BipartiteCSR.from_edges(*np.nonzero(matrix), *matrix.shape)
    alive = random.random(shape[0]) < 0.5 + seed % 2, random.random(shape[1]) < 0.5 + seed % 2
    first, degrees = (alive[0].copy(), alive[1].copy()), live_degrees(graph, *alive)
    for least in np.cumsum(random.integers(1, 5, (3, 2)), axis=0).tolist():
        expected = core_of(matrix, first, least)
        assert peel_to_core(graph, *alive, *least, degrees) == expected.sum()
        for axis, of_side in enumerate(alive):
            assert of_side.tolist() == expected.any(1 - axis).tolist()


def test_lists_are_copied_if_many_vertices_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of clearing leads to the next: a chain is left to the queue."""
    n = 400
    left = np.concatenate([np.arange(n), np.arange(1, n), np.repeat(np.arange(n, 2 * n), 1)])
    right = np.concatenate([np.arange(n), np.arange(n - 1), np.arange(n)])
    graph = BipartiteCSR.from_edges(left, right)
    alive = np.ones(graph.n_left, np.bool_), np.ones(graph.n_right, np.bool_)
    called = []
    squeezed = subgraphs._squeeze.py_func
    monkeypatch.setattr(subgraphs, "_squeeze", lambda *given: (called.append(1), squeezed(*given)))
    monkeypatch.setattr(subgraphs, "_sweep", subgraphs._sweep.py_func)
    monkeypatch.setattr(subgraphs, "_peel_to_core", subgraphs._peel_to_core.py_func)
    monkeypatch.setattr(subgraphs, "_LONG", 2)
    assert peel_to_core(graph, *alive, 2, 2) == 0
    assert called
    assert not alive[0].any()
