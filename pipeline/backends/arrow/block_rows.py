"""Blocks of results in host memory on their way to rows: named and summed up, whatever the rows are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.summaries import Summaries

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import DerivedCollector

__all__ = ["BlockRows"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """What makes rows of a problem's blocks, and who takes the blocks in beside.

    Attributes
    ----------
    keys : callable
        Takes a block, and gives what names its results: (n,) int64.
    batch : callable
        Takes a block and its keys, and gives their rows.
    n_bytes : callable
        Takes a block, and gives the bytes of its members.
    block_of : callable
        Takes such rows, and gives the block that they were made of, and its keys.
    members : mapping of str to (str, int)
        The columns of members: by name, the column of their numbers, and how many vertices there are.
    summaries : Summaries
        Takes each block and its keys in.
    derived : sequence of DerivedCollector
        Who else does.
    """

    keys: Callable[[Any], np.ndarray]
    batch: Callable[[Any, np.ndarray], pa.RecordBatch]
    n_bytes: Callable[[Any], int]
    block_of: Callable[[pa.RecordBatch], tuple[Any, np.ndarray]]
    members: Mapping[str, tuple[str, int]]
    summaries: Summaries[Any]
    derived: Sequence[DerivedCollector] = ()

    def named(self, block: Any) -> np.ndarray:
        """The keys of a block, once all have taken it in."""
        keys = self.keys(block)
        self._take_in(block, keys)
        return keys

    def of(self, block: Any) -> pa.RecordBatch:
        """The rows of a block, once all have taken it in."""
        return self.batch(block, self.named(block))

    def take_back(self, batch: pa.RecordBatch) -> None:
        """Have all take in what an earlier process has made these rows of."""
        self._take_in(*self.block_of(batch))

    def derive(self, batch: pa.RecordBatch) -> None:
        """Have derived outputs alone take in what a worker has made these rows of: it has summed them up."""
        self._derive(*self.block_of(batch))

    def _take_in(self, block: Any, keys: np.ndarray) -> None:
        self.summaries.add(block, keys)
        self._derive(block, keys)

    def _derive(self, block: Any, keys: np.ndarray) -> None:
        for each in self.derived:
            each.accept(block, keys)
