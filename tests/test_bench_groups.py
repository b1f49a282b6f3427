"""Benchmark of groups: baselines, metrics, swaps and planted groups against plain references."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import get_args

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.groups import baselines, labelled, metrics, ours
from benchmarks.groups.labelled import DEVELOPMENT, Key
from benchmarks.groups.planted import STYLES, Style, plant, rows_with_ring
from benchmarks.groups.published import config_of, groups_in, published_groups
from benchmarks.groups.stability import runs_of_ring, stability
from benchmarks.groups.swaps import swapped, threshold_graph
from mbe_stage import BipartiteCSR
from mbe_stage.groups.listing import RankBy
from mbe_stage.pipeline import run

SIDES = ("left", "right")


def random_graph(seed: int, most: int = 9) -> BipartiteCSR:
    dice = np.random.default_rng(seed)
    n_left, n_right = dice.integers(1, most, 2)
    left, right = np.nonzero(dice.random((n_left, n_right)) < dice.random())
    return BipartiteCSR.from_edges(left, right, n_left, n_right)


def edge_set(graph: BipartiteCSR) -> set[tuple[int, int]]:
    left, right = graph.edges()
    return set(zip(left.tolist(), right.tolist(), strict=True))


def plain_block(graph: BipartiteCSR) -> tuple[set[tuple[str, int]], Fraction]:
    """Return the block of FRAUDAR's algorithm 1, recounted from scratch at every step."""
    edges = edge_set(graph)
    weights = [
        Fraction(round(baselines.UNIT / math.log(degree + 5)), baselines.UNIT)
        for degree in graph.right_degrees.tolist()
    ]

    def weight(members: set[tuple[str, int]]) -> Fraction:
        return sum((weights[v] for u, v in edges if ("left", u) in members and ("right", v) in members), Fraction(0))

    members = {("left", u) for u in range(graph.n_left)} | {("right", v) for v in range(graph.n_right)}
    best, density = set(members), weight(members) / len(members)
    while len(members) > 1:
        # Remove the vertex that leaves the most; ties: left before right, then the lower id.
        out = min(sorted(members), key=lambda one: -weight(members - {one}))
        members = members - {out}
        if weight(members) / len(members) > density:
            best, density = set(members), weight(members) / len(members)
    return best, density


def as_set(block: baselines.Block) -> set[tuple[str, int]]:
    return {("left", int(u)) for u in block.left} | {("right", int(v)) for v in block.right}


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_fraudar_is_the_greedy_of_the_paper(start: int) -> None:
    for seed in range(start, start + 50):
        graph = random_graph(seed)
        block = baselines.fraudar_block(graph)
        expected, density = plain_block(graph)
        assert as_set(block) == expected, seed
        assert block.density == pytest.approx(float(density)), seed


def test_fraudar_is_at_least_half_as_dense_as_the_densest() -> None:
    """Theorem 1 of the paper, checked against every subset."""
    for seed in range(40):
        graph = random_graph(seed, most=6)
        weights = baselines.column_weights(graph.right_degrees) / baselines.UNIT
        edges = edge_set(graph)
        best = 0.0
        for chosen in itertools.product((False, True), repeat=graph.n_left + graph.n_right):
            inside = [weights[v] for u, v in edges if chosen[u] and chosen[graph.n_left + v]]
            best = max(best, sum(inside) / max(sum(chosen), 1))
        assert baselines.fraudar_block(graph).density >= best / 2 - 1e-6


def test_weights_are_those_of_the_paper() -> None:
    assert (baselines.column_weights(np.array([0, 1, 95])) / baselines.UNIT).tolist() == pytest.approx(
        [1 / math.log(5), 1 / math.log(6), 1 / math.log(100)], abs=1e-7
    )


def test_fraudar_finds_a_planted_block_and_then_the_next() -> None:
    """Two dense blocks in a sparse ring: the larger comes first, then the smaller."""
    one, two = ((np.repeat(np.arange(n), n), np.tile(np.arange(n), n)) for n in (8, 5))
    ring = np.arange(60)
    left = np.concatenate([one[0], two[0] + 20, ring])
    right = np.concatenate([one[1], two[1] + 20, ring])
    graph = BipartiteCSR.from_edges(left, right)
    blocks = baselines.fraudar_blocks(graph, 2)
    assert [(set(block.left), set(block.right)) for block in blocks] == [
        (set(range(8)), set(range(8))),
        (set(range(20, 25)), set(range(20, 25))),
    ]
    scores = baselines.fraudar_score(graph)
    assert scores[:8].min() > scores[20:25].max() > scores[20:25].min() > scores[25:].max()


