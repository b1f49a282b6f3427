"""The sink of a run of counts for every backend; its tables are small and made on the host."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.errors import EngineUnavailable
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.parts import write_batches, write_table
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.execution.checkpoint_sums import Arrays, book_sums, can_be_kept, restore, taken_back, together
from mbe_stage.pipeline.large_numbers import digits_text
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.pq_counts.memory import check_local_memory
from mbe_stage.pipeline.problems.pq_counts.publication import Counts
from mbe_stage.pipeline.problems.pq_counts.query import detail_of, to_query
from mbe_stage.pipeline.problems.pq_counts.tables import counts_table, edge_batches, vertex_batches
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pq_counts.results import Detail, PqBlock, PqSink
from mbe_stage.tasks import OpenWork, Task


class TableSum:
    """The checksum of a table, updated as its rows are written."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._sum = hashlib.sha256()
        for line in lines:
            self._sum.update(f"{line}\n".encode())

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches unchanged and add their counts to the checksum."""
        for batch in batches:
            lines = pc.binary_join_element_wise(batch.column("count_text"), "", "\n")
            _, offsets, text = lines.buffers()
            first, end = memoryview(offsets).cast("i")[lines.offset], memoryview(offsets).cast("i")[len(lines)]
            self._sum.update(memoryview(text)[first:end])
            yield batch

    def __str__(self) -> str:
        return self._sum.hexdigest()


def sum_of_counts(counts: Mapping[tuple[int, int], int]) -> TableSum:
    """Return the checksum of `pq_counts`."""
    return TableSum(f"{p} {q} {digits_text(count)}" for (p, q), count in counts.items())


def sum_of_vertices(edges: EdgeData) -> TableSum:
    """Return the checksum of `pq_vertices` before its first row."""
    keys = (key for side in (edges.left_keys, edges.right_keys) for key in side.to_pylist())
    return TableSum(json.dumps(str(key), ensure_ascii=False) for key in keys)


def sum_of_edges(edges: EdgeData) -> TableSum:
    """Return the checksum of `pq_edges` before its first row."""
    ends = zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True)
    return TableSum(f"{left} {right}" for left, right in ends)


def whole(sums: Iterable[TableSum]) -> str:
    """Return the content fingerprint."""
    return hashlib.sha256("\n".join(map(str, sums)).encode()).hexdigest()


class PqCollector:
    """See `pipeline.problems.base.Collector`.

    Raises
    ------
    MemoryBudgetExceeded
        The requested local counts do not fit the budget.
    """

    shares = None

    def __init__(self, collecting: Collecting) -> None:
        section = collecting.config.problem_section
        query = to_query(section, collecting.edges)
        self.detail: Detail = detail_of(section)
        self.seconds = {"write": 0.0}
        self._collecting = collecting
        on_host = collecting.backend.on_host
        self._degrees = tuple(
            on_host(of_side) for of_side in (collecting.graph.left_degrees, collecting.graph.right_degrees)
        )
        check_local_memory(query, self.detail, self._degrees, collecting.config.execution.memory_bytes)
        self._sink = PqSink(query, self.detail)
        if (sums := taken_back(collecting.journal)) is not None:
            restore(sums, self._sink.restore, collecting.derived)

    @property
    def checkpoint(self) -> Callable[[Sequence[Task | OpenWork], float], None] | None:
        """The checkpoint method of `mbe_stage.stream.Sink`; None without a journal."""
        is_kept = can_be_kept(self._collecting.derived)
        return self._book if self._collecting.journal is not None and is_kept else None

    def _book(self, remaining: Sequence[Task | OpenWork], work_done: float) -> None:
        journal = self._collecting.journal
        # Without remaining tasks the run ends now, and publishes.
        if remaining and journal is not None:
            start = time.perf_counter()
            book_sums(journal, remaining, work_done, self._sums, self._sink.n_signatures)
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
        degrees = self._collecting.edges.degrees or self._degrees
        most_left, most_right = (int(of_side.max(initial=0)) for of_side in degrees)
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
