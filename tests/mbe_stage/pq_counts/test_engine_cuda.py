"""The counting CUDA engine without a GPU: its logic (emulated), plans and refusals."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.memory_plan import SearchSizes, key_layout, plan_memory
from mbe_stage.pq_counts.cuda.techniques import Techniques
from tests.mbe_stage.processes import run_module
from tests.patience import completed

_ROOT = Path(__file__).parents[3]
_GIB = 1 << 30
_SIZES = SearchSizes(
    n_rows=30_000,
    n_edges=290_000,
    max_row_degree=2_900,
    max_column_degree=7_600,
    max_matrix_rows=9_000,
    max_node_words=400_000,
    most_rows=10,
    most_columns=10,
)

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(part: str, module: str = "emulated_counts") -> list[dict[str, Any]]:
    cases = [json.loads(line) for line in run_module(f"tests.mbe_stage.pq_counts.{module}", part).splitlines()]
    for case in cases:
        assert case["same"], case
    return cases


@on_the_emulator
@pytest.mark.parametrize(
    ("part", "n"), [("every fourth graph", 14), pytest.param("the other graphs", 42, marks=pytest.mark.slow)]
)
def test_random_counts_equal_the_reference(part: str, n: int) -> None:
    cases = emulated(part)
    assert len(cases) == n
    assert sum(case["n"] > 0 for case in cases) > n // 2
    assert any(case.get("quanta", 0) > 3 for case in cases)
    assert sum(case.get("nodes", 0) for case in cases) > n


@on_the_emulator
def test_closed_forms() -> None:
    assert len(emulated("known")) == 10


@on_the_emulator
@pytest.mark.slow
@pytest.mark.parametrize(("part", "n"), [("wide", 3), ("wide and deep", 2)])
def test_nodes_wider_than_a_frame(part: str, n: int) -> None:
    cases = emulated(part)
    assert len(cases) == n
    assert sum(case["nodes"] for case in cases) > 10
    assert sum(case["visited"] for case in cases) > 1000


@on_the_emulator
@pytest.mark.slow
def test_pivots_on_both_sides_leave_few_nodes() -> None:
    (nearly_complete,) = emulated("pivots")
    # Subsets of the rows would be 2,048.
    assert 0 < nearly_complete["nodes"] < 100


@on_the_emulator
@pytest.mark.slow
def test_warps_share_work_and_continue_after_a_quantum() -> None:
    cases = emulated("shared")
    assert len(cases) == 4
    assert cases[0]["nodes"] > 0
    assert cases[1]["quanta"] > 5


@on_the_emulator
@pytest.mark.slow
def test_the_same_counts_without_any_technique() -> None:
    assert {case["case"] for case in emulated("techniques")} == {
        f"without {field.name}" for field in fields(Techniques)
    }


@on_the_emulator
@pytest.mark.slow
def test_a_full_leaf_table_is_emptied() -> None:
    for case in emulated("few kinds"):
        assert case["quanta"] > 1
        assert case["kinds"] > 0


@on_the_emulator
def test_required_members_and_parts_of_the_work() -> None:
    cases = emulated("queries")
    assert sum(case["case"] == "containing" for case in cases) == 12
    assert all(case["tasks"] > 1 for case in cases if case["case"] == "tasks")


@on_the_emulator
@pytest.mark.slow
def test_tasks_cut_by_the_cpu_engine_have_the_same_roots() -> None:
    cases = emulated("sides")
    assert len(cases) == 6
    assert all(case["tasks"] > 1 and case["n"] > 0 for case in cases)
    # The side of the triples has more paths in the first two graphs, and fewer in the last.
    assert sum(case["against_paths"] for case in cases) == 4


@pytest.mark.slow
@on_the_emulator
def test_graphs_larger_than_the_budget_are_counted_in_parts() -> None:
    cases = emulated("parts")
    assert all(case["plan_bytes"] <= case["budget"] + 2000 for case in cases if case.get("budget"))
    assert sum(case.get("parts", 0) > 4 for case in cases) > 3
    # The named budget is enough, and a little more is enough for the whole.
    assert sum(case.get("parts", 0) == 1 for case in cases) > 3
    assert cases[-1]["tasks"] > 1


@on_the_emulator
@pytest.mark.slow
def test_nodes_without_room_in_the_pool_wait_on_the_host() -> None:
    cases = emulated("waiting")
    assert len(cases) == 4
    assert all(case["waits"] > 10 for case in cases[:3])
    assert cases[3]["waits"] > 0
    # Nodes slide together, and no root starts until they are done.
    assert cases[3]["drains"] > 0


@on_the_emulator
@pytest.mark.slow
def test_a_root_of_short_columns_has_room_for_its_leaves() -> None:
    """They are more than a column's rows: with room for those only, quanta never ended."""
    short_columns, no_places = emulated("short columns")
    assert short_columns["parts"] == 1
    assert 0 < short_columns["quanta"] < 5
    assert "two quanta in turn found no leaf and did no task: the leaf table has 64 places" in no_places["said"]


