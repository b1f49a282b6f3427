"""Rows from blocks of results in host memory: named and summed up, for any use of the rows."""

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
    """Converts a problem's blocks to rows, and passes the blocks to summaries and derived outputs.

    Attributes
    ----------
    keys : callable
        Takes a block, and returns the keys of its results: (n,) int64.
    batch : callable
        Takes a block and its keys, and returns their rows.
    n_bytes : callable
        Takes a block, and returns the bytes of its members.
    block_of : callable
        Takes such rows, and returns their block and its keys.
    members : mapping of str to (str, int)
        The columns of members: by name, the column of their numbers, and the number of vertices.
    summaries : Summaries
        Receives each block and its keys.
    derived : sequence of DerivedCollector
        Receives each block and its keys.
    """

    keys: Callable[[Any], np.ndarray]
    batch: Callable[[Any, np.ndarray], pa.RecordBatch]
    n_bytes: Callable[[Any], int]
    block_of: Callable[[pa.RecordBatch], tuple[Any, np.ndarray]]
    members: Mapping[str, tuple[str, int]]
    summaries: Summaries[Any]
    derived: Sequence[DerivedCollector] = ()

    def named(self, block: Any) -> np.ndarray:
        """Return the keys of a block, after passing it to all receivers."""
        keys = self.keys(block)
        self._take_in(block, keys)
        return keys

    def of(self, block: Any) -> pa.RecordBatch:
        """Return the rows of a block, after passing it to all receivers."""
        return self.batch(block, self.named(block))

    def take_back(self, batch: pa.RecordBatch) -> None:
        """Pass rows of an earlier process to all receivers."""
        self._take_in(*self.block_of(batch))

    def derive(self, batch: pa.RecordBatch) -> None:
        """Pass rows of a worker to derived outputs only, because the worker has summed them up."""
        self._derive(*self.block_of(batch))

    def _take_in(self, block: Any, keys: np.ndarray) -> None:
        self.summaries.add(block, keys)
        self._derive(block, keys)

    def _derive(self, block: Any, keys: np.ndarray) -> None:
        for each in self.derived:
            each.accept(block, keys)