def plain_dcube(edges: set[tuple[int, int]]) -> tuple[set[int], set[int], Fraction]:
    """Return the block of D-Cube's algorithm 2 for two modes, with arithmetic density and the choice by density."""
    members = [{edge[side] for edge in edges} for side in (0, 1)]

    def inside(sides: list[set[int]]) -> list[tuple[int, int]]:
        return [edge for edge in edges if edge[0] in sides[0] and edge[1] in sides[1]]

    def density(sides: list[set[int]]) -> Fraction:
        n = len(sides[0]) + len(sides[1])
        return Fraction(2 * len(inside(sides)), n) if n else Fraction(0)

    best, found = density(members), [set(side) for side in members]
    while inside(members):
        masses = [{v: sum(edge[side] == v for edge in inside(members)) for v in members[side]} for side in (0, 1)]
        light = [{v for v in own if own[v] * len(own) <= sum(own.values())} for own in masses]
        rests = [[members[0] - light[0], members[1]], [members[0], members[1] - light[1]]]
        side = max((0, 1), key=lambda one: density(rests[one]))
        for v in sorted(light[side], key=lambda v: (masses[side][v], v)):
            members[side].discard(v)
            if density(members) > best:
                best, found = density(members), [set(one) for one in members]
    return found[0], found[1], best


def test_dcube_is_the_greedy_of_the_paper() -> None:
    for seed in range(150):
        rest = edge_set(graph := random_graph(seed, most=12))
        for block in baselines.dcube_blocks(graph, 3):
            left, right, density = plain_dcube(rest)
            assert (set(block.left), set(block.right)) == (left, right), seed
            assert block.density == pytest.approx(float(density))
            rest = {(u, v) for u, v in rest if u not in left or v not in right}


def two_blocks() -> BipartiteCSR:
    left, right = np.nonzero(np.kron(np.eye(2), np.ones((6, 4))))
    return BipartiteCSR.from_edges([*left, 0], [*right, 4])


@pytest.mark.parametrize("projected", [False, True])
def test_communities_are_those_of_leiden(projected: bool) -> None:
    pytest.importorskip("igraph")
    found = baselines.leiden_communities(two_blocks(), projected=projected)
    assert found is not None
    assert sorted(sorted(one.tolist()) for one in found) == [[*range(6)], [*range(6, 12)]]
    assert len(baselines.leiden_communities(two_blocks(), projected=projected, n=1) or []) == 1


def test_without_igraph_there_are_no_communities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    assert baselines.leiden_communities(two_blocks(), projected=False) is None


def test_hubs_are_those_of_the_first_singular_vector() -> None:
    graph = random_graph(3, most=30)
    left, right = graph.edges()
    matrix = np.zeros((graph.n_left, graph.n_right))
    matrix[left, right] = 1
    assert baselines.hits(graph) == pytest.approx(np.abs(np.linalg.svd(matrix)[0][:, 0]), abs=1e-6)


def test_core_numbers_are_those_of_networkx() -> None:
    for seed in range(100):
        graph = random_graph(seed, most=15)
        other = nx.Graph()
        other.add_nodes_from((side, i) for side in SIDES for i in range(getattr(graph, f"n_{side}")))
        other.add_edges_from((("left", u), ("right", v)) for u, v in edge_set(graph))
        cores = nx.core_number(other)
        assert baselines.core_number(graph).tolist() == [cores["left", u] for u in range(graph.n_left)]


def test_best_pairs_are_those_of_all_pairs() -> None:
    for seed in range(100):
        graph = random_graph(seed)
        items = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
        for u, own in enumerate(items):
            others = [other for v, other in enumerate(items) if v != u and own & other]
            shared = max((len(own & other) / math.sqrt(len(own)) for other in others), default=0)
            cosine = max((len(own & other) / math.sqrt(len(own) * len(other)) for other in others), default=0)
            assert baselines.best_pair(graph)[u] == pytest.approx(shared)
            assert baselines.best_pair_cosine(graph)[u] == pytest.approx(cosine)


