"""Bicliques in host memory: their tables, their sums and the sink that writes them while the engine searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.bicliques.vertex_statistics import SizeCounts, VertexStatistics, long_form
from mbe_stage.pipeline.backends.arrow.keys import graphs_of
from mbe_stage.pipeline.backends.arrow.member_rows import BlockRows, MemberRows, vertex_columns
from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums, Summaries
from mbe_stage.pipeline.backends.arrow.worker_parts import sink_within
from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector
from mbe_stage.pipeline.problems.bicliques.largest import Largest, n_shown
from mbe_stage.pipeline.publish.schemas import BICLIQUES, GRAPH, MEMBERS, SIZE_HISTOGRAM, vertices

_STATISTICS = ("n_bicliques", "largest_edges", "largest_keys")


class Summary(LockedSums):
    """Sums over all bicliques of a run.

    Attributes
    ----------
    fingerprint : Fingerprint
    sizes : SizeCounts
    left, right : VertexStatistics
    left_members, right_members : int
        Number of members of a side, summed over all bicliques.
    largest : Largest or None
        The largest bicliques, for a report that shows `n_shown` of them; None if it shows none.

    Notes
    -----
    Threads add one block at a time. A run may have several summaries (`pipeline.backends.arrow.summaries`).
    """

    def __init__(self, n_left: int, n_right: int, n_shown: int = 20) -> None:
        super().__init__()
        self.largest = Largest(n_shown) if n_shown else None
        self.sizes = SizeCounts()
        self.left = VertexStatistics.of(n_left)
        self.right = VertexStatistics.of(n_right)
        self.left_members = 0
        self.right_members = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays, without the largest bicliques."""
        of_sides = (getattr(side, name).nbytes for side in (self.left, self.right) for name in _STATISTICS)
        return sum(of_sides) + self.sizes.n_bytes

    def vertex_statistics(self) -> tuple[VertexStatistics, VertexStatistics]:
        """The statistics of the left and the right vertices, in host memory."""
        return self.left, self.right

    def sums(self) -> dict[str, np.ndarray]:
        """Return all sums as arrays, for `restore`."""
        mark, sizes = self.fingerprint, self.sizes.sorted_rows()
        numbers = (mark.n_items, mark.first, mark.second, self.left_members, self.right_members)
        statistics = {
            f"{side}_{name}": getattr(of_side, name)
            for side, of_side in (("left", self.left), ("right", self.right))
            for name in _STATISTICS
        }
        return {"numbers": np.array(numbers, np.uint64), "sizes": np.stack(sizes).astype(np.int64), **statistics}

    def restore(self, sums: Mapping[str, np.ndarray]) -> None:
        """Add the result of `sums` for other bicliques of the same graph."""
        *mark, left_members, right_members = map(int, sums["numbers"])
        other = Summary(self.left.n_bicliques.size, self.right.n_bicliques.size)
        other.fingerprint.add_sums(*mark)
        other.sizes.add_counts(*sums["sizes"])
        for side in ("left", "right"):
            setattr(other, side, VertexStatistics(*(sums[f"{side}_{name}"] for name in _STATISTICS)))
        other.left_members, other.right_members = left_members, right_members
        self.merge(other)

    def merge(self, other: Summary) -> None:
        """Add the sums over a disjoint part of the bicliques."""
        with self._lock:
            self.fingerprint.merge(other.fingerprint)
            self.sizes.merge(other.sizes)
            self.left.merge(other.left)
            self.right.merge(other.right)
            if self.largest is not None and other.largest is not None:
                self.largest.merge(other.largest)
            self.left_members += other.left_members
            self.right_members += other.right_members

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Add one block and the keys of its bicliques."""
        left_sizes, left_members = block.left_sizes, block.left_members
        right_sizes, right_members = block.right_sizes, block.right_members
        assert left_sizes is not None
        assert left_members is not None
        assert right_sizes is not None
        assert right_members is not None
        n_edges = left_sizes.astype(np.int64) * right_sizes
        with self._lock:
            self.fingerprint.add(keys)
            if self.largest is not None:
                self.largest.add(block, n_edges, keys)
            self.sizes.add(left_sizes, right_sizes)
            self.left.add(left_sizes, left_members, n_edges, keys)
            self.right.add(right_sizes, right_members, n_edges, keys)
            self.left_members += left_members.size
            self.right_members += right_members.size


def _lists_of(block: BicliqueBlock) -> tuple[Any, ...]:
    return (block.left_sizes, block.left_members), (block.right_sizes, block.right_members)


ROWS = MemberRows(
    BICLIQUES, "biclique_key", {"left": "n_left", "right": "n_right"}, BicliqueBlock, _lists_of, product="n_edges"
)
"""The table `bicliques`."""


def rows_with_graphs(graphs: pa.DictionaryArray) -> MemberRows:
    """Return the table `bicliques` with the column of graphs, given the graph of each left vertex."""

    def of_block(block: BicliqueBlock) -> dict[str, pa.Array]:
        assert block.left_members is not None
        return {GRAPH.name: graphs.take(pa.array(block.left_members[block.left_offsets[:-1]])).dictionary_decode()}

    return replace(ROWS, schema=BICLIQUES.append(GRAPH), others=of_block)


def members_batch(bicliques: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of `bicliques/` in long form, one row per member, in the same order."""
    keys, sides, members = long_form(
        bicliques["biclique_key"].to_numpy(),
        bicliques["n_left"].to_numpy(),
        bicliques["left"].flatten().to_numpy(),
        bicliques["n_right"].to_numpy(),
        bicliques["right"].flatten().to_numpy(),
    )
    # Not at module level: the first `pa.array` of Python values imports pandas, which takes long.
    names = pa.array(["left", "right"], pa.string())
    columns = [pa.array(keys), pa.DictionaryArray.from_arrays(pa.array(sides), names), pa.array(members)]
    return pa.RecordBatch.from_arrays(columns, schema=MEMBERS)


