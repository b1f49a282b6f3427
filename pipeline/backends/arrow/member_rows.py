"""Rows of results that are sets of vertices: a key, and for each side a list of members and their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.vertex_statistics import VertexStatistics
from mbe_stage.errors import InvalidArgument
from mbe_stage.options import LARGEST_BLOCK
from mbe_stage.pipeline.backends.arrow.order import KeyOrder, SpillOrder
from mbe_stage.pipeline.backends.arrow.summaries import Summaries
from mbe_stage.ragged import offsets_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import DerivedCollector

# Bytes of a short text and its offset.
_SHORT_TEXT = 32


@dataclass(frozen=True, slots=True, eq=False)
class MemberRows:
    """A table of results that are sets of vertices, converted from and to blocks.

    Attributes
    ----------
    key : str
        The column of keys.
    lists : mapping of str to str
        Each column of members, and the column of their numbers.
    block : callable
        Makes a block from the number of results, the columns `numbers`, and the sizes and the members of each list.
    lists_of : callable
        Takes a block, and returns the sizes and members of each list.
    product : str, optional
        The column of the product of all sizes.
    others : callable
        Takes a block, and returns further columns by name.
    numbers : sequence of str
        Columns that `others` returns and `block` takes.
    """

    schema: pa.Schema
    key: str
    lists: Mapping[str, str]
    block: Callable[..., Any]
    lists_of: Callable[[Any], Sequence[tuple[np.ndarray, np.ndarray]]]
    product: str | None = None
    others: Callable[[Any], Mapping[str, pa.Array]] = lambda _block: {}
    numbers: Sequence[str] = ()

    def batch(self, block: Any, keys: np.ndarray) -> pa.RecordBatch:
        """Return a block as rows; the members are not copied.

        Raises
        ------
        InvalidArgument
            More members than a list column holds.
        """
        columns, product = {self.key: pa.array(keys)}, np.ones(1, np.int64)
        for (name, number), (sizes, members) in zip(self.lists.items(), self.lists_of(block), strict=True):
            offsets = offsets_of(sizes)
            if offsets.dtype != np.int32:
                raise InvalidArgument(
                    f"a block has {int(offsets[-1]):,} members ({name}): expected fewer than 2^31, which is what a "
                    f"list column holds; cut it, or ask for smaller blocks (block_bytes, at most {LARGEST_BLOCK:,})"
                )
            columns[name] = pa.ListArray.from_arrays(offsets, members, type=self.schema.field(name).type)
            columns[number] = pa.array(sizes)
            product = product * sizes if self.product else product
        if self.product:
            columns[self.product] = pa.array(product)
        columns |= self.others(block)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def block_of(self, batch: pa.RecordBatch) -> tuple[Any, np.ndarray]:
        """Return rows as a block, and its keys; both are copies, since compiled code takes no read-only arrays."""
        numbers = (self.key, *self.numbers, *self.lists.values())
        keys, *sizes = (np.array(batch[name].to_numpy()) for name in numbers)
        members = (np.array(batch[name].flatten().to_numpy()) for name in self.lists)
        return self.block(batch.num_rows, *sizes, *members), keys

    def members(self, n_vertices: Sequence[int]) -> dict[str, tuple[str, int]]:
        """Return each column of members, with the column of their numbers and the number of vertices."""
        return {name: (self.lists[name], n) for name, n in zip(self.lists, n_vertices, strict=True)}

    def member_bytes(self, block: Any) -> int:
        """Return the bytes of the members of a block."""
        return sum(members.nbytes for _, members in self.lists_of(block))

    @property
    def fixed_bytes(self) -> int:
        """In-memory bytes of a row without its members: the plain columns, and an offset for each list.

        Texts are assumed to be short.
        """
        plain = (
            _SHORT_TEXT if pa.types.is_string(field.type) else field.type.byte_width
            for field in self.schema
            if field.name not in self.lists
        )
        return sum(plain) + 4 * len(self.lists)

    def row_bytes(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the bytes in memory of each row."""
        return self.fixed_bytes + 4 * sum(rows[name].to_numpy().astype(np.int64) for name in self.lists.values())

    def canonical_order(self, scratch: Path, **sizes: Any) -> KeyOrder:
        """Return an order that sorts rows by key; `sizes` as for `KeyOrder`."""
        return KeyOrder(scratch, self.schema, self.key, self.row_bytes, **sizes)

    def left_in_spills(self, scratch: Path) -> SpillOrder:
        """Return an order that leaves rows in spill files, for a `canonical_order` elsewhere."""
        return SpillOrder(scratch, self.schema, self.key, self.row_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """Converts a problem's blocks to rows, and passes the blocks to summaries and derived outputs.

    Attributes
    ----------
    keys : callable
        Takes a block, and returns the keys of its results: (n,) int64.
    n_vertices : sequence of int
        The number of vertices for each list.
    summaries : Summaries
        Receives each block and its keys.
    derived : sequence of DerivedCollector
        Receives each block and its keys.
    """

    table: MemberRows
    keys: Callable[[Any], np.ndarray]
    n_vertices: Sequence[int]
    summaries: Summaries[Any]
    derived: Sequence[DerivedCollector] = ()

    @property
    def members(self) -> dict[str, tuple[str, int]]:
        """Return each column of members, with the column of their numbers and the number of vertices."""
        return self.table.members(self.n_vertices)

    def named(self, block: Any) -> np.ndarray:
        """Return the keys of a block, after passing it to all receivers."""
        keys = self.keys(block)
        self._take_in(block, keys)
        return keys

    def of(self, block: Any) -> pa.RecordBatch:
        """Return the rows of a block, after passing it to all receivers."""
        return self.table.batch(block, self.named(block))

    def take_back(self, batch: pa.RecordBatch) -> None:
        """Pass rows of an earlier process to all receivers."""
        self._take_in(*self.table.block_of(batch))

    def derive(self, batch: pa.RecordBatch) -> None:
        """Pass rows of a worker to derived outputs only, because the worker has summed them up."""
        self._derive(*self.table.block_of(batch))

    def _take_in(self, block: Any, keys: np.ndarray) -> None:
        self.summaries.add(block, keys)
        self._derive(block, keys)

    def _derive(self, block: Any, keys: np.ndarray) -> None:
        for each in self.derived:
            each.accept(block, keys)


def vertex_columns(keys: pa.Array, degrees: np.ndarray, *own: pa.Array, statistics: VertexStatistics) -> list[pa.Array]:
    """Return the columns of a table of vertices by dense id: id, key, degree, `own` ones, and the statistics."""
    return [
        pa.array(np.arange(len(keys), dtype=np.int32)),
        keys,
        pa.array(np.asarray(degrees, np.int64)),
        *own,
        pa.array(statistics.n_bicliques),
        pa.array(statistics.largest_keys, mask=statistics.n_bicliques == 0),
        pa.array(statistics.largest_edges),
    ]
