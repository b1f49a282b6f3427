"""The best bicliques compared with all of them, ranked."""

import importlib.util
import json
import time
from itertools import product
from typing import Any

import numpy as np
import pytest

from mbe_stage import BestBicliques, BipartiteCSR, InvalidArgument, best_bicliques
from mbe_stage.bicliques.best import completing, reference, results, weighing
from mbe_stage.bicliques.best.problem import PROBLEM, BestQuery
from mbe_stage.bicliques.best.results import BestSink
from mbe_stage.options import Execution
from mbe_stage.runtime.stoppable import within
from mbe_stage.stream import stream
from tests.mbe_stage.graphs import complete, crown, from_matrix
from tests.mbe_stage.processes import run_module

SCORES = ("edges", "vertices", "balance", "weight", "surprise")


def rows(best: BestBicliques) -> list[reference.Row]:
    sides = [tuple(tuple(side.tolist()) for side in best.table[i]) for i in range(len(best.table))]
    return [(s, k, *pair) for s, k, pair in zip(best.scores.tolist(), best.keys.tolist(), sides, strict=True)]


def weights_of(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return weights: any, few distinct ones with many ties, only zeros, or some much larger."""
    kinds = (rng.random(shape), rng.integers(0, 3, shape) / 10, np.zeros(shape), rng.lognormal(0, 3, shape))
    return kinds[rng.integers(4)]


@pytest.mark.parametrize("engine", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("by", SCORES)
def test_the_best_equal_the_first_of_all_ranked(by: str, engine: str) -> None:
    rng = np.random.default_rng(SCORES.index(by))
    for i in range(40):
        shape = rng.integers(1, 12), rng.integers(1, 12)
        if i % 6 == 0:
            # Rows of several words.
            shape = rng.integers(60, 140), rng.integers(1, 8)
        matrix = rng.random(shape) < rng.choice([0.2, 0.4, 0.6, 0.8, 0.95])
        graph = from_matrix(matrix if i % 2 else matrix.T)
        weight = weights_of(rng, (graph.n_left, graph.n_right))
        k, least = int(rng.choice([1, 2, 5, 20, 1000])), (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        overlap = float(rng.choice([1, 1, 0, 0.3, 0.5]))
        weights = weight[graph.edges()] if by == "weight" else None
        given = {"min_left": least[0], "min_right": least[1], "overlap": overlap, "weights": weights}
        best = best_bicliques(graph, by, k, **given, engine=engine)
        assert rows(best) == reference.best(graph, BestQuery(by, k, **given))
        assert best.is_complete


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_the_engines_of_the_gpu_on_the_emulator() -> None:
    best, pairs = map(json.loads, run_module("emulated_others").splitlines())
    assert best["wrong"] == pairs["wrong"] == []
    assert best["n_raised"] > 0
    assert "two-step paths" in pairs["refused"]


def test_closed_forms() -> None:
    assert rows(best_bicliques(complete(5, 7)))[0][2:] == (tuple(range(5)), tuple(range(7)))
    # Every half of a crown is one of the best: 20 of 3 x 3, then 15 of 4 x 2 and 15 of 2 x 4.
    best = best_bicliques(crown(6), k=21)
    assert best.scores.tolist() == [9] * 20 + [8]
    assert best.keys[:20].tolist() == sorted(best.keys[:20].tolist())
    assert best_bicliques(crown(6), "vertices", k=1).scores.tolist() == [6]
    assert len(best_bicliques(crown(6), "balance", k=1000, min_left=3, min_right=3).table) == 20
    # A star is the best by edges only if one vertex is enough.
    edges = [(0, v) for v in range(9)] + [(u, v) for u in (1, 2) for v in (0, 1)]
    star = BipartiteCSR.from_edges(*zip(*edges, strict=True))
    assert best_bicliques(star, k=1, min_left=1, min_right=1).scores.tolist() == [9]
    assert best_bicliques(star, k=1).scores.tolist() == [6]
    assert len(best_bicliques(complete(1, 5)).table) == 0
    assert len(best_bicliques(BipartiteCSR.from_edges([], [], 3, 3)).table) == 0


def test_planted_blocks_are_found_among_others() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.random((300, 400)) < 0.02
    matrix[10:40, 100:130], matrix[200:212, 300:380] = True, True
    best = best_bicliques(from_matrix(matrix), k=2, overlap=0.5)
    planted = (range(200, 212), range(300, 380)), (range(10, 40), range(100, 130))
    for row, sides in zip(rows(best), planted, strict=True):
        assert all({*side} <= {*members} for side, members in zip(sides, row[2:], strict=True))


@pytest.mark.parametrize("engine", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("name", "edges"), [("youtube", 939), ("marvel", 2352), ("github_half", 225)])
def test_real_graphs(data_dir, name: str, edges: int, engine: str) -> None:
    with np.load(data_dir / f"{name}.npz") as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    best = best_bicliques(graph, k=1, min_left=3, min_right=3, engine=engine)
    assert best.scores.tolist() == [edges]
    assert best.bound == edges


def test_a_time_limit_leaves_the_best_so_far_and_a_bound() -> None:
    rng = np.random.default_rng(5)
    graph = from_matrix(rng.random((150, 150)) < 0.5)
    seen: list[BestBicliques] = []
    best = best_bicliques(graph, k=3, time_limit=1e-9, on_progress=seen.append)
    assert not best.is_complete
    assert rows(seen[-1]) == rows(best)
    assert best.bound >= best.scores[0]
    left, right = best.table[0]
    assert all({*right.tolist()} <= {*graph.neighbours_of_left(u).tolist()} for u in left.tolist())

    def interrupt(_: BestBicliques) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        best_bicliques(graph, k=3, on_progress=interrupt)


@pytest.mark.parametrize(("by", "searching"), [("edges", "completing._completed"), ("weight", "weighing._heaviest")])
def test_long_work_of_compiled_code_is_stopped(by: str, searching: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit and an interrupt stop the work; by itself it would not end."""
    begun, told = [], []

    def endless(*arguments: Any) -> None:
        begun.append(True)
        deadline = time.monotonic() + 60
        while not arguments[-1][0] and time.monotonic() < deadline:
            time.sleep(0.001)
        told.append(bool(arguments[-1][0]))

    def interrupt(_: BestBicliques) -> None:
        if begun:
            raise KeyboardInterrupt

    monkeypatch.setattr(f"mbe_stage.bicliques.best.{searching}", endless)
    graph = from_matrix(np.random.default_rng(5).random((30, 30)) < 0.5)
    given = {"missing": 1} if by == "edges" else {"weights": np.ones(graph.n_edges)}
    with pytest.raises(KeyboardInterrupt):
        best_bicliques(graph, by, on_progress=interrupt, engine="cpu", **given)
    assert set(told) == {True}
    if by == "edges":
        best = best_bicliques(graph, by, time_limit=1e-9, engine="cpu", **given)
        assert not best.is_complete
        assert best.bound > 0
        assert told == [True, True]


def test_overlaps_are_compared_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, never, seen = crown(8), np.zeros(1, np.bool_), list[BestBicliques]()
    best = best_bicliques(graph, k=10**6, overlap=0.5, on_progress=seen.append)
    ranked = BestSink(None), BestQuery("edges", 10**6, overlap=0.5)
    stream(PROBLEM, ranked[0], graph, ranked[1], Execution(), "cpu")
    every = ranked[0].standing.ranked

    class Over(list[bool]):
        """Reports that time is over after some requests."""

        def __getitem__(self, _: object) -> bool:
            self.append(True)
            return len(self) > 20

    whole, part = every.apart(0.5, 10**6, never), every.apart(0.5, 10**6, Over())
    assert whole.keys.tolist() == best.keys.tolist()
    assert 1 < len(part) < len(whole) < len(every)
    assert part.keys.tolist() == whole.keys[: len(part)].tolist()
    assert not any(each.is_complete for each in seen[:-1])
    # The bicliques of an incomplete standing are compared for a limited time.
    given = list[float]()
    monkeypatch.setattr(results, "within", lambda seconds, taken, *asked: given.append(seconds) or taken(*asked, never))
    standing = results.Standing(ranked[1], every, np.inf)
    assert standing.best().keys.tolist() == standing.best(0.05).keys.tolist() == whole.keys.tolist()
    assert given == [1.0, 0.05]


def test_timed_work_is_stopped() -> None:
    def work(is_over: np.ndarray) -> str:
        while not is_over[0]:
            time.sleep(1e-3)
        return "over"

    assert within(1e-3, work) == "over"


def test_compiled_code_looks_at_its_flag() -> None:
    graph, is_over = complete(4, 6), np.ones(1, np.bool_)
    left, right = (graph.left_offsets, graph.left_members), (graph.right_offsets, graph.right_members)
    block = np.array([0, 4]), np.arange(4, dtype=np.int32), np.array([0, 5]), np.arange(5, dtype=np.int32)
    limits, weights = np.array([1, 2, 2, 0, 0, 0]), np.ones(graph.n_edges)
    for flag, n_found in ((is_over, 0), (~is_over, 1)):
        assert completing._completed(*block, *left, *right, limits, flag)[0].size == n_found
        assert weighing._heaviest(*left, *right, weights, 1, flag).any() == n_found


@pytest.mark.parametrize("by", SCORES)
def test_standings_never_get_worse(by: str) -> None:
    """With overlaps limited, more and more are ranked: each search starts with the previous results."""
    rng = np.random.default_rng(5)
    graph, seen = from_matrix(rng.random((30, 30)) < 0.3), list[BestBicliques]()
    weights = rng.random(graph.n_edges) if by == "weight" else None
    best = best_bicliques(graph, by, 5, overlap=0.1, weights=weights, on_progress=seen.append)
    bounds, highest = [each.bound for each in seen], [max(each.scores, default=-np.inf) for each in seen]
    assert bounds == sorted(bounds, reverse=True)
    assert highest == sorted(highest)
    assert all(each.bound >= max(each.scores, default=0) for each in seen if not each.is_complete)
    assert rows(best) == rows(seen[-1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "degree"}, "by is 'degree': expected one of edges, vertices"),
        ({"k": 0}, "k is 0: expected 1 or more"),
        ({"overlap": 1.5}, "overlap is 1.5: expected a share"),
        ({"time_limit": 0}, "time_limit_seconds is 0: expected a finite number"),
        ({"by": "weight"}, "by is 'weight' and weights are missing"),
        ({"weights": np.ones(6)}, "by is 'edges' and weights are given"),
        ({"by": "weight", "weights": np.ones(5)}, r"weights have the shape \(5,\)"),
        ({"by": "weight", "weights": -np.ones(6)}, "weights hold a negative number"),
    ],
)
def test_refusals(given: dict, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        best_bicliques(complete(2, 3), **given)


@pytest.mark.parametrize("by", ["edges", "vertices", "balance"])
def test_nearly_complete_bicliques_are_the_best_of_all(by: str) -> None:
    """Compared with the reference, and with all sets of right vertices and their best left ones."""
    rng = np.random.default_rng(SCORES.index(by))
    for i in range(25):
        missing, shape = int(rng.integers(1, 4)), rng.integers(4, 10, 2)
        matrix = rng.random(shape) < rng.choice([0.5, 0.7, 0.85])
        least, k = (missing + 1 + i % 2, missing + 1), int(rng.choice([1, 3, 50]))
        graph, overlap = from_matrix(matrix), float(rng.choice([1, 0.5]))
        given = {"min_left": least[0], "min_right": least[1], "overlap": overlap, "missing": missing}
        best = best_bicliques(graph, by, k, **given)
        assert rows(best) == reference.best(graph, BestQuery(by, k, **given))
        scores = []
        for chosen in product([False, True], repeat=shape[1]):
            n_right, misses = sum(chosen), np.sort((~matrix[:, np.array(chosen)]).sum(axis=1))
            n_left = int(np.count_nonzero(np.cumsum(misses) <= missing))
            if n_left >= least[0] and n_right >= least[1]:
                n_edges = n_left * n_right - int(misses[:n_left].sum())
                scores.append({"edges": n_edges, "vertices": n_left + n_right, "balance": min(n_left, n_right)}[by])
        assert best.scores[:1].tolist() == sorted(scores)[-1:]


def test_a_block_without_three_edges_is_one_result() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.random((60, 50)) < 0.1
    matrix[20:32, 10:22] = True
    matrix[[20, 25, 31], [10, 15, 15]] = False
    best = best_bicliques(from_matrix(matrix), k=1, min_left=4, min_right=4, missing=3)
    assert rows(best)[0][2:] == (tuple(range(20, 32)), tuple(range(10, 22)))
    assert (best.scores.tolist(), best.n_edges.tolist(), best.bound) == ([141], [141], 141)
    assert best_bicliques(from_matrix(matrix), k=1, min_left=4, min_right=4).scores[0] < 141


def test_nearly_complete_bicliques_of_a_real_graph(data_dir) -> None:
    """There are 10^10 sets of five further vertices for many of its bicliques."""
    with np.load(data_dir / "marvel.npz") as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    best = best_bicliques(graph, k=1, min_left=6, min_right=6, missing=5, engine="cpu")
    assert best.scores.tolist() == [655]
