"""The clique engine for CUDA without a GPU: its logic (emulated), plans and refusals."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage import CliqueQuery, UndirectedCSR
from mbe_stage.cliques import engine_cuda
from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.memory_plan import SearchSizes, plan_memory
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.results import Detail
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.tasks import ranges_of
from tests.mbe_stage.processes import run_module
from tests.patience import completed

_ROOT = Path(__file__).parents[3]
_GIB = 1 << 30
_SIZES = SearchSizes(n_edges=790_000, most_later=136, most_neighbours=3_156, mode=layout.MEMBERS)

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(part: str) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in run_module("tests.mbe_stage.cliques.emulated_cliques", part).splitlines()]
    for case in cases:
        assert case["same"], case
    return cases


@on_the_emulator
@pytest.mark.parametrize("part", ["random", pytest.param("more random", marks=pytest.mark.slow)])
def test_random_graphs_equal_the_reference(part: str) -> None:
    cases = emulated(part)
    # Each of the sizes that the search works in comes with two graphs.
    assert len(cases) >= 16
    assert sum(case["n"] > 0 for case in cases) > 12
    assert any(case.get("quanta", 0) > 3 for case in cases)
    assert sum(case.get("nodes", 0) for case in cases) > 20


@on_the_emulator
def test_closed_forms() -> None:
    assert len(emulated("known")) == 21


@on_the_emulator
@pytest.mark.slow
def test_nodes_wider_than_a_frame() -> None:
    cases = emulated("wide")
    assert len(cases) == 8
    assert sum(case.get("nodes", 0) for case in cases) > 10
    assert sum(case.get("visited", 0) for case in cases) > 1000


@on_the_emulator
@pytest.mark.slow
def test_warps_share_work_and_continue_after_a_quantum() -> None:
    cases = emulated("shared")
    assert len(cases) == 4
    assert cases[0]["nodes"] > 0
    assert cases[1]["quanta"] > 5


@on_the_emulator
@pytest.mark.slow
def test_the_same_cliques_with_any_technique_left_out() -> None:
    assert [case["case"] for case in emulated("techniques")] == [
        f"{field.name} {narrow}" for field in fields(Techniques) for narrow in (10, 64)
    ]


@on_the_emulator
@pytest.mark.parametrize("part", ["choices", pytest.param("more choices", marks=pytest.mark.slow)])
def test_choices_for_each_root(part: str) -> None:
    cases = emulated(part)
    assert sum(case["n"] > 0 for case in cases) >= 6
    assert any(case["quanta"] > 3 for case in cases)


@on_the_emulator
@pytest.mark.slow
def test_irrelevant_excluded_vertices_are_dropped() -> None:
    cases = emulated("shrinking")
    assert cases[-1]["shrunk"] > 20
    assert cases[-1]["whole"] > 20


@on_the_emulator
def test_parts_of_the_work_are_complete() -> None:
    cases = emulated("tasks")
    # Vertices that are no clique have no root.
    assert [case["n"] > 0 for case in cases] == [case["tasks"] > 0 for case in cases] == [True, True, True, False]
    assert cases[0]["tasks"] > 2


@on_the_emulator
def test_blocks_stay_on_the_device() -> None:
    assert len(emulated("on the device")) == 4


@on_the_emulator
@pytest.mark.parametrize("part", ["barriers", pytest.param("more barriers", marks=pytest.mark.slow)])
def test_results_around_a_barrier_are_complete(part: str) -> None:
    cases = emulated(part)
    assert sum(case["markers"] for case in cases) > 3
    assert sum(case["rest"] for case in cases) > 30
    # The remaining work has few ranges if few are requested.
    assert all(case["ranges"] <= (2 if case["seed"] % 3 == 0 else 1024) for case in cases)
    assert any(case["ranges"] > 2 for case in cases)


def test_tasks_of_another_query_are_refused() -> None:
    graph = UndirectedCSR.from_edges([0, 1, 2], [1, 2, 3])
    tasks = engine_cuda.tasks_of(graph, CliqueQuery(), 2)
    assert ranges_of(tasks, tasks[0].roots) == [(0, 4)]
    other = engine_cuda.tasks_of(graph, CliqueQuery(2), 2)
    with pytest.raises(InvalidArgument, match="expected tasks of the same problem, graph and query"):
        ranges_of(other, tasks[0].roots)


def test_importing_the_engine_needs_no_gpu_library() -> None:
    code = (
        "import sys, mbe_stage.cliques.engine_cuda\n"
        "sys.exit('cupy' in sys.modules or 'numba.cuda' in sys.modules)"
    )  # fmt: skip
    completed([sys.executable, "-c", code], cwd=_ROOT, check=True)


def test_a_count_writes_nothing() -> None:
    plenty = 64 * _GIB
    counting = plan_memory(SearchSizes(790_000, 136, 3_156, layout.COUNT), 264, plenty)
    assert counting.members == counting.cliques == 1
    assert plan_memory(_SIZES, 264, plenty).members > 1 << 24


def test_the_size_of_an_output_fits_its_counter_word() -> None:
    """Including the failed requests of all warps."""
    plan = plan_memory(_SIZES, 264, 64 * _GIB)
    # All cliques of blogcatalog at once, and more.
    assert replace(plan, cliques=240_000_000, members=5_000_000_000).cliques == 240_000_000
    for name, bits in (("members", layout.CLIQUES_SHIFT), ("cliques", 63 - layout.CLIQUES_SHIFT)):
        with pytest.raises(
            ValueError, match=rf"the output has room for {1 << bits:,} {name}: expected [\d,]+ at most"
        ) as refusal:
            replace(plan, **{name: 1 << bits})
        most = int(str(refusal.value).split("expected ")[1].split(" ")[0].replace(",", ""))
        assert most > 0.9 * (1 << bits)
        assert getattr(replace(plan, **{name: most}), name) == most
        with pytest.raises(ValueError, match="in one word"):
            replace(plan, **{name: most + 1})
    # The largest graph that is prepared: one clique of all its vertices.
    assert plan_memory(SearchSizes(1 << 30, 46_340, 46_340, layout.MEMBERS), 264, 64 * _GIB).n_blocks == 264


@on_the_emulator
@pytest.mark.slow
def test_counts_of_a_full_output_fit_their_word() -> None:
    full, told = emulated("full")
    assert full["quanta"] > 5
    # In one quantum, by several warps; each requests its page, and once more.
    assert full["asked_in_vain"] > 4
    assert full["of_a_warp"] == 2
    assert told["case"] == "told"


@pytest.mark.parametrize("stride", [1, 5, 64])
def test_blocks_for_the_host_fill_their_limit(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "_STRIDE", stride)
    chance = np.random.default_rng(stride)
    for most, n_held, block_bytes in itertools.product((3, 40), (0, 2), (8, 100, 900)):
        sizes = chance.integers(1, most, 150).astype(np.int32)
        cuts = list(engine_cuda._cuts(sizes, n_held, block_bytes))
        assert [cut.start for cut, _ in cuts] == [0, *(cut.stop for cut, _ in cuts[:-1])]
        assert cuts[-1][0].stop == sizes.size
        for number, (cut, n_members) in enumerate(cuts):
            assert n_members == sizes[cut].sum()
            n_cliques = cut.stop - cut.start
            assert 4 * (n_members + (n_held + 1) * n_cliques) <= block_bytes or n_cliques == 1
            # Another stretch would not have fitted, except after the last one.
            more = sizes[cut.start : min(sizes.size, cut.stop + stride)]
            is_last = number == len(cuts) - 1
            assert is_last or 4 * (more.sum() + (n_held + 1) * more.size) > block_bytes


@pytest.mark.parametrize(
    ("query", "detail", "mode"),
    [
        (CliqueQuery(), Detail.COUNT, layout.COUNT),
        (CliqueQuery(2), Detail.COUNT, layout.SIZES),
        (CliqueQuery(max_size=9), Detail.COUNT, layout.SIZES),
        (CliqueQuery(), Detail.SIZES, layout.SIZES),
        (CliqueQuery(2, 9), Detail.MEMBERS, layout.MEMBERS),
    ],
)
def test_sizes_are_checked_only_if_needed(query: CliqueQuery, detail: Detail, mode: int) -> None:
    assert engine_cuda._mode(query, detail) == mode


def test_fewer_blocks_if_memory_is_short() -> None:
    plenty, scarce = plan_memory(_SIZES, 264, 64 * _GIB), plan_memory(_SIZES, 264, _GIB // 16)
    assert plenty.n_blocks == 264
    assert 0 < scarce.n_blocks < 264
    assert scarce.total_bytes <= _GIB // 16
    with pytest.raises(
        MemoryBudgetExceeded, match=r"needs [\d,]+ bytes of device memory, its budget is 1,000,000:"
    ) as refusal:
        plan_memory(_SIZES, 264, 1_000_000)
    assert refusal.value.needed_bytes is not None
    assert plan_memory(_SIZES, 264, refusal.value.needed_bytes).n_blocks == 1
    with pytest.raises(MemoryBudgetExceeded):
        plan_memory(_SIZES, 264, refusal.value.needed_bytes - 1)


def test_device_blocks_stay_within_the_budget() -> None:
    with_copies = replace(_SIZES, n_copies=2)
    for budget in (_GIB // 16, _GIB, 64 * _GIB):
        alone, held = plan_memory(_SIZES, 264, budget), plan_memory(with_copies, 264, budget)
        assert held.total_bytes <= budget
        assert held.n_blocks <= alone.n_blocks
        copies = 2 * 4 * (held.members + held.cliques)
        assert replace(held, n_copies=0).total_bytes + copies == held.total_bytes


def test_an_unknown_technique_is_named() -> None:
    with pytest.raises(ValueError, match="technique is 'luck': expected one of sharing"):
        Techniques.without("luck")
