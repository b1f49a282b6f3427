"""Products of an adjacency matrix with its transpose, some rows at once: the neighbours that pairs of rows share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_array, csr_array

from mbe_stage.pipeline.edges import EdgeData

_PRODUCTS_AT_ONCE = 20_000_000


def matrix_of(edges: EdgeData) -> csr_array:
    """Return the adjacency matrix, of ones: rows are left vertices, columns right ones."""
    ones, shape = np.ones(edges.left_ids.size, np.int64), (len(edges.left_keys), len(edges.right_keys))
    return csr_array((ones, (edges.left_ids, edges.right_ids)), shape)


def rows_of(offsets: np.ndarray, members: np.ndarray, n: int) -> csr_array:
    """Return lists of members, of `n` possible ones, as rows of ones."""
    return csr_array((np.ones(members.size, np.int64), members, offsets), (offsets.size - 1, n))


def full(counts: csr_array, wanted: np.ndarray) -> csr_array:
    """Return the entries of each row that have its wanted count, as ones in ascending order."""
    counts = counts.tocsr()
    counts.data = (counts.data == np.repeat(wanted, np.diff(counts.indptr))).astype(np.int64)
    counts.eliminate_zeros()
    counts.sort_indices()
    return counts


def products_before(side: csr_array) -> np.ndarray:
    """Return the number of products before each row, and of all rows: (n_rows + 1,) int64."""
    degrees = np.bincount(side.indices, minlength=side.shape[1]).astype(np.int64)
    return np.concatenate([[0], np.cumsum(degrees[side.indices])])[side.indptr]


def shared_of_rows(side: csr_array, before: np.ndarray) -> Iterator[tuple[int, coo_array]]:
    """Yield the products of consecutive rows with all rows, and the first row; `before` is `products_before`."""
    transposed, first = side.T.tocsr(), 0
    while first < side.shape[0]:
        end = max(first + 1, int(np.searchsorted(before, before[first] + _PRODUCTS_AT_ONCE, side="right")) - 1)
        yield first, (side[first:end] @ transposed).tocoo()
        first = end
