"""`enumerate_many` compared with enumerating each graph alone."""

from collections import Counter

import numpy as np
import pytest

from mbe_stage import BicliqueQuery, InvalidArgument, ManyBicliques, enumerate_many
from mbe_stage.bicliques.reference import matches, maximal_bicliques
from mbe_stage.graphs.bipartite import BipartiteCSR

Found = Counter[tuple[object, tuple[int, ...], tuple[int, ...]]]


def found(many: ManyBicliques) -> Found:
    rows = (many.table[i] for i in range(len(many.table)))
    names = many.names[many.graphs].tolist()
    return Counter((name, tuple(left), tuple(right)) for name, (left, right) in zip(names, rows, strict=True))


def by_itself(graphs: np.ndarray, left: np.ndarray, right: np.ndarray, query: BicliqueQuery) -> Found:
    wanted: Found = Counter()
    for name in set(graphs.tolist()):
        rows = graphs == name
        graph = BipartiteCSR.from_edges(left[rows], right[rows])
        wanted.update((name, *sides) for sides in maximal_bicliques(graph) if matches(*sides, query))
    return wanted


def edges(seed: int, n_graphs: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return edges of small graphs of various density, some repeated, in any order."""
    rng = np.random.default_rng(seed)
    graphs = np.repeat(np.arange(n_graphs) * 7 - 50, rng.integers(1, 30, n_graphs))
    left, right = (rng.integers(0, rng.integers(1, 9, n_graphs))[(graphs + 50) // 7] for _ in range(2))
    left, right = (rng.integers(0, most + 1) for most in (left + 2, right + 2))
    order = rng.permutation(graphs.size) if seed % 2 else np.arange(graphs.size)
    return graphs[order], left[order], right[order]


@pytest.mark.parametrize("query", [BicliqueQuery(), BicliqueQuery(2, 2), BicliqueQuery(max_left=2, min_edges=3)])
@pytest.mark.parametrize("seed", [1, 2])
def test_each_graph_has_the_same_bicliques_as_alone(seed: int, query: BicliqueQuery) -> None:
    graphs, left, right = edges(seed)
    sizes = {name: getattr(query, name) for name in ("min_left", "min_right", "max_left", "max_right", "min_edges")}
    many = enumerate_many(graphs, left, right, engine="cpu", **sizes)
    assert found(many) == by_itself(graphs, left, right, query)
    assert many.names.tolist() == sorted(set(graphs.tolist()))
    assert not many.errors


def test_ids_with_gaps_and_names_of_text() -> None:
    graphs, left, right = edges(3, 40)
    names = np.array([f"shop {graph}" for graph in graphs])
    wanted = by_itself(names, left, right, BicliqueQuery())
    gap = 100_000_000
    many = enumerate_many(names.astype(object), left * gap, right, engine="cpu")
    assert found(many) == Counter({(n, tuple(gap * u for u in lefts), r): 1 for n, lefts, r in wanted})


@pytest.mark.parametrize("bad", [-1, 2**31 - 1, np.nan, 0.5])
def test_one_bad_graph_does_not_lose_the_others(bad: float) -> None:
    graphs, left, right = edges(5, 60)
    wanted = by_itself(graphs, left, right, BicliqueQuery())
    name, row = graphs[3], 3
    spoilt = left.astype(np.float64) if bad != int(bad if bad == bad else 0) else left.copy()
    spoilt[row] = bad
    many = enumerate_many(graphs, spoilt, right, engine="cpu")
    assert found(many) == Counter({each: n for each, n in wanted.items() if each[0] != name})
    assert list(many.errors) == [name]
    assert f"left_ids holds {spoilt[row]} in row 3" in many.errors[name]


def test_no_edges_only_bad_graphs_and_single_edges() -> None:
    assert found(enumerate_many([], [], [], engine="cpu")) == Counter()
    only_bad = enumerate_many(["x"], [None], [0], engine="cpu")
    assert (found(only_bad), list(only_bad.errors)) == (Counter(), ["x"])
    both = enumerate_many([4, 4, 9], [0, 0, 0], [1, 1, 1], engine="cpu")
    assert found(both) == {(4, (0,), (1,)): 1, (9, (0,), (1,)): 1}


def test_refusals() -> None:
    for graphs, row in (
        ([1, None], 1),
        ([2.0, np.nan], 1),
        (["a", "b", None], 2),
        ([None, "a"], 0),
        (np.array(["a", 5], object), 1),
        ([1, 2**63, 2**63 + 1], 1),
        (np.array([0, 2**64 - 1], np.uint64), 1),
        ([1e300, 2e300], 0),
        ([1, np.inf], 1),
        (np.array(["a", "a\0"], object), 1),
        ([b"a"], 0),
        ([True], 0),
    ):
        with pytest.raises(InvalidArgument, match=f"in row {row}: expected"):
            enumerate_many(graphs, [0] * len(graphs), [0] * len(graphs))
    with pytest.raises(InvalidArgument, match="graphs has 2 entries, left_ids has 1 entries, right_ids has 2"):
        enumerate_many([1, 1], [0], [0, 0])
    with pytest.raises(InvalidArgument, match="right_ids has dtype <U1"):
        enumerate_many([1], [0], ["a"])
    for edges_of_two in (([[1, 2]], [[0, 1]], [[0, 1]]), ("a", 0, 0), ([1], [[0]], [0])):
        with pytest.raises(InvalidArgument, match="dimensions: expected one entry per edge, a flat array"):
            enumerate_many(*edges_of_two)


def test_names_and_ids_of_any_kind_of_array() -> None:
    large = np.array([2**53 + 1, 2**53], object)
    for names in (large, large.astype(np.int64), np.array(["b", "ab"], np.dtypes.StringDType())):
        many = enumerate_many(names, np.array([0, 1.0], object), [3, 4], engine="cpu")
        assert found(many) == {(names[0], (0,), (3,)): 1, (names[1], (1,), (4,)): 1}
    assert found(enumerate_many(np.array([], str), np.array([], str), [], engine="cpu")) == Counter()
