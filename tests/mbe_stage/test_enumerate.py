"""The public functions: limits, progress, refusals, the choice of engines."""

from __future__ import annotations

import itertools
import logging
import math
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mbe_stage import (
    BicliqueQuery,
    BipartiteCSR,
    CountSink,
    Execution,
    InvalidArgument,
    MemoryBudgetExceeded,
    TableSink,
    choose_engine,
    engine_names,
    enumerate_bicliques,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.search.cpu import pool
from tests.mbe_stage import graphs
from tests.patience import PATIENCE, completed


def test_pair_of_arrays() -> None:
    table = enumerate_bicliques((np.array([0, 0, 1]), np.array([0, 1, 1])))
    assert table.as_set() == {((0,), (0, 1)), ((0, 1), (1,))}


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("limit", [1, 3, 62, 63, 1000])
def test_count_limit_is_exact_and_reported(engine: str, limit: int) -> None:
    graph = graphs.crown(6)
    for sink in (CountSink(), TableSink()):
        facts = enumerate_into(sink, graph, None, Execution(max_bicliques=limit, threads=2), engine)
        assert facts.n_bicliques == min(limit, 62)
        assert (facts.truncated is None) == (limit >= 62)
        if facts.truncated:
            assert f"max_bicliques = {limit}" in facts.truncated
    assert sink.table().as_set() <= reference.maximal_bicliques(graph)


def test_time_limit_stops_and_leaves_no_thread() -> None:
    sink = CountSink()
    facts = enumerate_into(sink, graphs.crown(36), None, Execution(time_limit_seconds=0.5, threads=2), "cpu")
    assert facts.truncated is not None
    assert "time_limit_seconds = 0.5" in facts.truncated
    assert facts.seconds < PATIENCE
    assert 0 < sink.n_bicliques < 2**36
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bicliques-")]


@pytest.mark.parametrize(("n", "seconds_alone", "n_threads"), [(6, PATIENCE, 0), (20, 0.0, 3)])
def test_only_long_searches_start_threads(
    n: int, seconds_alone: float, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_ALONE_SECONDS", seconds_alone)
    started, start = [], threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self.name), start(self)))
    enumerate_into(sink := CountSink(), graphs.crown(n), None, Execution(threads=3), "cpu")
    assert (sink.n_bicliques, len(started)) == (2**n - 2, n_threads)


def test_an_error_in_the_sink_stops_the_threads() -> None:
    class Failing(TableSink):
        def accept(self, block) -> None:  # noqa: ARG002
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        enumerate_into(Failing(), graphs.crown(20), None, Execution(threads=2, block_bytes=1 << 12), "cpu")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bicliques-")]


def test_progress_never_falls_and_ends_at_one() -> None:
    seen = []
    enumerate_into(CountSink(), graphs.crown(22), None, Execution(threads=2), "cpu", on_progress=seen.append)
    assert seen[-1].work_done == 1.0
    assert seen[-1].n_bicliques == 2**22 - 2
    for earlier, later in itertools.pairwise(seen):
        assert earlier.n_bicliques <= later.n_bicliques
        assert earlier.work_done <= later.work_done + 1e-9


