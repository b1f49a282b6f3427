"""Association rules without redundant ones, from closed itemsets and their minimal generators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueTable, TableSink
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.itemsets.covers import covers
from mbe_stage.options import Execution
from mbe_stage.pipeline.itemsets.baskets import baskets_of, least_of
from mbe_stage.pipeline.itemsets.closed import lists_of
from mbe_stage.ragged import long_offsets


def association_rules(
    data: Any, min_support: float = 0.01, min_confidence: float = 0.8, *, engine: str = AUTO, threads: int = 0
) -> pa.Table:
    """Return the minimal non-redundant association rules of baskets.

    A rule is redundant if another rule has the same support and confidence, an antecedent within its antecedent, and a
    consequent that contains its consequent. The remaining rules lead from a minimal generator G of a closed itemset to
    the rest of a closed itemset that contains G: the generic basis of exact rules, and the informative basis of the
    others. Every other rule, with its support and confidence, follows from these.

    Parameters
    ----------
    data, min_support, engine, threads
        See `closed_itemsets`.
    min_confidence : float
        Minimum share of the transactions with the antecedent that also have the consequent, above 0 and at most 1.

    Returns
    -------
    pa.Table
        One row per rule, in an order that does not depend on the engine: the lists `antecedent` and `consequent`;
        `antecedent_support`, `consequent_support` and `support`, numbers of transactions; `confidence`, `lift` and
        `leverage`, as mlxtend defines them. Rules with an empty antecedent are left out: they say no more than the
        support of the consequent.

    Raises
    ------
    InvalidArgument, InputError
        See `closed_itemsets`.

    References
    ----------
    Bastide, Pasquier, Taouil, Stumme and Lakhal, "Mining minimal non-redundant association rules using frequent closed
    itemsets", CL 2000.

    Examples
    --------
    >>> rules = association_rules([["tea", "milk"], ["tea"], ["milk", "tea"]], 2, 0.9, engine="reference")
    >>> rules["antecedent"].to_pylist(), rules["consequent"].to_pylist(), rules["confidence"].to_pylist()
    ([['milk']], [['tea']], [1.0])
    """
    if not 0 < min_confidence <= 1:
        raise InvalidArgument(f"min_confidence is {min_confidence!r}: expected a share above 0 and at most 1")
    baskets = baskets_of(data)
    least = least_of(min_support, baskets.n_rows)
    graph, kept = baskets.frequent(least)
    closed = closed_with_covers(graph, least, engine, threads)
    return rules_of(*closed, min_confidence, [baskets.names[item] for item in kept.tolist()], graph.n_left)


def closed_with_covers(
    graph: BipartiteCSR, least: int, engine: str, threads: int
) -> tuple[BicliqueTable, np.ndarray, np.ndarray]:
    """Return all closed sets in at least `least` transactions, even an empty one, and the result of `covers`."""
    sink = TableSink()
    enumerate_into(sink, graph, BicliqueQuery(min_left=least), Execution(threads=threads), engine)
    closed = sink.table()
    if graph.n_left and not (np.diff(closed.left_offsets) == graph.n_left).any():
        closed = GroupMembers.joined([closed, GroupMembers.of([(range(graph.n_left), ())])])
    return closed, *covers(graph, closed, least)


def rules_of(
    closed: BicliqueTable,
    smaller: np.ndarray,
    larger: np.ndarray,
    min_confidence: float,
    names: Sequence[Any],
    n_rows: int,
) -> pa.Table:
    """Return the rules of closed sets in `n_rows` transactions, as `association_rules`.

    Parameters
    ----------
    closed, smaller, larger
        The results of `closed_with_covers`.
    names : sequence
        The name of each item.
    """
    rules = sorted(_Closed.of(closed, smaller, larger).rules(min_confidence))
    columns: dict[str, Any] = {}
    for at, side in enumerate(("antecedent", "consequent")):
        lists = [[bit.bit_length() - 1 for bit in _bits(rule[at])] for rule in rules]
        offsets = long_offsets(np.fromiter(map(len, lists), np.int64, len(lists)))
        members = np.fromiter((item for each in lists for item in each), np.int64, int(offsets[-1]))
        columns[side] = lists_of(names, offsets, members)
    of_antecedent, of_consequent, both = np.array([rule[2:] for rule in rules], np.int64).reshape(-1, 3).T
    shares = of_consequent / max(1, n_rows)
    confidence = both / of_antecedent
    return pa.table(
        {
            **columns,
            "antecedent_support": of_antecedent,
            "consequent_support": of_consequent,
            "support": both,
            "confidence": confidence,
            "lift": confidence / shares,
            "leverage": both / max(1, n_rows) - of_antecedent / max(1, n_rows) * shares,
        }
    )


@dataclass(frozen=True, slots=True)
class _Closed:
    """Closed itemsets and their cover relation; a set of items is an integer with one bit per item.

    Attributes
    ----------
    items, supports : list of int
        Items and support of each closed set.
    below, above : list of list of int
        The closed sets that each one covers, and the sets that cover it.
    """

    items: list[int]
    supports: list[int]
    below: list[list[int]]
    above: list[list[int]]

    @classmethod
    def of(cls, closed: BicliqueTable, smaller: np.ndarray, larger: np.ndarray) -> _Closed:
        below: list[list[int]] = [[] for _ in range(len(closed))]
        above: list[list[int]] = [[] for _ in range(len(closed))]
        for low, high in zip(smaller.tolist(), larger.tolist(), strict=True):
            below[high].append(low)
            above[low].append(high)
        members, ends = closed.right_members.tolist(), closed.right_offsets.tolist()
        items = [sum(1 << item for item in members[start:end]) for start, end in pairwise(ends)]
        return cls(items, np.diff(closed.left_offsets).tolist(), below, above)

    def rules(self, min_confidence: float) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield each rule: antecedent, consequent, and the supports of antecedent, consequent and both."""
        for row, support in enumerate(self.supports):
            reached = None
            for generator in self.generators(row):
                if not generator:
                    continue
                reached = self._reached(row, min_confidence) if reached is None else reached
                for whole in reached:
                    if consequent := self.items[whole] & ~generator:
                        n_consequent = self.supports[self._closure(consequent, whole)]
                        yield generator, consequent, support, n_consequent, self.supports[whole]

    def generators(self, row: int) -> list[int]:
        """Return the minimal sets of items with this closure.

        These are the minimal sets that share an item with each difference between the closed set and a set that it
        covers. The differences are added one by one.
        """
        found = [0]
        for low in self.below[row]:
            difference = self.items[row] & ~self.items[low]
            hitting = [each for each in found if each & difference]
            more = [each | bit for each in found if not each & difference for bit in _bits(difference)]
            found = hitting + [each for each in more if not any(known & ~each == 0 for known in hitting)]
        return found

    def _reached(self, row: int, min_confidence: float) -> list[int]:
        """Return the closed supersets with enough of its support, including itself."""
        support, found = self.supports[row], {row: None}
        waiting = [row]
        while waiting:
            for high in self.above[waiting.pop()]:
                if high not in found and self.supports[high] / support >= min_confidence:
                    found[high] = None
                    waiting.append(high)
        return list(found)

    def _closure(self, items: int, row: int) -> int:
        """Return the smallest closed set that contains some items of a closed set, searching down from there."""
        while (low := next((low for low in self.below[row] if not items & ~self.items[low]), None)) is not None:
            row = low
        return row


def _bits(items: int) -> Iterator[int]:
    while items:
        yield items & -items
        items &= items - 1
