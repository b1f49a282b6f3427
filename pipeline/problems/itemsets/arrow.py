"""Closed itemsets in host memory: their rows, their sums and the sink that writes them beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.pipeline.backends.arrow.member_rows import BlockRows, MemberRows
from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums, Summaries
from mbe_stage.pipeline.backends.arrow.worker_parts import sink_within
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.itemsets.schemas import ITEMSETS


@dataclass(frozen=True, slots=True, eq=False)
class _Rows(MemberRows):
    """Rows with a support, which a block has as left sizes."""

    def block_of(self, batch: pa.RecordBatch) -> tuple[BicliqueBlock, np.ndarray]:
        """Return the block of some rows, and its keys."""
        support, sizes, keys = (np.array(batch[name].to_numpy()) for name in ("support", "n_items", "itemset_key"))
        members = np.array(batch["items"].flatten().to_numpy())
        return BicliqueBlock(batch.num_rows, support, sizes, None, members), keys


def _lists_of(block: BicliqueBlock) -> tuple[Any, ...]:
    return ((block.right_sizes, block.right_offsets, block.right_members),)


ROWS = _Rows(
    ITEMSETS,
    "itemset_key",
    {"items": "n_items"},
    BicliqueBlock,
    _lists_of,
    others=lambda block: {"support": pa.array(block.left_sizes)},
)
"""The table `itemsets`."""


class Summary(LockedSums):
    """Sums over all itemsets of a run; threads add one block at a time.

    Attributes
    ----------
    n_itemsets : (n_items,) int64
        The itemsets that hold each item.
    members, max_items : int
        Sum and maximum of the numbers of items.
    """

    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.n_itemsets = np.zeros(n_items, np.int64)
        self.members = self.max_items = 0

    @property
    def n_bytes(self) -> int:
        """The bytes that it holds."""
        return self.n_itemsets.nbytes

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Add one block and the keys of its itemsets."""
        assert block.right_members is not None
        assert block.right_sizes is not None
        with self._lock:
            self.fingerprint.add(keys)
            self.n_itemsets += np.bincount(block.right_members, minlength=self.n_itemsets.size)
            self.members += block.right_members.size
            self.max_items = max(self.max_items, int(block.right_sizes.max(initial=0)))

    def merge(self, other: Summary) -> None:
        """Add the sums over a disjoint part of the itemsets."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.n_itemsets += other.n_itemsets
            self.members += other.members
            self.max_items = max(self.max_items, other.max_items)


def itemset_keys(block: BicliqueBlock, hashes: np.ndarray) -> np.ndarray:
    """Return the key of each itemset, (n,) int64: the key of a biclique with these right vertices and no left ones."""
    none = np.zeros(block.n_bicliques, np.int32), np.empty(0, np.int32)
    rows = BicliqueBlock(block.n_bicliques, none[0], block.right_sizes, none[1], block.right_members)
    return biclique_keys(rows, hashes, hashes)


class ParquetSink(RowSink[Summary]):
    """Writes `itemsets/` under a run path; keeps a `Summary`.

    Parameters
    ----------
    hashes : (n_items,) uint64
        Vertex hashes of the items.
    derived : sequence of DerivedCollector
        Collectors that take each block too, with its keys.
    **writing
        As `RowSink` takes it.
    """

    detail: Literal[Detail.RIGHT] = Detail.RIGHT

    def __init__(
        self, run_path: Path, hashes: np.ndarray, *, derived: Sequence[DerivedCollector] = (), **writing: Any
    ) -> None:
        keys = partial(itemset_keys, hashes=hashes)
        rows = BlockRows(ROWS, keys, (hashes.size,), Summaries(partial(Summary, hashes.size)), derived)
        super().__init__(rows, run_path, {"itemsets": ITEMSETS}, **writing)


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    output, (_, hashes) = collecting.config.output, collecting.edges.key_hashes()
    return sink_within(
        collecting, partial(ParquetSink, hashes=hashes, compression=output.compression, sort=output.sort)
    )
