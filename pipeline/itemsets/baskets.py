"""Baskets in memory as transactions of item numbers: one-hot tables, sparse matrices, lists, edges, files."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.ingest import ingest

_EXPECTED = (
    "expected a list of transactions, a one-hot DataFrame or array of 0 and 1, a SciPy sparse matrix, a BipartiteCSR, "
    "or what mbe_stage.pipeline.run reads: a table of edges, a pair of arrays, or a path"
)
# Integers up to this many times the number of entries are used as item numbers directly.
_SPARE_IDS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Baskets:
    """Transactions and their items.

    Attributes
    ----------
    rows, items : (n,) integers
        A transaction and one of its items; pairs may repeat.
    n_rows : int
        Number of transactions, including those without items.
    names : sequence
        The name of each item.
    """

    rows: np.ndarray
    items: np.ndarray
    n_rows: int
    names: Sequence[Any]

    def frequent(self, least: int, *, has_all_rows: bool = True) -> tuple[BipartiteCSR, np.ndarray]:
        """Return the graph of the items in at least `least` transactions, and the original number of each item.

        Transactions without these items may be left out: supports are the same, and the search is faster.
        """
        is_kept = np.bincount(self.items, minlength=len(self.names)) >= least
        kept, chosen = np.flatnonzero(is_kept), is_kept[self.items]
        rows, n_rows = self.rows[chosen], self.n_rows
        items = (np.cumsum(is_kept, dtype=np.int32) - 1)[self.items[chosen]]
        if not has_all_rows:
            is_used = np.zeros(n_rows, np.bool_)
            is_used[rows] = True
            rows, n_rows = (np.cumsum(is_used, dtype=np.int32) - 1)[rows], int(np.count_nonzero(is_used))
        return BipartiteCSR.from_edges(rows, items, n_rows, kept.size), kept


def least_of(min_support: Any, n_rows: int) -> int:
    """Return the minimum number of transactions: a float is a share above 0, at most 1; an integer is a number.

    A share means the smallest n with ``n / n_rows >= min_support`` in floating-point arithmetic, as in mlxtend.

    Raises
    ------
    InvalidArgument
        The support is neither a valid share nor a valid number.
    """
    is_count = isinstance(min_support, int | np.integer) and not isinstance(min_support, bool)
    if is_count and min_support >= 1:
        return int(min_support)
    if is_count or not isinstance(min_support, float | np.floating) or not 0 < min_support <= 1:
        raise InvalidArgument(
            f"min_support is {min_support!r}: expected a share of the transactions, a float above 0 and at most 1, or "
            "a number of transactions, an integer of 1 or more"
        )
    least = max(1, int(np.ceil(min_support * n_rows)))
    if least > 1 and (least - 1) / n_rows >= min_support:
        return least - 1
    return least + int(n_rows > 0 and least / n_rows < min_support)


def baskets_of(data: Any) -> Baskets:
    """Return the baskets in an object; a list has transactions, a pandas DataFrame is one-hot.

    Raises
    ------
    InvalidArgument
        The object holds no baskets, or one-hot values other than 0 and 1.
    InputError
        A file or table cannot be read.
    """
    if isinstance(data, BipartiteCSR):
        rows, items = data.edges()
        return Baskets(rows, items, data.n_left, range(data.n_right))
    if isinstance(data, list):
        return _of_lists(data)
    if scipy.sparse.issparse(data):
        return _of_sparse(data, range(data.shape[1]))
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return _of_dense(data, range(data.shape[1]))
    if is_frame(data):
        if hasattr(data, "sparse"):
            return _of_sparse(data.sparse.to_coo(), list(data.columns))
        return _of_dense(data.to_numpy(), list(data.columns))
    edges = data if isinstance(data, EdgeData) else ingest(InputConfig(), data)
    return Baskets(edges.left_ids, edges.right_ids, len(edges.left_keys), edges.right_keys.to_pylist())


def is_frame(data: Any) -> bool:
    """Return whether an object is a pandas DataFrame: one row per transaction, one column per item."""
    modules = [each.__module__.partition(".")[0] for each in type(data).__mro__]
    return "pandas" in modules and hasattr(data, "columns")


def _of_lists(transactions: list[Any]) -> Baskets:
    if transactions and isinstance(transactions[0], str | bytes):
        raise InvalidArgument(f"transaction 0 is {transactions[0]!r}: expected a list of its items; {_EXPECTED}")
    try:
        lengths = np.fromiter(map(len, transactions), np.int64, len(transactions))
        flat = list(chain.from_iterable(transactions))
    except TypeError as error:
        raise InvalidArgument(f"a transaction is no list of items ({error}): {_EXPECTED}") from None
    rows = np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)
    numbered = array("q")
    try:
        numbered.fromlist(flat)
    except (TypeError, OverflowError):
        numbers = dict(zip(dict.fromkeys(flat), range(len(flat)), strict=False))
        items = np.fromiter(map(numbers.__getitem__, flat), np.int64, len(flat))
        return Baskets(rows, items, lengths.size, list(numbers))
    items = np.frombuffer(numbered, np.int64)
    if items.size and not 0 <= items.min() <= items.max() < _SPARE_IDS * items.size:
        names, items = np.unique(items, return_inverse=True)
        return Baskets(rows, items, lengths.size, names.tolist())
    return Baskets(rows, items, lengths.size, range(int(items.max(initial=-1)) + 1))


def _of_sparse(matrix: Any, names: Sequence[Any]) -> Baskets:
    entries = scipy.sparse.coo_array(matrix)
    rows, items = entries.coords
    if not entries.data.all():
        rows, items = rows[entries.data != 0], items[entries.data != 0]
    return Baskets(rows, items, entries.shape[0], names)


def _of_dense(values: np.ndarray, names: Sequence[Any]) -> Baskets:
    if values.dtype.kind not in "biuf" or (values.dtype.kind != "b" and not ((values == 0) | (values == 1)).all()):
        raise InvalidArgument(
            f"a one-hot table of {values.dtype} holds other values than 0 and 1: expected these, or booleans; "
            "fill missing values, and turn numbers of pieces into values > 0"
        )
    rows, items = np.divmod(np.flatnonzero(values), max(1, values.shape[1]))
    return Baskets(rows.astype(np.int32), items, values.shape[0], names)
