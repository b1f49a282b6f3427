"""Blocks of results in device memory on their way to frames: cut, named and summed up, whatever the rows are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cupy as cp
import pyarrow as pa

if TYPE_CHECKING:
    from mbe_stage.pipeline.backends.cudf.frames import Frame
    from mbe_stage.pipeline.problems.base import DerivedCollector

__all__ = ["BlockRows", "cut"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """What makes rows of a problem's blocks, and who takes the blocks in beside.

    Attributes
    ----------
    pieces : callable
        Takes a block and a number of bytes, and gives the block in pieces of at most so many bytes as rows.
    keys : callable
        Takes a piece, and gives what names its results: (n,) int64.
    frame : callable
        Takes a piece and its keys, and gives their rows.
    block_of : callable
        Takes rows of the data set in host memory as one batch, and gives the block that they were made of, on the
        device.
    members : mapping of str to (str, int)
        The columns of members: by name, the column of their numbers, and how many vertices there are.
    nothing : block
        Without a result.
    summary
        Takes each piece and its keys in, by its method `add`.
    derived : sequence of DerivedCollector
        Who else does.
    """

    pieces: Callable[[Any, int], Iterator[Any]]
    keys: Callable[[Any], cp.ndarray]
    frame: Callable[[Any, cp.ndarray], Frame]
    block_of: Callable[[pa.RecordBatch], Any]
    members: Mapping[str, tuple[str, int]]
    nothing: Any
    summary: Any
    derived: Sequence[DerivedCollector] = ()

    def named(self, piece: Any) -> cp.ndarray:
        """The keys of a piece, once all have taken it in."""
        keys = self.keys(piece)
        self.summary.add(piece, keys)
        for each in self.derived:
            each.accept(piece, keys)
        return keys

    def take_back(self, rows: pa.RecordBatch, most_bytes: int) -> None:
        """Have all take rows in that were published before, at most so many bytes at once."""
        step = max(1, rows.num_rows * most_bytes // max(1, rows.nbytes))
        for first in range(0, rows.num_rows, step):
            self.named(self.block_of(rows.slice(first, step)))

    def no_rows(self) -> Frame:
        """A frame without rows."""
        return self.frame(self.nothing, cp.zeros(0, cp.int64))


def cut(block: Any, ends: cp.ndarray, most_bytes: int) -> Iterator[Any]:
    """A block in consecutive pieces of at most so many bytes; a larger result alone.

    Parameters
    ----------
    block
        With a length and a method `part`, which takes where a piece begins and where it ends.
    ends : (len(block),) int64
        Bytes of each result with all before it.
    """
    n = len(block)
    if n and int(ends[-1]) <= most_bytes:
        yield block
        return
    first, before = 0, 0
    while first < n:
        fitting = int(cp.searchsorted(ends, cp.asarray(before + most_bytes, ends.dtype), side="right"))
        stop = max(first + 1, fitting)
        yield block.part(first, stop)
        first, before = stop, int(ends[stop - 1])
