"""The undirected graph in CSR form: what is dropped, what is kept, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import InvalidArgument, UndirectedCSR


def test_loops_and_duplicates_are_no_edges_and_their_vertices_stay() -> None:
    graph = UndirectedCSR.from_edges([2, 0, 0, 1, 3, 3], [2, 1, 1, 0, 1, 3])
    assert (graph.n, graph.n_edges) == (4, 2)
    assert [graph.neighbours(v).tolist() for v in range(4)] == [[1], [0, 3], [], [1]]
    assert graph.degrees.tolist() == [1, 2, 0, 1]
    assert [side.tolist() for side in graph.edges()] == [[0, 1], [1, 3]]


def test_the_arrays_have_the_stated_types() -> None:
    for graph in (UndirectedCSR.from_edges([], []), UndirectedCSR.from_edges(np.array([5], np.uint8), [3], n=9)):
        assert (graph.offsets.dtype, graph.members.dtype) == (np.int64, np.int32)
        assert graph.offsets.size == graph.n + 1
        assert graph.is_on_host
        assert graph.nbytes == graph.offsets.nbytes + graph.members.nbytes


def test_neighbours_ascend_whatever_the_order_of_the_edges() -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 40, (2, 600))
    graph = UndirectedCSR.from_edges(src, dst)
    wanted = {(a, b) for a, b in zip(src.tolist(), dst.tolist(), strict=True) if a != b}
    wanted |= {(b, a) for a, b in wanted}
    assert {(v, int(u)) for v in range(graph.n) for u in graph.neighbours(v)} == wanted
    assert all((np.diff(graph.neighbours(v)) > 0).all() for v in range(graph.n))


def test_the_checksum_tells_graphs_apart_and_not_how_they_were_given() -> None:
    one = UndirectedCSR.from_edges([0, 1], [1, 2])
    assert one.edges_checksum == UndirectedCSR.from_edges([2, 1, 1], [1, 0, 2]).edges_checksum
    assert one.edges_checksum != UndirectedCSR.from_edges([0, 0], [1, 2]).edges_checksum
    assert one.edges_checksum != UndirectedCSR.from_edges([0, 1], [1, 2], n=4).edges_checksum


@pytest.mark.parametrize(
    ("src", "dst", "n", "message"),
    [
        ([0, 1], [1], None, "src has 2 entries and dst 1"),
        ([[0]], [[1]], None, "src has 2 dimensions"),
        ([0.5], [1], None, "src has dtype float64"),
        ([0], [-1], None, "dst holds the negative id -1"),
        ([0], [2**31], None, f"dst holds {2**31}"),
        ([0], [4], 4, "n is 4, but the ids reach 4: expected at least 5"),
    ],
)
def test_what_is_no_graph_is_refused(src: list, dst: list, n: int | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        UndirectedCSR.from_edges(src, dst, n=n)
