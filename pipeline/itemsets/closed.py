"""Closed and maximal frequent itemsets of baskets in memory: as an Arrow table, as lists, and as mlxtend's frames."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import RightSink
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.itemsets.covers import maximal_of, rows_of
from mbe_stage.options import Execution
from mbe_stage.pipeline.itemsets.baskets import Baskets, baskets_of, is_frame, least_of

__all__ = ["closed_itemset_lists", "closed_itemsets", "fpclose"]


@dataclass(frozen=True, slots=True, eq=False)
class Itemsets:
    """Itemsets as arrays.

    Attributes
    ----------
    supports : (n,) int32
        Transactions of each set.
    offsets : (n + 1,) int64
    members : int32
        Positions in `names`, set after set.
    names : sequence
        Names of the items in any set.
    """

    supports: np.ndarray
    offsets: np.ndarray
    members: np.ndarray
    names: Sequence[Any]

    def made(self, kind: Callable[[Any], Any] = tuple) -> list[Any]:
        """Return the names of each set as a collection of a kind; a long tuple is cut, which is fast."""
        names = np.fromiter(self.names, object, len(self.names))
        ends, flat = self.offsets.tolist(), tuple(names[self.members].tolist())
        return [kind(flat[start:end]) for start, end in pairwise(ends)]

    def table(self) -> pa.Table:
        """Return the columns `items` and `support`.

        Raises
        ------
        InvalidArgument
            Names are neither integers nor text.
        """
        lists = lists_of(self.names, self.offsets, self.members)
        return pa.table({"items": lists, "support": pa.array(self.supports, pa.int64())})


def lists_of(names: Sequence[Any], offsets: np.ndarray, members: np.ndarray) -> pa.Array:
    """Return lists of names as an Arrow array; `members` are positions of names.

    Raises
    ------
    InvalidArgument
        Names are neither integers nor text.
    """
    try:
        values = pa.array(names)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgument(
            f"items cannot be a column ({error}): expected integers alone, or text alone; convert them, or call "
            "closed_itemset_lists"
        ) from None
    values = (values if len(values) else values.cast(pa.int64())).take(pa.array(members))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)


def closed_itemsets(
    data: Any,
    min_support: float = 0.01,
    *,
    maximal: bool = False,
    max_len: int | None = None,
    engine: str = AUTO,
    threads: int = 0,
) -> pa.Table:
    """Return the closed itemsets of baskets: those without a superset in as many transactions.

    Parameters
    ----------
    data
        A list of transactions, each a list of items; a one-hot pandas DataFrame or 2-D NumPy array; a SciPy sparse
        matrix, whose rows are transactions; a `BipartiteCSR`, whose left side they are; or edges of transactions and
        items as `mbe_stage.pipeline.run` takes them: a table, a pair of arrays, or the path of a file.
    min_support : float or int
        An integer is a number of transactions; a float is a share of all transactions, including those without items,
        and means the smallest number n with ``n / n_transactions >= min_support``.
    maximal : bool
        Only maximal ones: no superset has the minimum support.
    max_len : int, optional
        Only sets of at most this many items. Larger ones are left out, and not replaced by subsets.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 uses every core.

    Returns
    -------
    pa.Table
        One row per set, in no order: `items`, a list, and `support`, a number of transactions. The empty set is left
        out. If some items are in all transactions, the set of these is listed.

    Raises
    ------
    InvalidArgument
        The object or an option cannot be used.
    InputError
        A file or table cannot be read.

    Examples
    --------
    >>> table = closed_itemsets([["tea", "milk"], ["tea"], ["milk", "tea", "rice"]], 2, engine="reference")
    >>> sorted(zip(table["items"].to_pylist(), table["support"].to_pylist()))
    [(['tea'], 3), (['tea', 'milk'], 2)]
    """
    baskets = baskets_of(data)
    return found(baskets, least_of(min_support, baskets.n_rows), maximal, max_len, engine, threads).table()


def closed_itemset_lists(
    data: Any,
    min_support: float = 0.01,
    *,
    maximal: bool = False,
    max_len: int | None = None,
    engine: str = AUTO,
    threads: int = 0,
) -> list[tuple[tuple[Hashable, ...], int]]:
    """Return closed itemsets as a list of items and support, as pyFIM does; items may be any hashable objects.

    Parameters
    ----------
    data, min_support, maximal, max_len, engine, threads
        See `closed_itemsets`.

    Raises
    ------
    InvalidArgument, InputError
        See `closed_itemsets`.

    Examples
    --------
    >>> sorted(closed_itemset_lists([[1, 2], [1], [2, 1, 3]], 2, engine="reference"))
    [((1,), 3), ((1, 2), 2)]
    """
    baskets = baskets_of(data)
    sets = found(baskets, least_of(min_support, baskets.n_rows), maximal, max_len, engine, threads)
    with _without_garbage_collection():
        return list(zip(sets.made(), sets.supports.tolist(), strict=True))


def fpclose(
    df: Any, min_support: float = 0.5, use_colnames: bool = False, max_len: int | None = None, *, threads: int = 0
) -> Any:
    """Return the closed itemsets of a one-hot frame, as a frame like those of mlxtend's `fpgrowth` and `fpmax`.

    Parameters
    ----------
    df : pandas.DataFrame
        A row per transaction, a column per item; 0 and 1, or booleans; dense or sparse columns.
    min_support : float
        Share of the rows, above 0 and at most 1.
    use_colnames : bool
        Name items by the columns instead of their positions.
    max_len : int, optional
        Only closed sets of at most this many items; no others are added.
    threads : int
        0 uses every core.

    Returns
    -------
    pandas.DataFrame
        Columns `support`, a share, and `itemsets`, frozensets.

    Raises
    ------
    InvalidArgument
        The frame or an option cannot be used.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"tea": [1, 1, 1], "milk": [1, 0, 1]})
    >>> fpclose(frame, 0.6, use_colnames=True)["support"].round(2).sort_values().to_list()
    [0.67, 1.0]
    """
    if not is_frame(df):
        raise InvalidArgument(f"df is of type {type(df).__name__}: expected a pandas DataFrame of 0 and 1")
    baskets = baskets_of(df)
    if not use_colnames:
        baskets = replace(baskets, names=range(len(baskets.names)))
    sets = found(baskets, least_of(float(min_support), baskets.n_rows), False, max_len, AUTO, threads)
    with _without_garbage_collection():
        itemsets = sets.made(frozenset)
    return type(df)({"support": sets.supports / baskets.n_rows, "itemsets": itemsets})


def found(
    baskets: Baskets, least: int, maximal: bool, max_len: int | None, engine: str = AUTO, threads: int = 0
) -> Itemsets:
    """Return the closed itemsets in at least `least` transactions.

    Parameters
    ----------
    maximal, max_len, engine, threads
        See `closed_itemsets`.
    """
    graph, kept = baskets.frequent(least, has_all_rows=False)
    items = rows_of(graph.left_offsets, graph.left_members, graph.n_right) if maximal else None
    sink = RightSink(None if items is None else lambda block: maximal_of(items, block, least))
    query = BicliqueQuery(min_left=least, max_right=max_len)
    enumerate_into(sink, graph, query, Execution(threads=threads), engine)
    return Itemsets(*sink.arrays(), [baskets.names[item] for item in kept.tolist()])


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: many small objects are made, and each pass would visit all of them in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                # This makes the new objects old. Otherwise the next collection visits them, for a third of the time.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
