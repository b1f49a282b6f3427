"""Closed itemsets in host memory: their rows, their sums and the sink that writes them while the engine searches."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows
from mbe_stage.pipeline.backends.arrow.row_sink import ListSink
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.itemsets.schemas import ITEMSETS


def _lists_of(block: BicliqueBlock) -> tuple[Any, ...]:
    return ((block.right_sizes, block.right_members),)


ROWS = MemberRows(
    ITEMSETS,
    "itemset_key",
    {"items": "n_items"},
    lambda n, support, sizes, members: BicliqueBlock(n, support, sizes, None, members),
    _lists_of,
    others=lambda block: {"support": pa.array(block.left_sizes)},
    numbers=("support",),
)
"""The table `itemsets`."""


class Summary(LockedSums):
    """Sums over all itemsets of a run; threads add one block at a time.

    Attributes
    ----------
    n_itemsets : (n_items,) int64
        Number of itemsets that contain each item.
    max_items : int
    """

    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.n_itemsets = np.zeros(n_items, np.int64)
        self.max_items = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return self.n_itemsets.nbytes

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Add one block and the keys of its itemsets."""
        assert block.right_members is not None
        assert block.right_sizes is not None
        with self._lock:
            self.fingerprint.add(keys)
            self.n_itemsets += np.bincount(block.right_members, minlength=self.n_itemsets.size)
            self.max_items = max(self.max_items, int(block.right_sizes.max(initial=0)))

    def merge(self, other: Summary) -> None:
        """Add the sums over a disjoint part of the itemsets."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.n_itemsets += other.n_itemsets
            self.max_items = max(self.max_items, other.max_items)


class ParquetSink(ListSink[Summary]):
    """Writes `itemsets/`."""

    detail: Literal[Detail.RIGHT] = Detail.RIGHT
    name, table, summary_of, is_left = "itemsets", ROWS, Summary, False


def sink_of(collecting: Collecting) -> ParquetSink:
    """Return the sink for the run's configuration."""
    return ParquetSink.within(collecting, collecting.edges.key_hashes()[1])
