"""Candidates from a stream equal those of all bicliques in memory, for any order and block size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from mbe_stage import BicliqueBlock, BipartiteCSR, Execution, InvalidArgument, enumerate_into
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.groups import Candidates, CandidateSink, NullModel
from mbe_stage.groups.reference import Best, Bicliques
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import (
    Keyed,
    best_first,
    best_of_left,
    block_of,
    blocks_of,
    candidates_of_sets,
    hashes_of,
    keyed,
    null_of,
    small_graphs,
    swapped,
)

Blocks = Iterable[tuple[BicliqueBlock, np.ndarray]]


def taken_in(
    graph: BipartiteCSR, blocks: Blocks, top: int, sink: CandidateSink | None = None
) -> tuple[CandidateSink, Candidates]:
    sink = sink or CandidateSink(NullModel.of(graph), graph.n_left, graph.n_right, top)
    for block, keys in blocks:
        sink.accept(block, keys)
    return sink, sink.finish()


def equals_the_specification(
    graph: BipartiteCSR, bicliques: Keyed, blocks: Blocks, top: int, sink: CandidateSink | None = None
) -> None:
    sink, found = taken_in(graph, blocks, top, sink)
    keys = found.keys.tolist()
    specified = Bicliques.of(bicliques)
    surprise = dict(zip(bicliques, null_of(graph).surprise(specified).tolist(), strict=True))
    best = Best(null_of(graph), top)
    best.add(specified)
    assert keys == sorted(best.candidate_keys().tolist(), key=lambda key: (-surprise[key], key))
    assert keys == candidates_of_sets(graph, bicliques, top)
    assert found.surprise.tolist() == [surprise[key] for key in keys]
    members = [(tuple(left.tolist()), tuple(right.tolist())) for left, right in found.members]
    assert members == [bicliques[key] for key in keys]
    for side, (of, pairs) in enumerate([(graph, bicliques), (graph.swapped(), swapped(bicliques))]):
        rows = (sink.left_best, sink.right_best)[side].tolist()
        of_vertices = {v: keys[row] for v, row in enumerate(rows) if row >= 0}
        assert of_vertices == best_of_left(of, pairs)
        assert of_vertices == {v: key for v, key in enumerate(best.keys[side].tolist()) if v in of_vertices}
        assert set(rows) <= {-1, *range(len(keys))}
        share = (sink.left_share, sink.right_share)[side]
        numerators = [0] * of.n_left
        for left, right in pairs.values():
            for v in left:
                numerators[v] = max(numerators[v], len(right) ** 2 * len(left))
        assert share.tolist() == best.numerators[side].tolist() == numerators
        counts = Counter(v for left, _ in pairs.values() for v in left)
        n_bicliques = (sink.n_bicliques_of_left, sink.n_bicliques_of_right)[side]
        assert n_bicliques.tolist() == [counts[v] for v in range(of.n_left)]


def test_random_graphs_in_any_order() -> None:
    for seed, graph in enumerate(small_graphs(250)):
        rng = np.random.default_rng(seed)
        bicliques = keyed(graph)
        equals_the_specification(graph, bicliques, blocks_of(bicliques, rng), top=int(rng.integers(1, 12)))


@pytest.mark.parametrize("top", [1, 4, 1000])
def test_one_biclique_a_block_from_worst_to_best_and_back(top: int) -> None:
    """Ascending, each becomes the best; descending, none does: nearly all are compacted away, or never kept."""
    graph = graphs.from_matrix(graphs.random_matrix(5, 12, 14, 0.5))
    bicliques = keyed(graph)
    assert len(bicliques) > 100
    ranked = best_first(graph, bicliques)
    for order in (ranked, ranked[::-1]):
        blocks = [(block_of([bicliques[key]]), np.array([key])) for key in order]
        equals_the_specification(graph, bicliques, blocks, top)


def test_the_cpu_engine_in_blocks_of_any_size() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(6, 50, 50, 0.2))
    hashes, bicliques = hashes_of(graph), keyed(graph)
    assert len(bicliques) > 500

    class Keys:
        detail = CandidateSink.detail

        def accept(self, block: BicliqueBlock) -> None:
            blocks.append((block, biclique_keys(block, *hashes)))

    for block_bytes in (100, 3000, 1 << 24):
        blocks: list[tuple[BicliqueBlock, np.ndarray]] = []
        enumerate_into(Keys(), graph, execution=Execution(threads=2, block_bytes=block_bytes), engine="cpu")
        equals_the_specification(graph, bicliques, blocks, top=20)


def test_ties_at_the_threshold_go_to_the_lower_key() -> None:
    """Up to 70 of a crown's 254 bicliques have equal sizes, and so the same surprise."""
    graph = graphs.crown(8)
    bicliques = keyed(graph)
    rng = np.random.default_rng(0)
    for top in (20, 35, 60, 100, 150, 200):
        keys = rng.permutation(np.array(list(bicliques), np.int64))
        blocks = [(block_of([bicliques[key] for key in part.tolist()]), part) for part in np.split(keys, [220, 235])]
        equals_the_specification(graph, bicliques, blocks, top)


