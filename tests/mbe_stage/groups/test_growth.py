"""Growth compared with its definition, on planted blocks and on graphs without any."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, best_bicliques
from mbe_stage.errors import InvalidArgument
from mbe_stage.groups import growth, growth_steps
from mbe_stage.groups.growth import Grown, GrowthSchedule, grow
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups import reference_growth as reference
from tests.mbe_stage.groups.random_graphs import edges_of

SCHEDULES = (
    GrowthSchedule(),
    GrowthSchedule(first_densities=(0.5,), least_density=0.4, most_density=0.6, n_rounds=2, min_density=0.7),
    GrowthSchedule(n_rounds=0),
)


def as_pairs(members: GroupMembers) -> list[blocks.Group]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


def check(graph: BipartiteCSR, grown: Grown) -> None:
    """Check the properties that hold for every schedule."""
    null = edges_of(graph)
    groups = as_pairs(grown.members)
    assert len(set(groups)) == len(groups) == grown.scores.size
    assert [null.score(group) for group in groups] == grown.scores.tolist()
    assert [len(null.present(group)) for group in groups] == grown.n_edges.tolist()
    assert grown.scores.tolist() == sorted(grown.scores.tolist(), reverse=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_as_the_definition_says(schedule: GrowthSchedule) -> None:
    n_grown = n_seeds = n_outside = n_small = 0
    for number in range(30):
        core = blocks.with_blocks(number, n=30, n_blocks=1 + number % 3)
        seeds, graph = blocks.some_groups(number, core, 4), blocks.amid(core, 1000)
        model = NullModel.of(graph)
        null = edges_of(graph)
        searched = [set(of) for of in reference.core(null, 2, 2).neighbours]
        # Some seeds are too small for groups of this size.
        least = (1, 1) if number % 2 else tuple(sorted(len(seed[side]) for seed in seeds)[2] for side in (0, 1))
        n_outside += any(not searched[side].issuperset(seed[side]) for seed in seeds for side in (0, 1))
        grown = grow(graph, GroupMembers.of(seeds), model, schedule=schedule, min_left=least[0], min_right=least[1])
        large = np.flatnonzero(grown.scores > growth_steps.NO_SCORE)
        found = list(zip(as_pairs(grown.members.take(large)), grown.scores[large].tolist(), strict=True))
        wanted = [reference.grow(null, seed, schedule, least) for seed in seeds]
        # In the order of the seeds, each once.
        distinct = dict.fromkeys(one for one in wanted if one is not None)
        assert found == sorted(distinct, key=lambda one: -one[1])
        assert grown.n_left_out == 0
        if large.size == grown.scores.size:
            check(graph, grown)
        assert all(len(group[side]) >= least[side] for group, _ in found for side in (0, 1))
        for seed, one in zip(seeds, wanted, strict=True):
            is_small = any(len(seed[side]) < least[side] for side in (0, 1))
            n_small += is_small and one is not None
            n_grown += one is not None and one[0] != seed
            assert is_small or one is None or one[1] > SIGNIFICANT or one[1] >= null.score(seed)
        n_seeds += len(seeds)
    assert n_grown > n_seeds // 4 if schedule.n_rounds else n_grown == 0
    assert n_outside > 3
    # Few of those that must be dense grow to the minimum size.
    assert n_small > (10 if schedule == GrowthSchedule() else 1) or not schedule.n_rounds


def planted(seed: int, side: int, density: float, n: int = 8000) -> BipartiteCSR:
    """Return a block of the first ids, whose left vertices each have as many random edges again; and noise."""
    rng = np.random.default_rng(seed)
    block = np.argwhere(rng.random((side, side)) < density)
    camouflage = np.column_stack([block[:, 0], rng.integers(0, n, len(block))])
    noise = rng.integers(0, n, (2 * n, 2))
    return BipartiteCSR.from_edges(*np.concatenate([block, camouflage, noise]).T, n, n)


@pytest.mark.parametrize(("side", "density"), [(10, 0.7), (12, 0.6), (16, 0.5), (18, 0.4)])
def test_a_planted_block_is_found_from_its_complete_parts(side: int, density: float) -> None:
    for seed in range(3):
        graph = planted(seed, side, density)
        rows = [set(graph.neighbours_of_left(u).tolist()) for u in range(side)]
        pairs = [(u, w) for u in range(side) for w in range(u + 1, side) if len(rows[u] & rows[w]) > 1]
        seeds = GroupMembers.of(((u, w), sorted(rows[u] & rows[w])) for u, w in pairs)
        best = grow(graph, seeds, NullModel.of(graph), threads=1 + seed % 2)
        left = set(best.members[0][0].tolist())
        assert best.scores[0] > 0
        assert 2 * len(left & set(range(side))) / (len(left) + side) > 0.9


def test_threads_change_nothing() -> None:
    graph = planted(7, 12, 0.5)
    seeds = [((u,), tuple(graph.neighbours_of_left(u).tolist())) for u in range(200) if graph.left_degrees[u]]
    one, two, three = (grow(graph, GroupMembers.of(seeds), NullModel.of(graph), threads=n) for n in (1, 2, 3))
    for other in (two, three):
        assert as_pairs(other.members) == as_pairs(one.members)
        for name in ("n_edges", "scores"):
            assert getattr(other, name).tolist() == getattr(one, name).tolist()
    check(graph, one)


def test_seeds_beyond_the_step_limit_are_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seeds grow as they do alone, for any number of threads and any batch."""
    graph = planted(7, 12, 0.5)
    model, seeds = NullModel.of(graph), [(u,) for u in range(200) if graph.left_degrees[u]]
    members = GroupMembers.of((left, tuple(graph.neighbours_of_left(left[0]).tolist())) for left in seeds)
    steps, n_grown = grow(graph, members, model).n_steps, []
    for most_steps in (0, steps // 3, steps // 2, steps - 1, steps):
        found = grow(graph, members, model, most_steps=most_steps)
        n = len(seeds) - found.n_left_out
        alone = grow(graph, members.take(np.arange(n)), model)
        assert as_pairs(found.members) == as_pairs(alone.members)
        assert alone.n_left_out == 0
        assert found.n_steps == alone.n_steps <= most_steps
        for at_once, threads in ((1, 1), (7, 3)):
            monkeypatch.setattr(growth, "_SEEDS_AT_ONCE", at_once)
            again = grow(graph, members, model, most_steps=most_steps, threads=threads)
            assert (as_pairs(again.members), again.n_left_out) == (as_pairs(found.members), found.n_left_out)
            monkeypatch.undo()
        n_grown.append(n)
    assert n_grown[0] == 0 < n_grown[1] < n_grown[2] < n_grown[3] == len(seeds) - 1 == n_grown[4] - 1


@pytest.mark.parametrize("threads", [1, 3])
def test_seeds_beyond_the_time_limit_are_skipped_and_counted(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances a second at each reading: after each seed."""
    monkeypatch.setattr(growth, "_STEPS_AT_ONCE", 0)
    graph = planted(7, 12, 0.5)
    model = NullModel.of(graph)
    members = GroupMembers.of(((u,), graph.neighbours_of_left(u).tolist()) for u in range(200) if graph.left_degrees[u])
    n_grown = []
    for seconds in (-1.0, 0.5, 50.5, 1e9):
        monkeypatch.setattr(growth, "time", SimpleNamespace(perf_counter=itertools.count(1).__next__))
        found = grow(graph, members, model, threads=threads, most_seconds=seconds)
        n = len(members) - found.n_left_out
        alone = grow(graph, members.take(np.arange(n)), model)
        assert as_pairs(found.members) == as_pairs(alone.members)
        n_grown.append(n)
    assert n_grown[0] == n_grown[1] == 0 < n_grown[2] < n_grown[3] == len(members)


def test_seeds_of_one_block_grow_to_one_group() -> None:
    edges = [(u, v) for u in range(8) for v in range(8) if u != v] + [(u, u) for u in range(8, 3000)]
    graph = BipartiteCSR.from_edges(*zip(*edges, strict=True))
    seeds = [(tuple(u for u in range(8) if u not in out), out) for out in [(0, 1, 2), (3, 4, 5), (5, 6, 7), (0, 7)]]
    grown = grow(graph, GroupMembers.of(seeds), NullModel.of(graph))
    assert as_pairs(grown.members) == [(tuple(range(8)), tuple(range(8)))]
    assert grown.n_edges.tolist() == [56]


def test_nothing_grows_if_degrees_explain_everything() -> None:
    """Blocks have positive scores; copies with swapped edges have no groups."""
    schedule = GrowthSchedule()
    for seed in range(3):
        core = blocks.with_blocks(seed, n=60, n_blocks=3, side=10, density=0.9)
        graph = blocks.amid(core, 600)
        for copy in [graph, *(blocks.swapped(each, number) for each in (graph, core) for number in range(3))]:
            stars = [((u,), tuple(copy.neighbours_of_left(u).tolist())) for u in np.flatnonzero(copy.left_degrees)]
            seeds = GroupMembers.of([*blocks.bicliques_of(copy), *stars])
            best = grow(copy, seeds, NullModel.of(copy), schedule=schedule).scores.max()
            assert best > SIGNIFICANT if copy is graph else best <= SIGNIFICANT


def test_what_is_refused() -> None:
    graph = blocks.with_blocks(0)
    model = NullModel.of(graph)
    with pytest.raises(InvalidArgument, match="min_right is 0"):
        grow(graph, GroupMembers.of([([0], [0])]), model, min_right=0)
    for schedule, message in [
        ({"least_density": 0.0}, "least_density is 0.0"),
        ({"most_density": 1.0}, "most_density 1.0"),
        ({"first_densities": (0.5, 1.0)}, "first_densities holds 1.0"),
        ({"n_rounds": -1}, "n_rounds is -1"),
        ({"min_density": 1.5}, "min_density is 1.5"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            GrowthSchedule(**schedule)  # type: ignore[arg-type]


def test_no_seeds() -> None:
    grown = grow(BipartiteCSR.from_edges([], []), GroupMembers.of([]), NullModel.of(BipartiteCSR.from_edges([], [])))
    assert len(grown.members) == grown.scores.size == grown.n_left_out == 0


def test_swapping_keeps_only_degrees() -> None:
    graph = blocks.with_blocks(1)
    copy = blocks.swapped(graph, 0)
    assert copy.left_degrees.tolist() == graph.left_degrees.tolist()
    assert copy.right_degrees.tolist() == graph.right_degrees.tolist()
    assert len(set(zip(*copy.edges(), strict=True)) & set(zip(*graph.edges(), strict=True))) < graph.n_edges * 0.6


def test_nearly_complete_groups_have_at_most_the_edges_of_the_exact_best() -> None:
    """In 50 graphs with a block that lacks three edges, nearly all grown groups that lack few edges are the best."""
    n_best = n_compared = 0
    for number in range(50):
        rng = np.random.default_rng(number)
        matrix = rng.random((200, 200)) < 0.01
        matrix[:8, :8] = True
        matrix[rng.integers(8, size=3), rng.integers(8, size=3)] = False
        graph = BipartiteCSR.from_edges(*np.nonzero(matrix), *matrix.shape)
        grown = grow(graph, GroupMembers.of(best_bicliques(graph, k=3, engine="cpu").table), NullModel.of(graph))
        missing = grown.members.left_sizes * grown.members.right_sizes - grown.n_edges
        for (left, right), n_edges, d in zip(grown.members, grown.n_edges.tolist(), missing.tolist(), strict=True):
            if 0 < d <= 5 and d < min(left.size, right.size):
                best = best_bicliques(graph, k=1, min_left=d + 1, min_right=d + 1, missing=d, engine="cpu")
                assert n_edges <= best.scores[0]
                n_compared, n_best = n_compared + 1, n_best + (n_edges == best.scores[0])
    assert n_best > 0.9 * n_compared > 40