def test_fbox_ranks_vertices_apart_from_the_large_block_first() -> None:
    """Twenty vertices share eight targets; four others of equal degree have distinct targets."""
    left = np.repeat(np.arange(24), 8)
    right = np.concatenate([np.tile(np.arange(8), 20), 8 + np.arange(32)])
    scores = baselines.fbox(BipartiteCSR.from_edges(left, right), n_factors=1)
    assert scores[20:].min() > scores[:20].max()


def test_degrees_as_scores() -> None:
    graph = BipartiteCSR.from_edges([0, 0, 1], [0, 1, 0], n_left=3)
    assert baselines.degree(graph).tolist() == [2, 1, 0]
    assert baselines.opposite_degree(graph).tolist() == [-2, -1, 0]


@pytest.mark.parametrize("seed", range(60))
def test_average_precision_and_auroc_are_their_definitions(seed: int) -> None:
    dice = np.random.default_rng(seed)
    n = int(dice.integers(2, 30))
    labels = dice.random(n) < 0.4
    labels[:2] = True, False
    scores = dice.integers(0, 8, n).astype(float)
    steps, recall_before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        taken = scores >= threshold
        recall = (labels & taken).sum() / labels.sum()
        steps += (recall - recall_before) * (labels & taken).sum() / taken.sum()
        recall_before = recall
    assert metrics.average_precision(labels, scores) == pytest.approx(steps)
    pairs = [(one > other) + (one == other) / 2 for one in scores[labels] for other in scores[~labels]]
    assert metrics.auroc(labels, scores) == pytest.approx(np.mean(pairs))


def test_figures_without_a_class_are_not_numbers() -> None:
    assert math.isnan(metrics.average_precision(np.zeros(3, bool), np.arange(3.0)))
    assert math.isnan(metrics.auroc(np.ones(3, bool), np.arange(3.0)))


def test_bootstraps_are_average_precisions_of_resamples() -> None:
    dice = np.random.default_rng(3)
    labels, scores = dice.random(25) < 0.5, dice.integers(0, 6, 25).astype(float)
    found = metrics.bootstrap_scores(labels, [scores, -scores], n=150, seed=9)
    again = np.random.default_rng(9)
    for resample in range(150):
        chosen = again.integers(25, size=25)
        assert found[0, resample] == pytest.approx(metrics.average_precision(labels[chosen], scores[chosen]))
        assert found[1, resample] == pytest.approx(metrics.average_precision(labels[chosen], -scores[chosen]))