def test_the_pool_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds some dozens of 4,094 bicliques in ascending order, where each is the best so far."""
    n_appended: list[int] = []
    keep = CandidateSink._keep

    def noted(sink: CandidateSink, rows: np.ndarray, found: Candidates) -> None:
        n_appended.append(rows.size)
        keep(sink, rows, found)

    monkeypatch.setattr(CandidateSink, "_keep", noted)
    graph = graphs.crown(12)
    bicliques = keyed(graph)
    ranked = np.array(best_first(graph, bicliques), np.int64)
    assert ranked.size == 2**12 - 2
    top, most_best = 5, graph.n_left + graph.n_right
    for n_blocks in (1, 20, 500):
        sink = CandidateSink(NullModel.of(graph), graph.n_left, graph.n_right, top)
        empty = sink.nbytes
        for keys in np.array_split(ranked[::-1], n_blocks):
            sink.accept(block_of([bicliques[key] for key in keys.tolist()]), keys.copy())
            # It is compacted when it holds twice the kept ones plus the top.
            most_rows = 2 * (top + most_best) + top + (top + most_best)
            assert sink.nbytes - empty <= most_rows * (12 * 4 + 4 * 8) + most_rows * 2 * 8
        assert max(n_appended) <= top + most_best
        assert sink.finish().keys[:top].tolist() == ranked[:top].tolist()


def test_permuted_ids_give_the_same_groups() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        matrix = graphs.random_matrix(seed, 9, 8, 0.5)
        left, right = rng.permutation(9), rng.permutation(8)
        graph, permuted = graphs.from_matrix(matrix), graphs.from_matrix(matrix[left][:, right])
        hashes = hashes_of(graph)
        _, found = taken_in(graph, blocks_of(keyed(graph), rng), top=3)
        of_permuted = keyed(permuted, (hashes[0][left], hashes[1][right]))
        sink, same = taken_in(permuted, blocks_of(of_permuted, rng), top=3)
        assert same.keys.tolist() == found.keys.tolist()
        assert same.surprise.tolist() == found.surprise.tolist()
        for one, other in zip(found.members, same.members, strict=True):
            assert one[0].tolist() == sorted(left[other[0]])
            assert one[1].tolist() == sorted(right[other[1]])
        assert sink.left_best.max() < len(same)


def test_it_continues_after_a_read() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(7, 10, 10, 0.5))
    bicliques = keyed(graph)
    sink = CandidateSink(NullModel.of(graph), graph.n_left, graph.n_right, top=2)
    for keys in np.array_split(np.array(list(bicliques), np.int64), 6):
        sink.accept(block_of([bicliques[key] for key in keys.tolist()]), keys.copy())
        sink.finish()
    assert sink.finish().keys.tolist() == candidates_of_sets(graph, bicliques, 2)


def test_sinks_of_disjoint_bicliques_merge() -> None:
    """Merge in any order, some read before, and add one more block after the merge."""
    for seed, graph in enumerate(small_graphs(120)):
        rng = np.random.default_rng(seed)
        bicliques, top = keyed(graph), int(rng.integers(1, 12))
        n_sinks, model = int(rng.integers(1, 5)), NullModel.of(graph)
        sinks = [CandidateSink(model, graph.n_left, graph.n_right, top) for _ in range(n_sinks)]
        blocks = list(blocks_of(bicliques, rng))
        late = blocks[-1:] if seed % 2 else []
        for block, keys in blocks[: len(blocks) - len(late)]:
            sinks[rng.integers(0, n_sinks)].accept(block, keys)
        one, *others = (sinks[i] for i in rng.permutation(n_sinks))
        for other in others:
            if rng.random() < 0.5:
                other.finish()
            before = other.finish() if rng.random() < 0.2 else None
            one.merge(other)
            assert before is None or other.finish().keys.tolist() == before.keys.tolist()
        equals_the_specification(graph, bicliques, late, top, sink=one)


def test_sinks_of_other_graphs_are_not_merged() -> None:
    graph, other = graphs.crown(5), graphs.path(9)
    sink = CandidateSink(NullModel.of(graph), 5, 5, top=3)
    with pytest.raises(InvalidArgument, match="is this sink itself"):
        sink.merge(sink)
    with pytest.raises(InvalidArgument, match="the top of the other sink is 4: expected 3"):
        sink.merge(CandidateSink(NullModel.of(graph), 5, 5, top=4))
    with pytest.raises(InvalidArgument, match="of a graph of other degrees"):
        sink.merge(CandidateSink(NullModel.of(other), other.n_left, other.n_right, top=3))


def test_no_biclique() -> None:
    sink, found = taken_in(graphs.star(3), [], top=5)
    assert (len(found), sink.left_best.tolist(), sink.right_best.tolist()) == (0, [-1, -1, -1], [-1])
    assert (sink.left_share.tolist(), sink.n_bicliques_of_right.tolist()) == ([0, 0, 0], [0])


def test_what_does_not_fit_is_refused() -> None:
    graph = graphs.star(3)
    model = NullModel.of(graph)
    with pytest.raises(InvalidArgument, match="top is 0: expected 1 or more"):
        CandidateSink(model, 3, 1, top=0)
    with pytest.raises(InvalidArgument, match="n_left and n_right are 3 and 2: the model is of a graph of 3 and 1"):
        CandidateSink(model, 3, 2)
    with pytest.raises(InvalidArgument, match="their product, which bounds the shares of vertices"):
        CandidateSink(replace(model, n_edges=2**62), 3, 1)
    sink = CandidateSink(model, 3, 1)
    with pytest.raises(TypeError, match=r"Detail\.MEMBERS"):
        sink.accept(BicliqueBlock(1), np.array([1]))
    with pytest.raises(InvalidArgument, match="a biclique has 4 members on a side where degrees allow 3"):
        sink.accept(block_of([((0, 1, 2, 3), (0,))]), np.array([1]))
