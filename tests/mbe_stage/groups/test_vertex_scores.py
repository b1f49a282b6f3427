"""Scores of vertices equal their specification, and a budget leaves out the last candidates and says so."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import (
    Candidates,
    CandidateSink,
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
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import Keyed, block_of, keyed, with_blocks


def candidates_of(graph: BipartiteCSR, bicliques: Keyed) -> Candidates:
    """All of them, best first."""
    keys = reference.candidates(graph, bicliques, len(bicliques))
    members = GroupMembers.of([bicliques[key] for key in keys])
    return Candidates(np.array(keys, np.int64), surprise_of(members, NullModel.of(graph)), members)


def is_close(graph: BipartiteCSR, found: tuple[np.ndarray, np.ndarray], pairs: list[reference.Biclique]) -> None:
    for scores, wanted in zip(found, reference.edge_sqrt(graph, pairs), strict=True):
        assert scores.tolist() == pytest.approx(wanted, rel=1e-12)


def test_edge_sqrt_on_random_graphs_with_blocks() -> None:
    n_positive = 0
    for seed in range(20):
        graph = with_blocks(seed)
        bicliques = keyed(graph)
        ranked = candidates_of(graph, bicliques)
        found = edge_sqrt(graph, ranked, NullModel.of(graph))
        is_close(graph, found[:2], list(bicliques.values()))
        assert found.n_left_out == 0
        n_positive += int((ranked.surprise > 0).sum())
    assert n_positive > 100


def test_edge_sqrt_finds_members_anywhere_in_long_rows() -> None:
    """Rows of 700 neighbours; what is covered stands at their beginning, their end and anywhere."""
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
        ratio = 5 + (model.left_costs[3] + model.right_costs[len(rows)]) / (1 << 24)
        degrees = graph.right_degrees
        covered = np.isin(np.arange(graph.n_right), rows)
        assert found.left[:4].tolist() == pytest.approx([len(rows) * ratio / np.sqrt(graph.left_degrees[0])] * 3 + [0])
        assert found.right.tolist() == pytest.approx(np.where(covered, 3 * ratio / np.sqrt(degrees), 0).tolist())


def test_edge_sqrt_leaves_out_the_last_and_says_so() -> None:
    graph = with_blocks(3)
    model, bicliques = NullModel.of(graph), keyed(graph)
    ranked = candidates_of(graph, bicliques)
    positive = [bicliques[key] for key in ranked.keys[ranked.surprise > 0].tolist()]
    seen = []
    for most_steps in (0, 20, 100, 200, 400, 800, 1600, 10**9):
        found = edge_sqrt(graph, ranked, model, most_steps=most_steps)
        is_close(graph, found[:2], positive[: len(positive) - found.n_left_out])
        seen.append(found.n_left_out)
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) > 3
    assert (seen[0], seen[-1]) == (len(positive), 0)


def test_what_is_called_is_what_is_compiled_ahead() -> None:
    graph = graphs.crown(3)
    bicliques, model = keyed(graph), NullModel.of(graph)
    sink = CandidateSink(model, graph.n_left, graph.n_right)
    sink.accept(block_of(list(bicliques.values())), np.array(list(bicliques), np.int64))
    edge_sqrt(graph, sink.finish(), model)
    steps = (*candidates.compile_steps(), *vertex_scores.compile_steps())
    assert [step.what for step in steps if not step.is_loaded()] == []
    assert [len(one.signatures) for one in (score_block, drop_overtaken, vertex_scores._cover_edges)] == [1, 1, 1]


def test_nothing_is_significant() -> None:
    graph = graphs.crown(5)
    found = edge_sqrt(graph, candidates_of(graph, keyed(graph)), NullModel.of(graph))
    assert (found.left.tolist(), found.right.tolist(), found.n_left_out) == ([0.0] * 5, [0.0] * 5, 0)


def test_degree_percentiles() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        degrees = rng.integers(0, rng.integers(1, 12), rng.integers(1, 30))
        found = degree_percentiles(degrees)
        assert found.tolist() == pytest.approx(reference.degree_percentiles(degrees.tolist()), rel=1e-12)
        assert found.mean() == pytest.approx(0.5)
    assert degree_percentiles(np.empty(0, np.int64)).size == 0