@on_the_emulator
def test_bicliques_of_two_rows_are_counted_by_wedges() -> None:
    cases = emulated("pairs of rows")
    assert sum(case["n"] > 0 for case in cases) > 8
    by_wedges = [case for case in cases if "quanta" in case and "pool_words" not in case]
    assert len(by_wedges) > 6
    assert any(case["quanta"] > 2 for case in by_wedges)


@pytest.mark.slow
@on_the_emulator
def test_bicliques_of_three_rows_are_counted_on_masks() -> None:
    cases = emulated("triples of rows")
    assert sum(case["n"] > 0 for case in cases) > 20
    assert all("pool_words" not in case for case in cases)
    assert any(case["quanta"] > 2 for case in cases)
    assert {way for case in cases for way in case.get("chunks", ())} == {
        f"{rows}, {columns}" for rows in ("root", "head") for columns in ("in one", "some at a time")
    }


@on_the_emulator
def test_too_expensive_triples_are_searched_as_nodes() -> None:
    cases = emulated("no triples")
    assert len(cases) == 7
    assert all(case["n"] > 0 and "pool_words" in case for case in cases)


@on_the_emulator
def test_graphs_are_counted_whole_in_little_memory() -> None:
    cases = emulated("little memory")
    assert sum(case["n"] > 0 for case in cases) > 3
    assert all(case["parts"] == 1 for case in cases)
    assert set(cases[-1]["mapped"]) == {True, False}


@on_the_emulator
@pytest.mark.slow
def test_lists_made_in_pieces_equal_those_made_at_once() -> None:
    cases = emulated("lists")
    assert sum(case["n"] > 100 for case in cases) > 9
    # Both directions on the host, or that of rows, or none.
    assert {case["mapped"] / (4 * case["n"]) for case in cases if case["n"]} == {0, 1, 2}


@on_the_emulator
def test_results_around_a_barrier_are_complete() -> None:
    cases = {case["case"]: case for case in emulated("some", "emulated_barriers")}
    # A search on unreduced lists has no barrier.
    assert cases.pop("as given 2")["markers"] == 0
    assert {name.split()[0] for name, case in cases.items() if case["between"]} == {"random", "parts", "pairs"}
    # A core in parts has a barrier after each of them at least.
    assert cases["parts 0"]["markers"] > 10
    # The remaining work has few ranges if few are requested.
    assert all(case["ranges"] <= 2 for case in cases.values() if case["seed"] % 3 == 0)


@on_the_emulator
@pytest.mark.slow
@pytest.mark.parametrize(("part", "n"), [("random", 60), ("pairs", 20), ("parts", 12), ("local", 20)])
def test_barriers_at_random_moments(part: str, n: int) -> None:
    cases = emulated(part, "emulated_barriers")
    assert len(cases) == n
    assert sum(case["between"] for case in cases) > n // 4
    assert any(case["ranges"] > 2 for case in cases) == (part != "parts")


def test_importing_the_engine_needs_no_gpu_library() -> None:
    code = (
        "import sys, mbe_stage.pq_counts.engine_cuda\n"
        "sys.exit('cupy' in sys.modules or 'numba.cuda' in sys.modules)"
    )  # fmt: skip
    completed([sys.executable, "-c", code], cwd=_ROOT, check=True)


def test_fewer_blocks_if_memory_is_short() -> None:
    plenty, scarce = plan_memory(_SIZES, 264, 64 * _GIB), plan_memory(_SIZES, 264, _GIB // 4)
    assert plenty.n_blocks == 264
    assert 0 < scarce.n_blocks < 264
    assert scarce.total_bytes <= _GIB // 4
    # Every warp can start at once.
    for plan in (plenty, scarce):
        assert (
            plan.n_warps * layout.SLOTS_AT_ONCE + 3 + min(_SIZES.max_matrix_rows, _SIZES.max_row_degree)
            <= plan.slot_limit
        )
    with pytest.raises(
        MemoryBudgetExceeded, match=r"needs [\d,]+ bytes of device memory, its budget is 1,000,000:"
    ) as refusal:
        plan_memory(_SIZES, 264, 1_000_000)
    assert refusal.value.needed_bytes is not None
    assert plan_memory(_SIZES, 264, refusal.value.needed_bytes).n_blocks == 1
    with pytest.raises(MemoryBudgetExceeded):
        plan_memory(_SIZES, 264, refusal.value.needed_bytes - 1)


def test_numbers_of_a_kind_have_room_in_a_key() -> None:
    keys = key_layout(_SIZES)
    assert keys.optional_rows >= (10).bit_length()
    assert keys.held_columns - keys.optional_rows >= (7_600).bit_length()
    assert layout.KEY_BITS - keys.optional_columns >= (2_900).bit_length()
    large = SearchSizes(1 << 20, 1 << 30, *[1 << 20] * 6)
    with pytest.raises(MemoryBudgetExceeded, match="use the engine cpu"):
        key_layout(large)


def test_an_unknown_technique_is_named() -> None:
    with pytest.raises(ValueError, match="technique is 'luck': expected one of sharing"):
        Techniques.without("luck")
