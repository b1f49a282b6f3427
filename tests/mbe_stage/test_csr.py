"""Conversions of adjacency arrays, compared with dense matrices."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BipartiteCSR
from mbe_stage.graphs.csr import filtered, reordered, transposed


def random_matrix(seed: int, n_rows: int, n_columns: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.random((n_rows, n_columns)) < random.random()


def graph_of(matrix: np.ndarray) -> BipartiteCSR:
    return BipartiteCSR.from_edges(*np.nonzero(matrix), *matrix.shape)


def assert_rows_are(offsets: np.ndarray, members: np.ndarray, matrix: np.ndarray) -> None:
    expected = graph_of(matrix)
    assert (offsets.dtype, members.dtype) == (np.int64, np.int32)
    assert offsets.tolist() == expected.left_offsets.tolist()
    assert members.tolist() == expected.left_members.tolist()


sizes = st.integers(0, 12)


@given(st.integers(0, 2**32 - 1), sizes, sizes)
@settings(max_examples=200, deadline=None)
def test_filtered_rows_are_those_of_the_submatrix(seed: int, n_rows: int, n_columns: int) -> None:
    matrix, random = random_matrix(seed, n_rows, n_columns), np.random.default_rng(seed + 1)
    rows, columns = random.random(n_rows) < 0.7, random.random(n_columns) < 0.7
    graph = graph_of(matrix)
    found = filtered(graph.left_offsets, graph.left_members, rows, columns, np.cumsum(columns) - 1)
    assert_rows_are(*found, matrix[rows][:, columns])


@given(st.integers(0, 2**32 - 1), sizes, sizes)
@settings(max_examples=200, deadline=None)
def test_reordered_and_transposed_rows(seed: int, n_rows: int, n_columns: int) -> None:
    matrix, graph = random_matrix(seed, n_rows, n_columns), graph_of(random_matrix(seed, n_rows, n_columns))
    order = np.random.default_rng(seed + 1).permutation(n_rows)
    offsets, members = reordered(graph.left_offsets, graph.left_members, order)
    assert_rows_are(offsets, members, matrix[order])
    assert_rows_are(graph.right_offsets, transposed(offsets, members, graph.right_offsets), matrix[order].T)
