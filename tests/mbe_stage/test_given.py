"""Input of library callers: whole numbers in queries, and valid graphs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from mbe_stage import (
    BicliqueQuery,
    BipartiteCSR,
    CliqueQuery,
    InvalidArgument,
    UndirectedCSR,
    count_maximal_cliques,
    enumerate_bicliques,
    enumerate_maximal_cliques,
    find_cliques,
)
from mbe_stage.pq_counts.count import count_pq_bicliques, pq_local_counts
from mbe_stage.pq_counts.query import PqQuery

FAR = ([0], [2**31 - 2])


@pytest.mark.parametrize("value", [2.5, 1.0, True, "3", None, np.float64(2), np.True_, [1]], ids=repr)
@pytest.mark.parametrize(
    ("query", "name", "others"),
    [
        (CliqueQuery, "min_size", {}),
        (BicliqueQuery, "min_left", {}),
        (BicliqueQuery, "min_edges", {}),
        (PqQuery, "max_q", {"min_p": 1, "max_p": 1, "min_q": 1}),
    ],
)
def test_bounds_are_integers(query: Any, name: str, others: dict[str, int], value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name} is .*, of type {type(value).__name__}: expected an integer"):
        query(**others, **{name: value})
    asked = query(**others, **{name: np.uint8(3)})
    assert type(getattr(asked, name)) is int
    assert asked == query(**others, **{name: 3})


@pytest.mark.parametrize("value", [2.5, True, "3"], ids=repr)
@pytest.mark.parametrize(("query", "name"), [(CliqueQuery, "max_size"), (BicliqueQuery, "max_right")])
def test_largest_sizes_are_integers_or_none(query: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} is .*: expected an integer"):
        query(**{name: value})
    assert getattr(query(**{name: None}), name) is None


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (CliqueQuery, "containing"),
        (BicliqueQuery, "containing_right"),
        (lambda **asked: PqQuery(1, 2, 1, 2, **asked), "containing_left"),
    ],
)
def test_required_members_are_integers(query: Any, name: str) -> None:
    for ids in ((1.9,), [True], ("1",), np.array([0.5])):
        with pytest.raises(InvalidArgument, match=f"an id of {name} is .*: expected an integer"):
            query(**{name: ids})
    for ids in (3, "12", None):
        with pytest.raises(InvalidArgument, match=rf"{name} is {ids!r}, .*: expected a sequence of dense ids"):
            query(**{name: ids})
    assert getattr(query(**{name: np.array([4, 1])}), name) == (4, 1)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_no_engine_truncates_an_id(engine: str) -> None:
    with pytest.raises(InvalidArgument, match=r"an id of containing is 1\.9"):
        enumerate_maximal_cliques(([0, 1], [1, 2]), containing=(1.9,), engine=engine)  # type: ignore[arg-type]


EDGES = np.array([[0, 1], [1, 2], [2, 0]])


@pytest.mark.parametrize(
    ("graph", "kind"),
    [
        (EDGES, r"ndarray of shape \(3, 2\)"),
        (EDGES.tolist(), "list of 3 entries"),
        (scipy.sparse.coo_array(np.eye(3)), "coo_array"),
        (42, "int"),
        ("edges.txt", "str"),
    ],
    ids=["array", "list", "matrix", "number", "path"],
)
def test_invalid_graphs_are_refused_with_the_right_function(graph: Any, kind: str) -> None:
    takes = r"\(edges\[:, 0\], edges\[:, 1\]\); mbe_stage\.pipeline\.run takes"
    for of_cliques in (enumerate_maximal_cliques, count_maximal_cliques, find_cliques):
        with pytest.raises(InvalidArgument, match=rf"graph is of type {kind}: expected UndirectedCSR, or .*{takes}"):
            of_cliques(graph)
    for of_sides in (
        enumerate_bicliques,
        lambda given: count_pq_bicliques(given, 2, 2),
        lambda given: pq_local_counts(given, 2, 2),
    ):
        with pytest.raises(InvalidArgument, match=rf"graph is of type {kind}: expected BipartiteCSR, or .*{takes}"):
            of_sides(graph)


@pytest.mark.parametrize("graph", [[(0, 1), (1, 2)], ((0, 1), (1, 2)), [[0, 1], [1, 2]], [(0, 1), [1, 2]]], ids=repr)
def test_an_ambiguous_pair_is_refused_with_both_readings(graph: Any) -> None:
    both = re.escape("give ([0, 1], [1, 2]) if these are edges, else ([0, 1], [1, 2])")
    for function in (enumerate_maximal_cliques, find_cliques, enumerate_bicliques):
        with pytest.raises(InvalidArgument, match=f"graph is .*, which could be two edges or two columns: .*{both}"):
            function(graph)
    with pytest.raises(InvalidArgument, match=re.escape("give ([0, 7], [1, 3]) if these are edges, else ([0, 1], [7")):
        count_maximal_cliques([(0, 1), (7, 3)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "graph",
    [
        ([0, 1], [1, 2]),
        [np.array([0, 1]), np.array([1, 2])],
        [(0, 1, 0), (1, 2, 1)],
        ((0, 1, 0), (1, 2, 1)),
        (range(2), range(1, 3)),
    ],
    ids=repr,
)
def test_two_columns_are_a_graph(graph: Any) -> None:
    found = enumerate_maximal_cliques(graph, engine="reference")
    assert set(found.as_set()) == {(0, 1), (1, 2)}
    assert len(enumerate_bicliques(graph, engine="reference")) == 2


def test_a_graph_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="graph is of type BipartiteCSR: expected UndirectedCSR"):
        count_maximal_cliques(BipartiteCSR.from_edges([0], [1]))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="graph is of type UndirectedCSR: expected BipartiteCSR"):
        enumerate_bicliques(UndirectedCSR.from_edges([0], [1]))  # type: ignore[arg-type]


def test_sparse_ids_are_refused_without_a_stated_number() -> None:
    says = r"reach 2,147,483,646 with only 1 edges.*np\.unique\(ids, return_inverse=True\), or pass {}"
    with pytest.raises(InvalidArgument, match="the ids " + says.format("n ")):
        enumerate_maximal_cliques(FAR)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="the right ids " + says.format("n_right ")):
        enumerate_bicliques(FAR)  # type: ignore[arg-type]
    assert UndirectedCSR.from_edges([0], [(1 << 22) - 1]).n == 1 << 22
    with pytest.raises(InvalidArgument, match=r"reach 4,194,304 with"):
        UndirectedCSR.from_edges([0], [1 << 22])
    assert UndirectedCSR.from_edges([0], [1 << 22], n=(1 << 22) + 1).n_edges == 1
    with pytest.raises(InvalidArgument, match=r"n is 3\.0, of type float: expected an integer"):
        UndirectedCSR.from_edges([0], [1], n=3.0)  # type: ignore[arg-type]
