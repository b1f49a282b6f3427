"""Published grown groups compared with the definitions of seeds, pairs, growth and bystanders."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import selection
from mbe_stage.groups.bystanders import MIN_SHARE
from mbe_stage.groups.candidates import Candidates, CandidateSink
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from mbe_stage.groups.partner_seeds import partner_seeds
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups import reference_growth as reference
from tests.mbe_stage.groups.random_graphs import block_of, edges_of, keyed


def found_in(graph: BipartiteCSR, least: int) -> tuple[Candidates, CandidateSink]:
    bicliques = {key: pair for key, pair in keyed(graph).items() if min(map(len, pair)) >= least}
    sink = CandidateSink(NullModel.of(graph), graph.n_left, graph.n_right, top=5)
    sink.accept(block_of(list(bicliques.values())), np.array(list(bicliques), np.int64))
    return sink.finish(), sink


def as_pairs(members: GroupMembers) -> list[blocks.Group]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


def test_as_the_definitions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "N_BEST", 3)
    n_groups = n_of_pairs = n_from_no_best = 0
    for number in range(3):
        core = blocks.with_blocks(number, n=30, n_blocks=2 + number % 2, side=9, density=0.85)
        graph = blocks.amid(core, 1500)
        model, least = NullModel.of(graph), 1 + number % 2
        null = edges_of(graph)
        candidates, sink = found_in(graph, least)
        seeds = selection.seed_rows(len(candidates), sink.left_best, sink.right_best)
        best = {*sink.left_best.tolist(), *sink.right_best.tolist()} - {-1}
        assert seeds.tolist() == sorted(best | set(range(min(3, len(candidates)))))
        pairs = selection.grown_partners(graph, model, min_left=least, min_right=least)
        # Grown groups have at least two members per side.
        grows = max(2, least)
        starts = [*as_pairs(candidates.members.take(seeds)), *as_pairs(partner_seeds(graph, model))]
        wanted: dict[blocks.Group, list[int]] = {}
        for row, seed in enumerate(starts):
            found = reference.grow(null, seed, selection.SCHEDULE, (grows, grows))
            if found is None or found[1] <= SIGNIFICANT:
                continue
            stripped = reference.without_bystanders(null, found[0], Fraction(MIN_SHARE))
            if min(map(len, stripped)) < grows:
                continue
            if null.score(stripped) > SIGNIFICANT and null.has_more_than_expected(stripped):
                wanted.setdefault(stripped, []).append(row)
        grown = selection.grown_above_chance(
            graph, candidates, seeds, model, min_left=least, min_right=least, partners=pairs
        )
        groups = as_pairs(grown.members)
        assert set(groups) == set(wanted)
        assert len(groups) == len(wanted)
        alone = selection.grown_above_chance(graph, candidates, seeds, model, min_left=least, min_right=least)
        assert set(as_pairs(alone.members)) == {group for group, rows in wanted.items() if rows[0] < seeds.size}
        assert grown.scores.tolist() == sorted((null.score(group) for group in groups), reverse=True)
        assert grown.scores.tolist() == [null.score(group) for group in groups]
        assert grown.n_edges.tolist() == [len(null.present(group)) for group in groups]
        assert grown.costs.tolist() == [null.cost(group) for group in groups]
        n_groups += len(groups)
        firsts = [rows[0] for rows in wanted.values()]
        n_of_pairs += sum(row >= seeds.size for row in firsts)
        n_from_no_best += sum(seeds[row] >= 3 for row in firsts if row < seeds.size)
    assert min(n_groups, n_from_no_best) > 3, (n_groups, n_from_no_best)
    assert n_of_pairs > 0


def test_seeds_without_steps_are_counted() -> None:
    graph = blocks.amid(blocks.with_blocks(1), 800)
    candidates, sink = found_in(graph, 2)
    seeds, model = selection.seed_rows(len(candidates), sink.left_best, sink.right_best), NullModel.of(graph)
    grown = selection.grown_above_chance(graph, candidates, seeds, model, most_steps=0)
    assert (len(grown.members), grown.n_left_out) == (0, seeds.size)
    late = selection.grown_partners(graph, model, most_seconds=1e-9)
    assert len(late.members) == 0
    assert 0 < late.n_left_out < len(partner_seeds(graph, model))
    both = selection.grown_above_chance(graph, candidates, seeds, model, most_steps=0, partners=late)
    assert both.n_left_out == seeds.size + late.n_left_out
    assert selection.grown_above_chance(graph, candidates, seeds, model).n_left_out == 0


def test_groups_grow_from_pairs_alone() -> None:
    """A ring where hardly any pair shares six, amid unrelated edges: the seeds are smaller than the minimum group."""
    rng = np.random.default_rng(5)
    ring = np.argwhere(rng.random((20, 20)) < 0.35)
    noise = 20 + np.arange(4000)
    graph = BipartiteCSR.from_edges(np.concatenate([ring[:, 0], noise]), np.concatenate([ring[:, 1], noise]))
    model, none = NullModel.of(graph), np.empty(0, np.int64)
    nothing = Candidates(none, none, GroupMembers.of([]))
    assert (partner_seeds(graph, model).right_sizes < 6).mean() > 0.3
    pairs = selection.grown_partners(graph, model, min_left=6, min_right=6)
    grown = selection.grown_above_chance(graph, nothing, none, model, min_left=6, min_right=6, partners=pairs)
    assert grown.members[0][0].tolist() == list(range(20))
    assert min(grown.members.left_sizes.min(), grown.members.right_sizes.min()) >= 6
