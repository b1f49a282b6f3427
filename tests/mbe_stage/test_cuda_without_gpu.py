"""The CUDA engine without a GPU: its logic (emulated), compilation, plans and refusals."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mbe_stage import BicliqueQuery
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.memory_plan import (
    ReducedSizes,
    blocks_that_fit,
    check_growth,
    check_preparation,
    expansion_bytes,
    plan_memory,
    preparation_bytes,
    with_larger_arenas,
    with_space_in_pool,
)
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.results import Detail
from mbe_stage.device import available, whole_lines
from mbe_stage.errors import MemoryBudgetExceeded
from tests.guarding_figures import changes
from tests.mbe_stage.emulated_memory import AT_THE_EDGE, EVENTS
from tests.mbe_stage.emulated_sizes import TINY
from tests.mbe_stage.processes import run_module, run_module_alone
from tests.patience import completed

_ROOT = Path(__file__).parents[2]
_FACTS = ReducedSizes(
    n_vertices=124_325,
    n_rows=26_516,
    n_columns=50_740,
    n_edges=240_404,
    max_row_degree=2_962,
    max_column_degree=7_600,
    wedges=6_827_312,
)
_GIB = 1 << 30
# Bytes of kernels that are still fast: those of local counts take little more time than that of the counts.
SPILLED = {"add_vertices_warp_per_task": 48, "add_edges_warp_per_task": 96, "count_triples_block_per_root": 96}


on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


_RECORDS = "python -m tests.mbe_stage.compiled_cuda each prints the new cuda_resources.json"


def emulated(part: str) -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in run_module("emulated_cuda", part).splitlines()]
    for case in cases:
        assert case.get("same", True), case
        assert case["counted"] == case["wanted"], case
    return cases


@on_the_emulator
@pytest.mark.parametrize("part", ["every fourth graph", pytest.param("the other graphs", marks=pytest.mark.slow)])
def test_the_kernels_in_lockstep_lanes(part: str) -> None:
    cases = emulated(part)
    assert len(cases) > 6
    # Both parts have all sizes of the work areas.
    assert {json.dumps(case["sizes"]) for case in cases} == set(map(json.dumps, TINY))


@on_the_emulator
def test_stacks_wait_if_arenas_cannot_grow() -> None:
    assert sum(case["suspended"] for case in emulated("suspended")) > 0


@pytest.mark.slow
@on_the_emulator
def test_idle_warps_are_donated_work() -> None:
    # Without handovers to idle warps these cases would show nothing. There were at least 18 at the time of writing.
    donated = [case["donated"] for case in emulated("donated")]
    assert len(donated) == 2
    for times in donated:
        assert min(times["count"], times["members"]) >= 10, donated


@pytest.mark.slow
@on_the_emulator
def test_subtrees_without_wanted_bicliques_are_not_visited() -> None:
    # Paths of up to 14 rows, skipping one at most, and the children that are not opened.
    deep = emulated("deep")
    assert len(deep) == 4
    assert 0 < max(case["visited"] for case in deep) < 14**3
    bounded = emulated("bounded")
    assert len(bounded) == 3
    for case in bounded:
        assert 0 < case["opened"] <= case["most_opened"], case


@on_the_emulator
def test_progress_counts_finished_work() -> None:
    (progress,) = emulated("progress")
    # Started roots are not done yet.
    shares = progress["shares"]
    assert shares == sorted(shares)
    assert shares[0] < 0.9
    assert len(set(shares)) > 3


@pytest.mark.slow
@on_the_emulator
def test_a_run_stays_within_its_budget() -> None:
    cases = [json.loads(line) for line in run_module("emulated_memory").splitlines()]
    happened = {event for case in cases for event in case["happened"]}
    assert happened == EVENTS
    for case in cases:
        if case["spare"] == 0 or (case["spare"] == AT_THE_EDGE and "refused" in case):
            assert re.search(r"needs [\d,]+ bytes of device memory to go on, its budget is", case["refused"])
        else:
            assert case["same"], case


def test_moving_nodes_loses_nothing() -> None:
    told = [json.loads(line) for line in run_module("emulated_pool").splitlines()]
    assert len(told) == 300
    assert all(each["same"] for each in told)
    filled = [each for each in told if each["moved"] is not None]
    assert len(filled) > 50
    # Less is moved than stays, and few entries are lost in gaps.
    assert sum(each["moved"] for each in filled) < sum(each["live"] for each in filled) / 2
    assert any(each["moved"] is None for each in told)


@on_the_emulator
def test_warp_operations_of_one_meeting_equal_those_of_five() -> None:
    assert set(json.loads(run_module("emulated_warp")).values()) == {40}


@on_the_emulator
def test_bitmaps_of_columns() -> None:
    assert json.loads(run_module("emulated_bitmaps")) == {"graphs": 24, "wrong": 0, "shifts": [6, 0, 0, 0, 0, 0]}


@on_the_emulator
def test_the_node_choice_equals_the_model() -> None:
    kinds = json.loads(run_module("emulated_share"))
    assert set(kinds) == {"largest", "oldest", "none"}
    assert min(kinds.values()) > 50


@on_the_emulator
def test_device_computations_equal_the_host_s() -> None:
    assert len(run_module("emulated_device").splitlines()) == 11


# Launches, copies and waits of a small run; the first one also makes the state of idle warps. Zeroing several arrays
# takes as many launches of 4 us; one piece of memory cut into arrays takes longer.
_MOST_ASKED = {
    "bicliques COUNT": (12, 5, 1),
    # One sums the sizes of columns, so that no child reads them one by one.
    "bicliques SIZES": (13, 10, 3),
    "bicliques MEMBERS": (19, 18, 3),
    "cliques COUNT": (5, 6, 1),
    "cliques SIZES": (7, 7, 2),
    "cliques MEMBERS": (5, 8, 2),
    "pq 2": (24, 11, 6),
    "pq 3": (32, 15, 8),
    "pq 4": (10, 12, 3),
}


@on_the_emulator
@pytest.mark.parametrize("part", ["enumerations", "counts"])
def test_a_small_run_needs_few_device_requests(part: str) -> None:
    """Each launch takes at least 5 us of the host, each copy and each wait at least 10."""
    for line in run_module("emulated_launches", part).splitlines():
        asked = json.loads(line)
        found = [asked[kind] for kind in ("launches", "copies", "waits")]
        assert all(n <= most for n, most in zip(found, _MOST_ASKED[asked["run"]], strict=True)), asked


@on_the_emulator
def test_the_device_prepares_the_graph_as_the_host_does() -> None:
    cases = [json.loads(line) for line in run_module("emulated_preparation").splitlines()]
    assert len(cases) > 15
    assert {case["short"] for case in cases} == {0, 2, 8, 1 << 30}
    assert sum(case["empty"] for case in cases) < 4
    for case in cases:
        assert case["same"], case


@on_the_emulator
@pytest.mark.parametrize(("part", "n"), [("some", 22), pytest.param("all", 47, marks=pytest.mark.slow)])
def test_bicliques_are_expanded_correctly(part: str, n: int) -> None:
    lines = [json.loads(line) for line in run_module("emulated_expansion", part).splitlines()]
    cases = [line for line in lines if "case" in line]
    assert len(cases) == n
    assert {case["staged"] for case in cases} == {1, 40, 512}
    assert max(case["pieces"] for case in cases) > 30
    assert sum(case["bicliques"] == 0 for case in cases) == (6 if part == "all" else 2)
    metered = [line for line in lines if "planned" in line]
    assert len(metered) == 5
    for line in metered:
        assert line["peak"] <= line["planned"], line
        assert line["alive"] == 0
    # Nor is much more planned than some case needs.
    assert max(line["peak"] / line["planned"] for line in metered) > 0.95


@on_the_emulator
@pytest.mark.slow
def test_the_same_bicliques_without_any_technique() -> None:
    cases = [json.loads(line) for line in run_module("emulated_techniques").splitlines()]
    assert {case["without"] for case in cases} == {"hashes", *(field.name for field in fields(Techniques))}
    for case in cases:
        assert case["same"], case
        assert case["counted"] == case["wanted"], case


def test_an_unknown_technique_is_named() -> None:
    with pytest.raises(ValueError, match="technique is 'sorting': expected one of merging, closed_sets"):
        Techniques.without("sorting")


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("numba_cuda", "cuda")),
    reason="numba-cuda is missing: the dependency group cuda-compile has it",
)
@pytest.mark.parametrize("kernels", ["changed", pytest.param("each", marks=pytest.mark.slow)])
def test_kernels_compile_for_both_architectures_as_recorded(kernels: str) -> None:
    found = json.loads(run_module_alone("compiled_cuda", kernels))
    recorded = json.loads((Path(__file__).parent / "cuda_resources.json").read_text())
    code, code_of_record = found.pop("code"), recorded.pop("code")
    changed = [kernel for kernel in code if code[kernel] != code_of_record.get(kernel)]
    if changed:
        warnings.warn(f"not those of cuda_resources.json: {changed}: {_RECORDS}", stacklevel=1)
    assert found.keys() <= recorded.keys() == code.keys()
    assert kernels != "each" or found.keys() == recorded.keys()
    table = changes({kernel: recorded[kernel] for kernel in found}, found)
    assert not table, f"registers or spills have changed; if this is meant, {_RECORDS}\n{table}"
    for kernel, resources in found.items():
        # The grid relies on this many resident blocks: 65,536 registers and 228 KiB of shared memory.
        assert resources["registers"] <= 128
        assert resources["shared_bytes"] <= 48 << 10
        assert resources["spill_store_bytes"] <= SPILLED.get(kernel.split()[0], 0), kernel


def test_every_detail_has_an_output_mode() -> None:
    unconstrained, constrained = (
        [layout.mode_of(detail, size_constraints(query)) for detail in Detail]
        for query in (BicliqueQuery(), BicliqueQuery(min_right=2))
    )
    assert unconstrained == [layout.COUNT, layout.SIZES, layout.MEMBERS, layout.MEMBERS]
    assert constrained == [layout.WITHIN, layout.SIZES, layout.CONSTRAINED, layout.CONSTRAINED]


def test_importing_the_engine_needs_no_gpu_library() -> None:
    code = (
        "import sys, mbe_stage.bicliques.engine_cuda\n"
        "import mbe_stage.bicliques.cuda.memory_plan, mbe_stage.bicliques.cuda.layout\n"
        "sys.exit('cupy' in sys.modules or 'numba.cuda' in sys.modules)"
    )
    completed([sys.executable, "-c", code], cwd=_ROOT, check=True)


@pytest.mark.parametrize(("missing", "package"), [("numba_cuda", "numba-cuda"), ("cupy", "CuPy")])
def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, missing: str, package: str) -> None:
    monkeypatch.setattr(available, "_is_installed", lambda name: name != missing)
    assert engine_cuda.unavailable_reason() == f"{package} is not installed: pip install 'mbe-stage[cuda]'"


def test_the_plan_fits_its_budget_with_fewer_warps() -> None:
    plenty = plan_memory(_FACTS, 264, layout.MEMBERS, 64 * _GIB)
    assert plenty.n_blocks == 264
    scarce = plan_memory(_FACTS, 264, layout.MEMBERS, _GIB)
    assert 0 < scarce.n_blocks < 264
    for plan, budget in ((plenty, 64 * _GIB), (scarce, _GIB)):
        assert plan.total_bytes <= budget
        assert plan.pool >= _FACTS.pool_ints
        assert 0 < plan.chunk_members <= plan.members
        assert plan.descriptors % layout.CHUNK_DESCRIPTORS == 0
        lines = plan.describe().splitlines()
        parts = [int(line.rsplit(maxsplit=2)[1].replace(",", "")) for line in lines]
        assert lines[-1].startswith("total ")
        assert sum(parts[:-1]) == parts[-1] == plan.total_bytes


def test_counting_plans_no_output() -> None:
    plan = plan_memory(_FACTS, 264, layout.COUNT, _GIB)
    assert plan.output_bytes == plan.expansion_bytes == 0


@pytest.mark.parametrize("n_edges", [1 << 31, (1 << 31) - 1])
def test_a_graph_whose_entries_cannot_be_numbered_is_refused(n_edges: int) -> None:
    with pytest.raises(
        MemoryBudgetExceeded, match=f"fewer than 2,147,483,648 edges.* has {n_edges:,} edges.* use the engine cpu"
    ):
        plan_memory(replace(_FACTS, n_edges=n_edges), 264, layout.COUNT, 1 << 50)
    assert plan_memory(replace(_FACTS, n_edges=1 << 30), 264, layout.COUNT, 1 << 50).n_blocks == 264


@pytest.mark.parametrize("mode", [layout.COUNT, layout.SIZES, layout.MEMBERS])
def test_the_budget_that_an_error_names_is_enough(mode: int) -> None:
    with pytest.raises(MemoryBudgetExceeded) as refusal:
        plan_memory(_FACTS, 264, mode, 1_000_000)
    named = int(str(refusal.value).split("needs ")[1].split(" bytes")[0].replace(",", ""))
    assert refusal.value.needed_bytes == named
    plan = plan_memory(_FACTS, 264, mode, named)
    assert plan.n_blocks == 1
    assert plan.total_bytes <= named
    with pytest.raises(MemoryBudgetExceeded):
        plan_memory(_FACTS, 264, mode, named - 1)


@pytest.mark.parametrize("budget", [100 << 20, _GIB, 8 * _GIB, 64 * _GIB])
def test_blocks_fill_their_planned_size(budget: int) -> None:
    plan = plan_memory(_FACTS, 264, layout.MEMBERS, budget)
    assert expansion_bytes(plan.descriptors, plan.range_members) <= plan.expansion_bytes
    assert expansion_bytes(plan.descriptors, plan.range_members + 1) > plan.expansion_bytes
    # The largest possible biclique has room.
    assert plan.range_members >= _FACTS.n_vertices
    assert plan.expansion_bytes <= max(budget // 8, expansion_bytes(plan.descriptors, _FACTS.n_vertices))


def test_growing_accounts_for_the_copy() -> None:
    plan = plan_memory(_FACTS, 264, layout.COUNT, _GIB)
    assert check_growth(plan, _GIB - plan.total_bytes, _GIB) is plan
    with pytest.raises(MemoryBudgetExceeded, match="to go on"):
        check_growth(plan, _GIB - plan.total_bytes + 1, _GIB)


def test_fewer_blocks_fit_if_more_is_held() -> None:
    plan = plan_memory(_FACTS, 264, layout.COUNT, 64 * _GIB)
    assert blocks_that_fit(plan, 0, plan.total_bytes) == plan.n_blocks
    block_bytes = plan.warp_bytes * layout.WALKING_WARPS_PER_BLOCK
    assert blocks_that_fit(plan, 3 * block_bytes, plan.total_bytes) == plan.n_blocks - 3
    assert blocks_that_fit(plan, 1, plan.total_bytes) == plan.n_blocks - 1
    assert blocks_that_fit(plan, plan.total_bytes, plan.total_bytes) == 1


def test_arenas_grow_for_as_many_warps_as_fit() -> None:
    plan = plan_memory(_FACTS, 264, layout.MEMBERS, 4 * _GIB)
    grown = with_larger_arenas(plan, plan.words + 1, 0, 4 * _GIB)
    assert grown.words == whole_lines(plan.words * 3 // 2)
    assert grown.n_blocks == plan.n_blocks
    fewer = with_larger_arenas(plan, 40 * plan.words, 1 << 20, 4 * _GIB)
    assert 0 < fewer.n_blocks < plan.n_blocks
    assert fewer.total_bytes + (1 << 20) <= 4 * _GIB
    with pytest.raises(MemoryBudgetExceeded, match="to go on"):
        with_larger_arenas(plan, 1 << 30, 0, 4 * _GIB)


# bookcrossing: 4 GiB were refused when the pool had to be doubled twice to be half free.
_BOOKCROSSING = ReducedSizes(
    n_vertices=445_818,
    n_rows=77_799,
    n_columns=177_000,
    n_edges=880_000,
    max_row_degree=11_000,
    max_column_degree=2_300,
    wedges=220_000_000,
)


def test_a_growing_pool_leaves_room_for_a_copy_of_its_live_part() -> None:
    budget = 4 * _GIB
    plan = plan_memory(_BOOKCROSSING, 264, layout.COUNT, budget)
    assert plan.n_blocks > 200
    is_refused = False
    needed, held = 500_000, 20 << 20
    # The live part keeps growing.
    for used in range(10_000_000, 1_000_000_000, 10_000_000):
        before = plan
        try:
            plan = with_space_in_pool(before, used, needed, 1000, held, budget)
        except MemoryBudgetExceeded:
            is_refused = True
            break
        replaced = held + 4 * used if plan.pool > before.pool else 0
        assert plan.total_bytes + replaced <= budget
        assert plan.pool >= max(before.pool, used + needed)
        assert plan.n_blocks >= before.n_blocks // 2
        if used + needed <= before.pool // 2:
            assert plan == before
        if plan.n_blocks == before.n_blocks:
            assert plan.n_blocks == 1 or plan.pool - used - needed >= plan.pool // 4 - 1
    assert is_refused
    # One block; twice the live nodes take nearly all of the rest.
    assert 2 * 4 * used > 0.8 * budget
    assert before.n_blocks == 1


def test_a_half_free_pool_does_not_grow() -> None:
    plan = plan_memory(_BOOKCROSSING, 264, layout.COUNT, 4 * _GIB)
    assert with_space_in_pool(plan, plan.pool // 4, plan.pool // 4, plan.nodes // 2, 0, 4 * _GIB) == plan
    more_nodes = with_space_in_pool(plan, plan.pool // 4, 0, plan.nodes // 2 + 1, 0, 4 * _GIB)
    assert more_nodes == replace(plan, nodes=2 * plan.nodes)
    with pytest.raises(MemoryBudgetExceeded, match="to go on"):
        with_space_in_pool(replace(plan, n_blocks=1), 1 << 29, 1 << 29, 10, 0, 4 * _GIB)


def test_only_written_ids_need_an_arena() -> None:
    counting, writing = (plan_memory(_FACTS, 264, mode, 64 * _GIB) for mode in (layout.COUNT, layout.MEMBERS))
    assert counting.ints == layout.WORD_BITS
    assert writing.ints == writing.words + layout.WORD_BITS
    assert writing.warp_bytes - counting.warp_bytes == 4 * writing.words


def test_preparation_must_fit_the_budget() -> None:
    check_preparation(1000, preparation_bytes(1000))
    with pytest.raises(MemoryBudgetExceeded, match="to prepare a graph of 1,000 vertices"):
        check_preparation(1000, preparation_bytes(1000) - 1)


def test_a_budget_too_small_names_a_sufficient_one() -> None:
    with pytest.raises(MemoryBudgetExceeded, match=r"needs ([\d,]+) bytes of device memory.*its budget is 1,000,000:"):
        plan_memory(_FACTS, 264, layout.COUNT, 1_000_000)


def test_scratch_of_two_warps_never_shares_a_cache_line() -> None:
    for n in (1, 31, 32, 113, 4096):
        assert whole_lines(n) >= n
        assert whole_lines(n) * 4 % 128 == 0
    plan = plan_memory(replace(_FACTS, n_rows=113), 1, layout.COUNT, _GIB)
    assert plan.words * 4 % 128 == 0
    assert layout.FRAME_FIELDS * 4 % 128 == layout.STATE_FIELDS * 8 % 128 == layout.NODE_FIELDS * 8 % 128 == 0