def histogram_table(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pa.Table:
    """Build `size_histogram`, ascending by size, from `SizeCounts.sorted_rows`."""
    return pa.table([pa.array(column) for column in rows], schema=SIZE_HISTOGRAM)


def vertex_table(
    keys: pa.Array, degrees: np.ndarray, two_hop: np.ndarray | None, statistics: VertexStatistics
) -> pa.Table:
    """Build `left_vertices` or `right_vertices`, as `vertex_columns`; `two_hop` is None if it was not counted."""
    own = pa.nulls(len(keys), pa.int64()) if two_hop is None else pa.array(two_hop)
    return pa.table(vertex_columns(keys, degrees, own, statistics=statistics), schema=vertex_schema(keys))


def vertex_schema(keys: pa.Array) -> pa.Schema:
    """Schema of a vertex table with these keys."""
    return vertices(keys.type)


class ParquetSink(RowSink[Summary]):
    """Writes `bicliques/` and, on request, `members/` below a run path; keeps a `Summary`.

    Parameters
    ----------
    left_hashes, right_hashes : (n,) uint64
        Vertex hashes from `pipeline.backends.arrow.hashes.key_hashes`.
    bicliques : bool
        Write the table. Without it there is no long form and no sorting, and memory does not grow with the results.
    members : bool
        Also write the long form.
    n_shown : int
        Length of the report's list of the largest; 0 keeps none.
    derived : sequence of DerivedCollector
        Collectors that also receive each block with its keys.
    graphs : pa.DictionaryArray, optional
        The graph of each left vertex, if the input has a column of graphs.
    **writing
        Further parameters of `RowSink`.
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(
        self,
        run_path: Path,
        left_hashes: np.ndarray,
        right_hashes: np.ndarray,
        *,
        bicliques: bool = True,
        members: bool = False,
        n_shown: int = 20,
        derived: Sequence[DerivedCollector] = (),
        graphs: pa.DictionaryArray | None = None,
        **writing: Any,
    ) -> None:
        table = ROWS if graphs is None else rows_with_graphs(graphs)
        sizes = left_hashes.size, right_hashes.size
        rows = BlockRows(
            table,
            lambda block: biclique_keys(block, left_hashes, right_hashes),
            sizes,
            Summaries(lambda: Summary(*sizes, n_shown)),
            derived,
        )
        schemas = ({"bicliques": table.schema} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        super().__init__(rows, run_path, schemas, spread=_with_members if members else None, **writing)


def _with_members(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the rows of `bicliques/`, followed by those of `members/`."""
    return [batch, members_batch(batch)]


def sink_of(collecting: Collecting) -> ParquetSink:
    """Return the sink for the run's configuration."""
    output = collecting.config.output
    left_hashes, right_hashes = collecting.edges.key_hashes()
    sink = partial(
        ParquetSink,
        left_hashes=left_hashes,
        right_hashes=right_hashes,
        compression=output.compression,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        n_shown=n_shown(output),
        graphs=None if collecting.config.input.by is None else graphs_of(collecting.edges.left_keys),
    )
    return sink_within(collecting, sink, has_rows=output.bicliques)
