"""Frames from blocks of results in device memory: cut, named and summed up, for any use of the rows."""

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
    """Converts a problem's blocks to rows, and passes the blocks to the summary and derived outputs.

    Attributes
    ----------
    pieces : callable
        Takes a block and a number of bytes, and returns the block in pieces of at most that many bytes as rows.
    keys : callable
        Takes a piece, and returns the keys of its results: (n,) int64.
    frame : callable
        Takes a piece and its keys, and returns their rows.
    block_of : callable
        Takes rows of the data set in host memory as one batch, and returns their block on the device.
    members : mapping of str to (str, int)
        The columns of members: by name, the column of their numbers, and the number of vertices.
    nothing : block
        Without a result.
    summary
        Its method `add` receives each piece and its keys.
    derived : sequence of DerivedCollector
        Receives each piece and its keys.
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
        """Return the keys of a piece, after passing it to all receivers."""
        keys = self.keys(piece)
        self.summary.add(piece, keys)
        for each in self.derived:
            each.accept(piece, keys)
        return keys

    def take_back(self, rows: pa.RecordBatch, most_bytes: int) -> None:
        """Pass rows of an earlier process to all receivers, in pieces of at most that many bytes."""
        step = max(1, rows.num_rows * most_bytes // max(1, rows.nbytes))
        for first in range(0, rows.num_rows, step):
            self.named(self.block_of(rows.slice(first, step)))

    def no_rows(self) -> Frame:
        """Return a frame without rows."""
        return self.frame(self.nothing, cp.zeros(0, cp.int64))


def cut(block: Any, ends: cp.ndarray, most_bytes: int) -> Iterator[Any]:
    """Cut a block into consecutive pieces of at most that many bytes; a larger result is a piece alone.

    Parameters
    ----------
    block
        With a length and a method `part`, which takes the start and end of a piece.
    ends : (len(block),) int64
        Bytes of each result and all before it.
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