def test_memory_budget_holds_and_the_message_names_a_sufficient_one() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 400, 400, 0.3))
    with pytest.raises(MemoryBudgetExceeded, match="raise the memory budget to at least"):
        enumerate_into(CountSink(), graph, None, Execution(memory_budget_bytes=50_000, threads=1), "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_left": 0}, "min_left is 0"),
        ({"min_right": 3, "max_right": 2}, "max_right is 2, below min_right = 3"),
        ({"containing_left": (9,)}, "containing_left holds 9: the left ids run from 0 to 5"),
        ({"engine": "gpu"}, "engine is 'gpu'.*expected one of auto"),
        ({"threads": -1}, "threads is -1"),
        ({"threads": 100_000}, "threads is 100000: expected 0 .every core. to 1024"),
        ({"min_edges": 2**63}, "min_edges is 9223372036854775808"),
        ({"max_left": 2**62}, "max_left is 4611686018427387904"),
    ],
)
def test_refusals_name_argument_value_and_expectation(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        enumerate_bicliques(graphs.crown(6), **arguments)


def test_an_unavailable_engine_says_so() -> None:
    assert engine_names("bicliques") == ("cuda", "cpu", "reference")
    with pytest.raises(InvalidArgument, match="problem is 'paths': expected one of bicliques"):
        choose_engine("paths")


def test_auto_logs_its_choice(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mbe_stage.engines"):
        name, _ = choose_engine("bicliques")
    assert name == ("cuda" if engine_cuda.unavailable_reason() is None else "cpu")
    assert f"engine auto: {name}" in caplog.text


def test_importing_touches_no_engine_and_no_gpu_library() -> None:
    code = (
        "import sys, mbe_stage; "
        "loaded = [m for m in ('cupy', 'cudf', 'numba', 'mbe_stage.bicliques.engine_cpu') if m in sys.modules]; "
        "assert not loaded, loaded"
    )
    completed([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([0, 1], [0], "2 entries and right_ids 1"),
        ([0.5], [0], "dtype float64"),
        ([-1], [0], "negative id -1"),
        ([[0]], [[0]], "2 dimensions"),
        ([2**31], [0], "2147483648"),
    ],
)
def test_bad_edges_are_refused(left: list, right: list, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        BipartiteCSR.from_edges(left, right)


def test_from_edges_merges_duplicates_and_keeps_both_directions() -> None:
    graph = BipartiteCSR.from_edges([1, 0, 1, 1], [2, 0, 2, 0], n_left=3)
    assert (graph.n_left, graph.n_right, graph.n_edges) == (3, 3, 3)
    assert graph.neighbours_of_left(1).tolist() == [0, 2]
    assert graph.neighbours_of_right(0).tolist() == [0, 1]
    assert graph.left_degrees.tolist() == [1, 2, 0]
    with pytest.raises(InvalidArgument, match="n_left is 1"):
        BipartiteCSR.from_edges([1], [0], n_left=1)


@pytest.mark.parametrize("seed", range(5))
def test_sorted_and_unsorted_edges_make_the_same_graph(seed: int) -> None:
    """Sorted, distinct edges are taken as they are; also no edges, and isolated vertices."""
    chance = np.random.default_rng(seed)
    n_left, n_right = (int(n) for n in chance.integers(1, 30, 2))
    codes = np.unique(chance.integers(0, n_left * n_right, seed * 40))
    order = chance.permutation(codes.size)
    left, right = np.divmod(codes, n_right)
    straight = BipartiteCSR.from_edges(left, right, n_left, n_right)
    shuffled = BipartiteCSR.from_edges(
        np.concatenate([left[order], left[:1]]), np.concatenate([right[order], right[:1]]), n_left, n_right
    )
    assert straight.n_edges == codes.size
    for name in ("left_offsets", "left_members", "right_offsets", "right_members"):
        mine, other = getattr(straight, name), getattr(shuffled, name)
        assert mine.dtype == other.dtype
        assert mine.tolist() == other.tolist()


def test_query_swaps_back() -> None:
    query = BicliqueQuery(2, 3, 4, 5, 6, (1,), (2,))
    assert query.swapped().swapped() == query
    assert query.swapped().min_left == 3


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, math.inf])
def test_time_limits_are_finite_and_positive(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="time_limit_seconds is"):
        Execution(time_limit_seconds=seconds)


@pytest.mark.parametrize("threads", [1, 2])
def test_share_of_work_follows_the_results(data_dir: Path, threads: int) -> None:
    """Roots differ in weight by orders of magnitude: an estimate that ignored it would report 99 % at once."""
    with np.load(data_dir / "youtube.npz") as edges:
        graph = BipartiteCSR.from_edges(edges["u"], edges["v"])
    seen = []
    facts = enumerate_into(TableSink(), graph, None, Execution(threads=threads), "cpu", on_progress=seen.append)
    half = min(seen, key=lambda progress: abs(progress.n_bicliques / facts.n_bicliques - 0.5))
    assert 0.2 < half.work_done < 0.85
