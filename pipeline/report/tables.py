"""Tables of the report, read in batches with bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_BATCH_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class VertexRow:
    """A vertex of a `*_vertices` table."""

    key: object
    degree: int
    two_hop_degree: int | None
    n_bicliques: int
    largest_biclique_edges: int


@dataclass(frozen=True, slots=True, eq=False)
class SideSummary:
    """Summary of one side of the graph.

    Attributes
    ----------
    side : str
        ``left`` or ``right``.
    n_vertices, n_members : int
        All vertices, and those in at least one published biclique.
    degrees, degree_counts : (n_distinct,) int64
        Distinct degrees, ascending, and the number of vertices with each.
    hub : VertexRow or None
        A vertex of the largest degree.
    busiest : list of VertexRow
        The vertices in the most bicliques, most first; each is in at least one.
    """

    side: str
    n_vertices: int
    n_members: int
    degrees: np.ndarray
    degree_counts: np.ndarray
    hub: VertexRow | None
    busiest: list[VertexRow]

    @property
    def mean_degree(self) -> float:
        """Return the mean degree; 0 without vertices."""
        return float(self.degrees @ self.degree_counts) / max(self.n_vertices, 1)

    @property
    def median_degree(self) -> int:
        """Return the (lower) median degree; 0 without vertices."""
        if not self.n_vertices:
            return 0
        middle = np.searchsorted(np.cumsum(self.degree_counts), (self.n_vertices + 1) // 2)
        return int(self.degrees[middle])


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The published size histogram as three arrays of one length."""

    n_left: np.ndarray
    n_right: np.ndarray
    n_bicliques: np.ndarray

    @property
    def total(self) -> int:
        """Return the number of published bicliques."""
        return int(self.n_bicliques.sum())

    @property
    def n_members(self) -> int:
        """Return the number of members of all bicliques."""
        return int(((self.n_left + self.n_right) * self.n_bicliques).sum())

    def at_least(self, left: int = 1, right: int = 1) -> int:
        """Return the number of published bicliques with at least that many vertices on each side."""
        return int(self.n_bicliques[(self.n_left >= left) & (self.n_right >= right)].sum())

    def most_edges(self) -> tuple[int, int] | None:
        """Return ``(n_left, n_right)`` of a biclique with the most edges."""
        if not self.n_left.size:
            return None
        best = int(np.argmax(self.n_left * self.n_right))
        return int(self.n_left[best]), int(self.n_right[best])


def read_sizes(path: Path) -> Sizes:
    """Read `size_histogram.parquet`, which has one row per size."""
    table = pq.read_table(path)
    return Sizes(*(table.column(name).to_numpy().astype(np.int64) for name in ("n_left", "n_right", "n_bicliques")))


def read_side(path: Path, side: str, top: int) -> SideSummary:
    """Summarise `left_vertices.parquet` or `right_vertices.parquet` in one pass.

    Parameters
    ----------
    top : int
        Number of the busiest vertices to keep; ties keep the table's order.
    """
    counts: Counter[int] = Counter()
    n_vertices = n_members = 0
    hub: VertexRow | None = None
    busiest: pa.Table | None = None
    columns = ["key", "degree", "two_hop_degree", "n_bicliques", "largest_biclique_edges"]
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            degrees = batch.column("degree").to_numpy()
            distinct, times = np.unique(degrees, return_counts=True)
            counts.update(dict(zip(distinct.tolist(), times.tolist(), strict=True)))
            n_vertices += batch.num_rows
            n_members += int(np.count_nonzero(batch.column("n_bicliques").to_numpy()))
            if batch.num_rows and (hub is None or degrees.max() > hub.degree):
                hub = _rows(batch.slice(int(degrees.argmax()), 1))[0]
            busiest = _busier(busiest, pa.Table.from_batches([batch]), top)
    ordered = sorted(counts)
    return SideSummary(
        side=side,
        n_vertices=n_vertices,
        n_members=n_members,
        degrees=np.array(ordered, dtype=np.int64),
        degree_counts=np.array([counts[degree] for degree in ordered], dtype=np.int64),
        hub=hub,
        busiest=[] if busiest is None else _rows(busiest),
    )


def _busier(known: pa.Table | None, more: pa.Table, top: int) -> pa.Table:
    more = more.filter(pc.greater(more.column("n_bicliques"), 0))
    both = more if known is None else pa.concat_tables([known, more])
    # A stable sort keeps the order of ties, so the report of a run never changes.
    order = np.argsort(-both.column("n_bicliques").to_numpy(), kind="stable")[:top]
    return both.take(pa.array(order)).combine_chunks()


def _rows(data: pa.Table | pa.RecordBatch) -> list[VertexRow]:
    return [VertexRow(**row) for row in data.to_pylist()]
