"""What takes the counts of a run to its tables, on every backend; they are small enough to be made on the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np

from mbe_stage.errors import EngineUnavailable
from mbe_stage.pq_counts.results import Detail, PqBlock, PqSink
from mbe_stage.tasks import Task
from pipeline.backends.arrow.parts import write_batches, write_table
from pipeline.kept_sums import Arrays, book_sums, can_be_kept, restore, taken_back, together
from pipeline.large_numbers import digits_text
from pipeline.naming import setting
from pipeline.outputs.pq_counts.counts import Counts
from pipeline.outputs.pq_counts.fingerprint import sum_of_counts, sum_of_edges, sum_of_vertices, whole
from pipeline.outputs.pq_counts.memory import check_room
from pipeline.outputs.pq_counts.query import detail_of, to_query
from pipeline.outputs.pq_counts.tables import counts_table, edge_batches, vertex_batches
from pipeline.publication import Collected, Collecting
from pipeline.publish import as_publish_errors

__all__ = ["PqCollector"]


class PqCollector:
    """See `pipeline.publication.Collector`.

    Raises
    ------
    MemoryBudgetExceeded
        The local counts that are asked for do not fit the budget.
    """

    shares = None

    def __init__(self, collecting: Collecting) -> None:
        asked = collecting.config.asked
        query = to_query(asked, collecting.edges)
        self.detail: Detail = detail_of(asked)
        self.seconds = {"write": 0.0}
        self._collecting = collecting
        on_host = collecting.backend.on_host
        self._degrees = tuple(
            on_host(of_side) for of_side in (collecting.graph.left_degrees, collecting.graph.right_degrees)
        )
        check_room(query, self.detail, self._degrees, collecting.config.execution.memory_budget)
        self._sink = PqSink(query, self.detail)
        if (sums := taken_back(collecting.journal)) is not None:
            restore(sums, self._sink.restore, collecting.derived)

    @property
    def checkpoint(self) -> Callable[[Sequence[Task], float], None] | None:
        """As `mbe_stage.stream.Sink` says; None where nobody keeps a journal, or what passes cannot be kept."""
        is_kept = can_be_kept(self._collecting.derived)
        return self._book if self._collecting.journal is not None and is_kept else None

    def _book(self, remaining: Sequence[Task], work_done: float) -> None:
        journal = self._collecting.journal
        # Where nothing is left the run ends now, and publishes.
        if remaining and journal is not None:
            start = time.perf_counter()
            book_sums(journal, remaining, work_done, self._sums, self._sink.n_kinds)
            self.seconds["write"] += time.perf_counter() - start

    def _sums(self) -> Arrays:
        return together(self._sink.sums(), self._collecting.derived)

    def accept(self, block: PqBlock) -> None:
        """Take one block in."""
        self._sink.accept(block)
        for each in self._collecting.derived:
            each.accept(block, np.arange(len(block)))

    def __enter__(self) -> PqCollector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing waits to be written."""

    def finish(self) -> Collected:
        """Sum up, and write the tables.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        start = time.perf_counter()
        counts = self._sink.counts()
        with as_publish_errors(self._collecting.run_path):
            fingerprint = self._written(counts)
        self.seconds["write"] += time.perf_counter() - start
        (p, q), largest = max(counts.items(), key=lambda item: item[1])
        most_left, most_right = (int(of_side.max(initial=0)) for of_side in self._degrees)
        found = Counts(
            counts=len(counts),
            above_zero=sum(count > 0 for count in counts.values()),
            largest=digits_text(largest),
            largest_p=p,
            largest_q=q,
            most_left_degree=most_left,
            most_right_degree=most_right,
        )
        return Collected(counts=found.model_dump(), content_fingerprint=fingerprint)

    def _written(self, counts: dict[tuple[int, int], int]) -> str:
        run_path, compression = self._collecting.run_path, self._collecting.config.output.compression
        write_table(counts_table(counts), run_path / "pq_counts.parquet", compression)
        sums, local = [sum_of_counts(counts)], self._sink.local_counts()
        if self.detail >= Detail.VERTICES and any(counts.values()) and not local:
            raise EngineUnavailable(
                f"{setting('execution.engine')}: the engine that ran says nothing of vertices and edges; expected one "
                "that does; take reference"
            )
        if self.detail >= Detail.VERTICES:
            edges = self._collecting.edges.to_host()
            sums.append(sum_of_vertices(edges))
            schema, batches = vertex_batches(local, counts, edges)
            write_batches(sums[-1].passing(batches), schema, run_path / "pq_vertices.parquet", compression)
        if self.detail >= Detail.EDGES:
            sums.append(sum_of_edges(edges))
            schema, batches = edge_batches(local, counts, edges)
            write_batches(sums[-1].passing(batches), schema, run_path / "pq_edges.parquet", compression)
        return whole(sums)
