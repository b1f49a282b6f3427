"""What a run publishes of grown groups, against seeds, growth, bystanders and cover by their definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import reference_selection as reference
from mbe_stage.groups import selection
from mbe_stage.groups.bystanders import MIN_SHARE
from mbe_stage.groups.candidates import Candidates, CandidateSink
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from tests.mbe_stage.groups import blocks
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
    n_groups = n_covered = n_from_no_best = 0
    for number in range(5):
        core = blocks.with_blocks(number, n=30, n_blocks=2 + number % 2, side=9, density=0.85)
        graph = blocks.amid(core, 1500)
        model, least = NullModel.of(graph), 1 + number % 2
        null = edges_of(graph)
        candidates, sink = found_in(graph, least)
        seeds = selection.seed_rows(len(candidates), sink.left_best, sink.right_best)
        best = {*sink.left_best.tolist(), *sink.right_best.tolist()} - {-1}
        assert seeds.tolist() == sorted(best | set(range(min(3, len(candidates)))))
        wanted: dict[blocks.Group, list[int]] = {}
        for row in seeds.tolist():
            left, right = candidates.members[row]
            seed = tuple(left.tolist()), tuple(right.tolist())
            group, score = reference.grow(null, seed, selection.SCHEDULE, (least, least))
            stripped = reference.without_bystanders(null, group, Fraction(MIN_SHARE))
            if score <= SIGNIFICANT or min(map(len, stripped)) < least:
                continue
            if null.score(stripped) > SIGNIFICANT and null.has_more_than_expected(stripped):
                wanted.setdefault(stripped, []).append(row)
        grown = selection.grown_above_chance(graph, candidates, seeds, model, min_left=least, min_right=least)
        groups = as_pairs(grown.members)
        assert set(groups) == set(wanted)
        assert len(groups) == len(wanted)
        assert grown.scores.tolist() == sorted((null.score(group) for group in groups), reverse=True)
        assert grown.scores.tolist() == [null.score(group) for group in groups]
        assert grown.n_edges.tolist() == [len(null.present(group)) for group in groups]
        assert grown.seeds.tolist() == [wanted[group][0] for group in groups]
        assert grown.n_seeds.tolist() == [len(wanted[group]) for group in groups]
        chosen, gains = selection.covered(graph, grown, model, limit=4)
        expected = reference.cover(null, groups, limit=4)
        assert as_pairs(chosen.members) == [groups[row] for row, _ in expected]
        assert gains.tolist() == [gain for _, gain in expected]
        assert chosen.costs.tolist() == [null.cost(group) for group in as_pairs(chosen.members)]
        n_groups += len(groups)
        n_covered += len(expected)
        n_from_no_best += sum(row >= 3 for row in grown.seeds.tolist())
    assert min(n_groups, n_covered, n_from_no_best) > 3, (n_groups, n_covered, n_from_no_best)


def test_what_there_are_no_steps_for_is_counted() -> None:
    graph = blocks.amid(blocks.with_blocks(1), 800)
    candidates, sink = found_in(graph, 2)
    seeds, model = selection.seed_rows(len(candidates), sink.left_best, sink.right_best), NullModel.of(graph)
    grown = selection.grown_above_chance(graph, candidates, seeds, model, most_steps=0)
    assert (len(grown.members), grown.n_left_out) == (0, seeds.size)
    chosen, gains = selection.covered(graph, grown, model)
    assert (chosen.n_left_out, len(chosen.members), gains.size) == (seeds.size, 0, 0)
    assert selection.grown_above_chance(graph, candidates, seeds, model).n_left_out == 0
