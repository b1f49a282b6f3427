"""Vertex scores equal their reference; a budget drops the last candidates and reports it."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import (
    Candidates,
    CandidateSink,
    EdgeScores,
    GroupMembers,
    NullModel,
    candidates,
    degree_percentiles,
    edge_sqrt,
    reference,
    surprise_of,
    vertex_scores,
)
from mbe_stage.groups.block_scores import drop_overtaken, score_block
from mbe_stage.groups.vertex_scores import best_score, rank_score
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import (
    Keyed,
    best_first,
    block_of,
    keyed,
    null_of,
    plain_edge_scores,
    with_blocks,
)


def candidates_of(graph: BipartiteCSR, bicliques: Keyed) -> Candidates:
    keys = best_first(graph, bicliques)
    members = GroupMembers.of([bicliques[key] for key in keys])
    return Candidates(np.array(keys, np.int64), surprise_of(members, NullModel.of(graph)), members)


def is_close(graph: BipartiteCSR, found: EdgeScores, pairs: list[reference.Biclique]) -> None:
    wanted = reference.edge_scores(reference.Bicliques.of(dict(enumerate(pairs))), null_of(graph))
    for scores, expected in zip(found[:4], wanted.sqrt + wanted.share, strict=True):
        assert scores.tolist() == pytest.approx(expected.tolist(), rel=1e-12)
    both = plain_edge_scores(graph, pairs, by_share=False) + plain_edge_scores(graph, pairs, by_share=True)
    # Each edge is rounded to a unit.
    for scores, plain in zip(found[:4], both, strict=True):
        assert scores.tolist() == pytest.approx(plain, rel=1e-6, abs=1e-6)


def test_edge_sqrt_on_random_graphs_with_blocks() -> None:
    n_positive = 0
    for seed in range(20):
        graph = with_blocks(seed)
        bicliques = keyed(graph)
        ranked = candidates_of(graph, bicliques)
        found = edge_sqrt(graph, ranked, NullModel.of(graph))
        is_close(graph, found, list(bicliques.values()))
        assert found.n_left_out == 0
        n_positive += int((ranked.surprise > 0).sum())
    assert n_positive > 100


def test_edge_sqrt_finds_members_anywhere_in_long_rows() -> None:
    """Rows of 700 neighbours; covered entries are at the start, the end and anywhere."""
    rng = np.random.default_rng(2)
    for rows in ([0, 1, 2], [697, 698, 699], sorted(rng.choice(700, 40, False).tolist()), list(range(700))):
        left = np.repeat(np.arange(3), 700)
        graph = BipartiteCSR.from_edges(
            np.concatenate([left, np.arange(3, 3000)]), np.concatenate([np.tile(np.arange(700), 3), np.arange(3, 3000)])
        )
        members = GroupMembers.of([((0, 1, 2), rows)])
        # As if it were positive.
        alone = Candidates(np.array([1]), np.array([5 << 24]), members)
        model = NullModel.of(graph)
        # Each of 3 rows: b times 1 and the bits of 700 // b.
        n_steps = 3 * len(rows) * (1 + (700 // len(rows)).bit_length())
        assert edge_sqrt(graph, alone, model, most_steps=n_steps - 1).n_left_out == 1
        found = edge_sqrt(graph, alone, model, most_steps=n_steps)
        assert found.n_left_out == 0
        ratio = 5 + model.naming_costs(3, len(rows)) / (1 << 24)
        degrees = graph.right_degrees
        covered = np.isin(np.arange(graph.n_right), rows)
        own, root = len(rows) / 700, np.sqrt(ratio)
        assert found.left[:4].tolist() == pytest.approx([len(rows) * root / 700**0.75] * 3 + [0])
        assert found.right.tolist() == pytest.approx(np.where(covered, 3 * root / degrees**0.75, 0).tolist())
        assert found.left_share[:3].tolist() == pytest.approx([len(rows) * root * np.sqrt(own) / 700**0.75] * 3)
        by_share = np.where(covered, 3 * root * np.sqrt(3 / degrees) / degrees**0.75, 0)
        assert found.right_share.tolist() == pytest.approx(by_share.tolist())


def test_edge_sqrt_drops_the_last_and_reports_it() -> None:
    graph = with_blocks(3)
    model, bicliques = NullModel.of(graph), keyed(graph)
    ranked = candidates_of(graph, bicliques)
    pairs = [bicliques[key] for key in ranked.keys.tolist()]
    specified = reference.Bicliques.of(dict(zip(ranked.keys.tolist(), pairs, strict=True)))
    evidence = null_of(graph).evidence(specified)
    positive = [pair for pair, says in zip(pairs, evidence.tolist(), strict=True) if says > 0]
    seen = []
    for most_steps in (0, 20, 100, 200, 400, 800, 1600, 10**9):
        found = edge_sqrt(graph, ranked, model, most_steps=most_steps)
        is_close(graph, found, positive[: len(positive) - found.n_left_out])
        assert reference.edge_scores(specified, null_of(graph), most_steps).n_left_out == found.n_left_out
        seen.append(found.n_left_out)
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) > 3
    assert (seen[0], seen[-1]) == (len(positive), 0)


def test_called_functions_are_compiled_ahead() -> None:
    graph = graphs.crown(3)
    bicliques, model = keyed(graph), NullModel.of(graph)
    sink = CandidateSink(model, graph.n_left, graph.n_right)
    sink.accept(block_of(list(bicliques.values())), np.array(list(bicliques), np.int64))
    edge_sqrt(graph, sink.finish(), model)
    steps = (*candidates.compile_steps(), *vertex_scores.compile_steps())
    assert [step.what for step in steps if not step.is_loaded()] == []
    assert [len(one.signatures) for one in (score_block, drop_overtaken, vertex_scores._cover_edges)] == [1, 1, 1]


def test_no_evidence_is_no_score() -> None:
    """A star follows from its degrees."""
    graph = graphs.star(5)
    found = edge_sqrt(graph, candidates_of(graph, keyed(graph)), NullModel.of(graph))
    assert max(scores.max() for scores in found[:4]) < 0.05
    assert found.n_left_out == 0


def test_insignificant_groups_count_with_their_evidence() -> None:
    graph = graphs.crown(5)
    ranked = candidates_of(graph, keyed(graph))
    assert ranked.surprise.max() < 0
    found = edge_sqrt(graph, ranked, NullModel.of(graph))
    assert min(found.left.min(), found.right_share.min()) > 0


def test_share_favours_exclusive_members() -> None:
    """Two of three members of a block have many other edges: by share they fall further behind."""
    block = np.indices((3, 8)).reshape(2, -1)
    own = np.stack([np.repeat([0, 1], 30), np.arange(8, 68)])
    rest = np.stack([np.arange(3, 500), np.arange(68, 565)])
    graph = BipartiteCSR.from_edges(*np.concatenate([block, own, rest], axis=1))
    found = edge_sqrt(graph, candidates_of(graph, {1: ((0, 1, 2), tuple(range(8)))}), NullModel.of(graph))
    assert found.left_share[2] == pytest.approx(found.left[2])
    assert found.left_share[0] / found.left[0] == pytest.approx(np.sqrt(8 / 38))


def percentiles(degrees: list[int]) -> list[float]:
    return [sum((other < own) + (other == own) / 2 for other in degrees) / len(degrees) for own in degrees]


def test_degree_percentiles() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        degrees = rng.integers(0, rng.integers(1, 12), rng.integers(1, 30))
        found = degree_percentiles(degrees)
        assert found.tolist() == pytest.approx(percentiles(degrees.tolist()), rel=1e-12)
        assert reference.degree_percentiles(degrees).tolist() == found.tolist()
        assert found.mean() == pytest.approx(0.5)
    assert degree_percentiles(np.empty(0, np.int64)).size == 0


def test_the_score_depends_on_ranks_only() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one, other = (rng.integers(0, rng.integers(1, 9), 30) * 0.25 for _ in range(2))
        found = rank_score(one, other)
        ranks = [a + b for a, b in zip(percentiles(one.tolist()), percentiles(other.tolist()), strict=True)]
        # Sums of fractions of 60 differ by far more than their rounding.
        expected = percentiles([round(60 * rank) for rank in ranks])
        is_scored = ((one > 0) | (other > 0)).tolist()
        assert found.tolist() == pytest.approx(
            [p if scored else 0.0 for p, scored in zip(expected, is_scored, strict=True)]
        )
        assert reference.rank_score(one, other).tolist() == found.tolist()
        assert rank_score(np.exp(one) - 1, other).tolist() == found.tolist()
    assert rank_score(np.empty(0), np.empty(0)).size == 0


def test_the_best_group_of_each_vertex() -> None:
    groups = GroupMembers.of([([0, 2], [1]), ([2, 3], [0, 1]), ([3], [2])])
    scores = np.array([5, 9, 1])
    assert best_score(*groups.side(0), scores, 5).tolist() == [5, 0, 9, 9, 0]
    assert best_score(*groups.side(1), scores, 3).tolist() == [9, 9, 1]
    assert best_score(*GroupMembers.of([]).side(0), scores[:0], 2).tolist() == [0, 0]
