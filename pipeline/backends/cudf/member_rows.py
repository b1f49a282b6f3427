"""Frames of results that are sets of vertices: a key, and for each side a list of members and their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy as cp
import pyarrow as pa

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.pipeline.backends.arrow.member_rows import MemberRows as HostRows
from mbe_stage.pipeline.backends.arrow.order import KeyOrder as HostKeyOrder
from mbe_stage.pipeline.backends.cudf.block_cuts import cut
from mbe_stage.pipeline.backends.cudf.frames import MOST_BYTES, Frame, Series, frame_of, list_column, nullable
from mbe_stage.pipeline.backends.cudf.order import KeyOrder

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import DerivedCollector


@dataclass(frozen=True, slots=True, eq=False)
class MemberRows:
    """A table of results that are sets of vertices: its frames, converted from blocks in device memory.

    Attributes
    ----------
    host : HostRows
        The table.
    block : callable
        Makes a block of the offsets and the members of each list.
    nothing : callable
        Makes a block without results.
    lists_of : callable
        Takes a block, and returns the sizes, offsets and members of each list.
    offsets_of : callable
        Takes a block, and returns the offsets alone.
    """

    host: HostRows
    block: Callable[..., Any]
    nothing: Callable[[], Any]
    lists_of: Callable[[Any], Sequence[tuple[cp.ndarray, cp.ndarray, cp.ndarray]]]
    offsets_of: Callable[[Any], Iterator[cp.ndarray]]

    def frame(self, block: Any, keys: cp.ndarray) -> Frame:
        """Return a block of fewer than 2**31 members in each list as rows; the members are not copied."""
        host, columns, product = self.host, {self.host.key: keys}, None
        for (name, number), (sizes, offsets, members) in zip(host.lists.items(), self.lists_of(block), strict=True):
            columns[name], columns[number] = list_column(offsets, members), sizes
            if host.product:
                product = sizes.astype(cp.int64) if product is None else product * sizes
                columns[host.product] = product
        return frame_of({name: columns[name] for name in host.schema.names})

    def block_of(self, batch: pa.RecordBatch) -> Any:
        """Return rows in host memory as a block on the device."""
        return self.block(*(array for name in self.host.lists for array in _uploaded(batch[name])))

    def canonical_order(self, scratch: Path, most_bytes: int, group_bytes: int) -> KeyOrder:
        """Return an order that sorts frames by key; sizes as for `KeyOrder`."""

        def on_host(group_bytes: int) -> HostKeyOrder:
            return self.host.canonical_order(scratch, group_bytes=group_bytes)

        host = self.host
        return KeyOrder(host.schema, host.key, self.row_bytes, self._frame_of, on_host, most_bytes, group_bytes)

    def row_bytes(self, rows: Frame) -> cp.ndarray:
        """Return the bytes in memory of each row, (n,) float64."""
        numbers = (rows[name].values.astype(cp.float64) for name in self.host.lists.values())
        return self.host.fixed_bytes + 4 * sum(numbers)

    def pieces(self, block: Any, most_bytes: int = MOST_BYTES) -> Iterator[Any]:
        """Cut a block into consecutive pieces of at most that many bytes as rows; a larger result is a piece alone."""
        # In place, because a block and its offsets are large compared with a small budget. Sizes are multiples of 4.
        words = self.host.fixed_bytes // 4
        ends = cp.arange(words, (len(block) + 1) * words, words)
        for offsets in self.offsets_of(block):
            ends += offsets[1:]
        ends *= 4
        return cut(block, ends, most_bytes)

    def _frame_of(self, batch: pa.RecordBatch) -> Frame:
        """Return rows in host memory as a frame."""
        return self.frame(self.block_of(batch), cp.asarray(batch[self.host.key].to_numpy()))


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """Converts a problem's blocks to rows, and passes the blocks to the summary and derived outputs.

    Attributes
    ----------
    keys : callable
        Takes a piece of a block, and returns the keys of its results: (n,) int64.
    n_vertices : sequence of int
        The number of vertices for each list.
    summary
        The method `add` receives each piece and its keys.
    derived : sequence of DerivedCollector
        Receives each piece and its keys.
    """

    table: MemberRows
    keys: Callable[[Any], cp.ndarray]
    n_vertices: Sequence[int]
    summary: Any
    derived: Sequence[DerivedCollector] = ()

    @property
    def members(self) -> dict[str, tuple[str, int]]:
        """Return each column of members, with the column of their numbers and the number of vertices."""
        return self.table.host.members(self.n_vertices)

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
            self.named(self.table.block_of(rows.slice(first, step)))

    def no_rows(self) -> Frame:
        """Return a frame without rows."""
        return self.table.frame(self.table.nothing(), cp.zeros(0, cp.int64))


def vertex_frame(
    schema: pa.Schema, keys: Series, degrees: cp.ndarray, own: object, statistics: VertexStatistics
) -> Frame:
    """Return a table of vertices by dense id: id, key, degree, the column `own`, and the statistics.

    `schema` has the names of the columns, and the type of the last. `degrees` may be on the host.
    """
    n_results = cp.asarray(statistics.n_bicliques)
    columns = (
        cp.arange(len(keys), dtype=cp.int32),
        keys.reset_index(drop=True),
        cp.asarray(degrees, cp.int64),
        own,
        n_results,
        nullable(cp.asarray(statistics.largest_keys), n_results > 0),
        cp.asarray(statistics.largest_edges, schema.types[-1].to_pandas_dtype()),
    )
    return frame_of(dict(zip(schema.names, columns, strict=True)))


def _uploaded(lists: pa.ListArray) -> tuple[cp.ndarray, cp.ndarray]:
    """Return offsets and members of lists on the device."""
    offsets = lists.offsets.to_numpy()
    return cp.asarray(offsets, cp.int64) - int(offsets[0]), cp.asarray(lists.flatten().to_numpy())