def test_intervals_hold_the_middle_of_the_resamples() -> None:
    estimate = metrics.interval(0.5, np.append(np.arange(1001) / 1000, np.nan))
    assert (estimate.low, estimate.high) == pytest.approx((0.025, 0.975))
    assert str(metrics.Estimate(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"


def test_purity_is_the_mean_over_groups_and_pooled_by_member() -> None:
    labels = np.array([1, 1, 0, -1, 1])
    groups = [np.array([0, 1]), np.array([1, 2, 3]), np.array([1]), np.array([3])]
    found = metrics.positive_purity(groups, labels)
    assert (found.mean.value, found.n_groups) == (pytest.approx(2.5 / 3), 3)
    assert (found.n_pure, found.n_labelled) == (2, 3)
    assert (found.mean.low, found.mean.high) == (0.5, 1)
    nothing = metrics.positive_purity([], labels)
    assert math.isnan(nothing.mean.value)
    assert nothing.n_labelled == 0


def test_purity_of_communities_and_f1() -> None:
    labels = np.array([2, 2, 5, -1])
    found = metrics.majority_purity([np.array([0, 1, 2, 3]), np.array([3]), np.array([2])], labels)
    assert (found.mean.value, found.n_groups) == (pytest.approx(5 / 6), 2)
    assert (found.n_pure, found.n_labelled) == (3, 4)
    assert metrics.best_f1([np.array([0, 1, 2]), np.array([7])], np.array([1, 2])) == 4 / 5
    assert metrics.best_f1([], np.array([1])) == 0


def test_swaps_keep_every_degree_and_little_else() -> None:
    dice = np.random.default_rng(0)
    left, right = np.nonzero(dice.random((60, 40)) < 0.1)
    graph = BipartiteCSR.from_edges(left, right, 60, 40)
    other = swapped(graph, seed=1)
    assert np.array_equal(other.left_degrees, graph.left_degrees)
    assert np.array_equal(other.right_degrees, graph.right_degrees)
    assert len(edge_set(graph) & edge_set(other)) < graph.n_edges / 2
    assert edge_set(swapped(graph, seed=1)) == edge_set(other)
    assert edge_set(swapped(graph, seed=2)) != edge_set(other)


def test_every_graph_with_the_degrees_is_equally_likely() -> None:
    """The degrees 2, 1, 1 and 2, 1, 1 have five graphs."""
    graph = BipartiteCSR.from_edges([0, 0, 1, 2], [0, 1, 0, 2])
    counts: dict[frozenset, int] = {}
    for seed in range(800):
        name = frozenset(edge_set(swapped(graph, seed, rounds=20)))
        counts[name] = counts.get(name, 0) + 1
    assert len(counts) == 5
    # Five standard deviations of a binomial of 800 with 1/5.
    assert all(abs(count - 160) < 5 * math.sqrt(800 * 0.16) for count in counts.values()), counts


@pytest.mark.parametrize("density", [1.0, 0.6, 0.3])
def test_planted_groups_are_as_described(density: float) -> None:
    dice = np.random.default_rng(5)
    left, right = np.nonzero(dice.random((300, 90)) < dice.random(90) ** 3)
    host = BipartiteCSR.from_edges(left, np.unique(right, return_inverse=True)[1], 300)
    n_block = 0
    for seed in range(30):
        case = plant(host, 10, density, seed)
        assert case.graph.n_left == host.n_left + 10
        assert (case.accounts.size, case.targets.size) == (10, 10)
        assert host.right_degrees[case.targets].max() <= np.sort(host.right_degrees)[host.n_right // 3 - 1]
        inside = np.isin(case.graph.left_members, case.targets)
        accounts = np.repeat(np.isin(np.arange(case.graph.n_left), case.accounts), case.graph.left_degrees)
        assert (inside & accounts).sum() * 2 == accounts.sum() == case.graph.n_edges - host.n_edges
        n_block += int((inside & accounts).sum())
        # The host is unchanged except for the order of its left vertices.
        others = np.setdiff1d(np.arange(case.graph.n_left), case.accounts)
        assert sorted(map(tuple, (case.graph.neighbours_of_left(u) for u in others))) == sorted(
            map(tuple, (host.neighbours_of_left(u) for u in range(host.n_left)))
        )
    assert abs(n_block / 3_000 - density) < 0.05
    assert edge_set(plant(host, 10, density, 0).graph) == edge_set(plant(host, 10, density, 0).graph)


@pytest.mark.parametrize("style", STYLES[1:])
def test_styles_of_planted_groups(style: Style) -> None:
    dice = np.random.default_rng(5)
    left, right = np.nonzero(dice.random((300, 90)) < dice.random(90) ** 3)
    host = BipartiteCSR.from_edges(left, np.unique(right, return_inverse=True)[1], 300)
    order = np.sort(host.right_degrees)
    for seed in range(10):
        case = plant(host, 10, 1.0, seed, style)
        assert {(u, v) for u in case.accounts.tolist() for v in case.targets.tolist()} <= edge_set(case.graph)
        if style == "hijacked accounts":
            assert case.graph.n_left == host.n_left
            assert host.right_degrees[case.targets].max() <= order[host.n_right // 3 - 1]
            assert 0 < case.graph.n_edges - host.n_edges <= 100
        else:
            assert (case.graph.n_left, case.graph.n_edges) == (host.n_left + 10, host.n_edges + 200)
            assert host.right_degrees[case.targets].min() >= order[-(host.n_right // 3)]


def test_a_ring_may_have_a_core() -> None:
    host = BipartiteCSR.from_edges(np.arange(300), np.arange(300))
    densities = np.zeros((60, 60))
    densities[:20, :30] = 1
    case = plant(host, 60, densities, 0)
    accounts, targets = case.accounts[:20].tolist(), case.targets[:30].tolist()
    inside = {(u, v) for u, v in edge_set(case.graph) if u in case.accounts and v in case.targets}
    assert inside == {(u, v) for u in accounts for v in targets}


def test_planting_needs_targets() -> None:
    for style, third in (("new accounts", "lowest"), ("popular targets", "highest")):
        with pytest.raises(ValueError, match=f"{third} third of 3 right vertices has 1: expected at least 2"):
            plant(BipartiteCSR.from_edges([0, 1, 2], [0, 1, 2]), 2, 1.0, 0, style)


def test_graphs_determined_by_their_degrees() -> None:
    """No two edges can be swapped."""
    for seed in range(5):
        graph = threshold_graph(12, 20, seed)
        assert edge_set(swapped(graph, seed)) == edge_set(graph)
        assert 0 < graph.n_edges < 240


def made_events(name: str = "made") -> labelled.Events:
    """Return two thousand ratings of 300 items over a year; a ring's items are among the last."""
    dice = np.random.default_rng(7)
    left, right = dice.integers(0, 500, 2_000), (300 * dice.random(2_000) ** 2).astype(np.int64)
    left[:500], right[:300] = np.arange(500), np.arange(300)
    weights, times = dice.integers(1, 6, 2_000).astype(np.float64), dice.integers(10_000, 10_365, 2_000)
    return labelled.Events(name, left, right, weights, times, 1, np.full(500, -1))


def test_rows_with_a_ring() -> None:
    rows, accounts = rows_with_ring(events := made_events(), (10, 8), 0.5, 3, 1)
    new = rows.slice(2_000).to_pydict()
    assert rows.num_rows % 2 == 0
    assert set(new["account"]) <= set(accounts.tolist()) == set(range(500, 510))
    n = len(new["item"]) // 2
    assert len(set(new["item"][:n])) == 8
    assert max(new["time"][:n]) - min(new["time"][:n]) <= timedelta(days=2)
    others = set(zip(events.right.tolist(), events.weights.tolist(), strict=True))
    assert set(zip(new["item"][n:], new["stars"][n:], strict=True)) <= others


def test_a_ring_is_found_without_a_key() -> None:
    rows, accounts = rows_with_ring(made_events(), (10, 10), 0.8, 2, 1)
    assert metrics.best_f1([left for _, left in published_groups(rows)], accounts) > 0.8


def test_a_ring_is_new_once() -> None:
    since = runs_of_ring(replace(made_events(), times=86_400 * made_events().times, day=86_400), 7, 3, (10, 6))
    assert since[0] == "-"
    assert since.count("new") == 1


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> labelled.Events:
    """Return three reviewers, two items, ratings and times in days of 86,400 seconds."""
    (tmp_path / "labelled").mkdir()
    np.savez(
        tmp_path / "labelled" / "made.npz",
        u=np.array([0, 1, 2, 0, 0], np.int32),
        v=np.array([0, 0, 0, 1, 0], np.int32),
        w=np.array([5, 5, 1, 5, 5], np.float32),
        t=np.array([0.4, 0.6, 1.2, 0.4, 0.4]) * 86_400,
        y_u=np.array([1, 0, -1, 0], np.int8),
    )
    (tmp_path / "labelled" / "INDEX.json").write_text('{"made": {}, "absent": {}}', encoding="utf-8")
    monkeypatch.setenv("MBE_DATA", str(tmp_path))
    return labelled.load("made")


def groups_of(graph: BipartiteCSR) -> set[tuple[int, ...]]:
    return {tuple(graph.neighbours_of_right(v).tolist()) for v in range(graph.n_right)}


def test_composite_keys(events: labelled.Events) -> None:
    assert labelled.available() == ["made"]
    (plain,) = events.graphs()
    assert (plain.n_left, plain.n_right, plain.n_edges) == (4, 2, 4)
    (rated,) = events.graphs(Key(rating=True))
    assert groups_of(rated) == {(0, 1), (2,), (0,)}
    # With days from midnight the first two share a day; from noon, the last two.
    from_midnight, from_noon = events.graphs(Key(days=1))
    assert groups_of(from_midnight) == {(0, 1), (2,), (0,)}
    assert groups_of(from_noon) == {(0,), (1, 2)}
    assert [groups_of(graph) for graph in events.graphs(Key(rating=True, days=1))] == [
        {(0, 1), (2,), (0,)},
        {(0,), (1,), (2,)},
    ]
    assert str(Key(rating=True, days=7)) == "item x rating x 7 days"


def test_some_left_vertices_with_dense_ids(events: labelled.Events) -> None:
    some = events.only(events.labels != 1)
    assert (some.left.tolist(), some.right.tolist(), some.labels.tolist()) == ([0, 1], [0, 0], [0, -1, 0])


def test_missing_graphs_are_reported(events: labelled.Events) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.npz: no such file: set MBE_DATA"):
        labelled.load("absent")
    bare = labelled.Events("bare", events.left, events.right, None, None, 1, events.labels)
    with pytest.raises(ValueError, match="bare has no weights"):
        bare.graphs(Key(rating=True))
    with pytest.raises(ValueError, match="bare has no times"):
        bare.graphs(Key(days=1))


def test_the_labelled_graphs_match_their_description() -> None:
    missing = sorted(set(DEVELOPMENT) - set(labelled.available()))
    if missing:
        pytest.skip(f"{labelled.directory()}: no {', '.join(missing)}; set MBE_DATA")
    amazon = labelled.load("amazon_spammers")
    assert (amazon.labels == 1).sum() == 1907
    assert amazon.graphs()[0].n_edges == 51_098
    otc = labelled.load("bitcoin_otc")
    assert (otc.labels == 1).sum() == 115
    assert [graph.n_edges for graph in otc.graphs(Key(days=7))] == [35_592, 35_592]


def published(
    out: Path, graph: BipartiteCSR, asked: dict[str, object]
) -> tuple[list[list[int]], dict[str, list[float]]]:
    """Return the left members of a run's groups, in order, and the scores of left vertices."""
    left, right = (side.astype(np.int64) for side in graph.edges())
    config = config_of(str(out), query={"min_left": 2, "min_right": 2}, groups=asked)
    run_dir = run(config, pa.table({"account": left, "item": right})).run_dir
    scores = pq.read_table(run_dir / "vertex_scores.parquet").slice(0, graph.n_left)
    return [left.tolist() for _, left in groups_in(run_dir)], {
        name: scores[name].to_pylist()
        for name in ("score", "edge_share", "grown_surprise", "edge_sqrt", "share_size", "tfidf_eigenvector")
    }


def test_stability_is_1_without_drops_and_low_with_many() -> None:
    dice = np.random.default_rng(4)
    matrix = dice.random((90, 70)) < 0.02
    for first in (0, 20):
        matrix[first : first + 12, first : first + 9] |= dice.random((12, 9)) < 0.9
    left, right = np.nonzero(matrix)
    events = labelled.Events("two blocks", left, right, None, None, 1, np.zeros(90, np.int64))
    kept = stability(events, Key(), (2, 2), [1], dropped=0.0)
    assert set(kept) == {"short_list", "grown_cover", "both"}
    assert {(one.groups, one.pairs) for one in kept.values()} == {(1.0, 1.0)}
    lost = stability(events, Key(), (2, 2), [1, 2], dropped=0.9)
    assert all(one.groups < 0.5 and one.pairs < 0.5 for one in lost.values())


def test_measured_groups_equal_those_of_a_published_run(tmp_path: Path) -> None:
    dice = np.random.default_rng(2)
    matrix = dice.random((400, 300)) < 0.01
    for first in (0, 15, 40):
        matrix[first : first + 12, first : first + 9] |= dice.random((12, 9)) < 0.75
    # Every vertex has an edge, so its key is its id.
    matrix[np.arange(400), np.arange(400) % 300] = True
    graph = BipartiteCSR.from_edges(*np.nonzero(matrix))
    found = [ours.search(graph)]
    both, scores = published(tmp_path / "both", graph, {})
    assert both == [left.tolist() for left in ours.lefts(ours.groups(found, 100))]
    assert len(both) >= 3
    assert scores == {name: values.tolist() for name, values in ours.scores_of(found).items()}
    for kind, rank_by in itertools.product(get_args(ours.Kind)[1:], get_args(RankBy)):
        some, same = published(tmp_path / kind / rank_by, graph, {"kind": kind, "rank_by": rank_by, "limit": 7})
        assert some == [left.tolist() for left in ours.lefts(ours.groups(found, 7, kind, rank_by))]
        assert same == scores
