"""Write blocks of results in device memory as Parquet, with keys and sums, by libcudf while the engine searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import cupy as cp
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.kept_rows import KeptRows
from mbe_stage.pipeline.backends.arrow.parts import PartNames
from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.backends.cudf.frames import Frame
from mbe_stage.pipeline.backends.cudf.member_rows import BlockRows
from mbe_stage.pipeline.backends.cudf.order import KeyOrder
from mbe_stage.pipeline.backends.cudf.parts import DataSet, WriterPool
from mbe_stage.pipeline.backends.cudf.plan import WritingPlan
from mbe_stage.pipeline.backends.cudf.writing import EngineShare, writing_of
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.tasks import OpenWork, Task

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import Collecting


class ParquetSink:
    """Writes blocks of any problem as data sets of parts, and sums them up.

    Parameters
    ----------
    schemas : mapping of str to (pa.Schema, int)
        Schemas by the names of the data sets' directories, and their size as a multiple of a frame of rows; if there
        are none, nothing is written.
    spread : callable, optional
        Takes such a frame, and returns the rows of each data set in the order of `schemas`; not needed for one.
    sort : bool
        Write rows in canonical order, ascending by key.
    journal : Journal, optional
        The run's journal: records are restored from the rows of the first data set, and `checkpoint` adds to it.
        Without a data set there are no rows to restore: `rows.summary` and all derived outputs then have to provide
        sums (`pipeline.problems.base.DerivedCollector`).

    Notes
    -----
    `accept` names and sums up, and passes frames to the writing threads; it waits while those are behind. Use it as a
    context manager: its exit writes the last parts, and raises any error of a writer.

    Attributes
    ----------
    seconds : dict
        Wall time of `accept` and of the exit: ``name`` for keys, fingerprint and sums, ``write`` for sorting, making
        frames and waiting for the writers.
    shares : EngineShare or None
        The engine's share of memory; None if it was not planned.
    write_file : FrameWriter
        Writes the other tables of the run.
    """

    on_device: Literal[True] = True

    def __init__(
        self,
        rows: BlockRows,
        run_path: Path,
        schemas: Mapping[str, tuple[pa.Schema, int]],
        plan: WritingPlan,
        write_file: FrameWriter,
        *,
        spread: Callable[[Frame], Iterator[Frame]] | None = None,
        sort: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.seconds = {"name": 0.0, "write": 0.0}
        self.shares: EngineShare | None = None
        self.write_file = write_file
        self._rows, self._spread, self._path = rows, _alone if spread is None else spread, run_path
        self._piece_bytes = plan.piece_bytes
        self._kept = KeptRows(journal, run_path, next(iter(schemas), ""), rows.members)
        self._order: KeyOrder | None = None
        if sort:
            self._order = rows.table.canonical_order(self._kept.scratch, plan.sort_bytes, plan.piece_bytes)
        self._settled: list[Path] = []
        self._take_back(plan.n_writers, has_rows=bool(schemas))
        self._writers = WriterPool(plan.n_writers, write_file)
        self._data_sets = [
            DataSet(
                PartNames(run_path / name, is_begun=self._kept.is_begun),
                schema,
                self._writers,
                times * plan.piece_bytes,
            )
            for name, (schema, times) in schemas.items()
        ]

    @property
    def summary(self) -> Any:
        """The summary of all accepted results."""
        return self._rows.summary

    def planned(self, engine: EngineShare, seconds: float) -> Self:
        """Return this writer with the engine's share, and the seconds of planning as ``plan``."""
        self.shares = engine
        self.seconds = {"plan": seconds} | self.seconds
        return self

    def accept(self, block: Any) -> None:
        """Take one block; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier part could not be written.
        """
        for piece in self._rows.table.pieces(block, self._piece_bytes):
            start = time.perf_counter()
            keys = self._rows.named(piece)
            cp.cuda.get_current_stream().synchronize()
            named = time.perf_counter()
            self.seconds["name"] += named - start
            if not self._data_sets:
                continue
            frame = self._rows.table.frame(piece, keys)
            if self._order is None:
                self._emit(frame)
            else:
                self._order.add(frame)
            self.seconds["write"] += time.perf_counter() - named

    def checkpoint(self, remaining: Sequence[Task | OpenWork], work_done: float) -> None:
        """Record in the journal that everything but these tasks is done, once all accepted results are on disk.

        Raises
        ------
        PublishError
            The record cannot be written.
        """
        # Without remaining tasks the run ends now, and publishes.
        if not remaining or not self._kept.is_begun:
            return
        start, summary = time.perf_counter(), self.summary
        if self._data_sets:
            self._settle()
            self._kept.book(self, remaining, work_done, summary.fingerprint.n_items)
        else:
            self._kept.book_sums(remaining, work_done, summary, self._rows.derived)
        self.seconds["write"] += time.perf_counter() - start

    def seal(self, seal: Callable[[list[Path]], None]) -> None:
        """Pass on settled files, as `pipeline.backends.arrow.block_writer.BlockWriter.seal` does."""
        files, self._settled = self._settled, []
        self._writers.book(self._path, lambda: seal(files))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writers.__exit__(kind, error, trace)
            return
        start = time.perf_counter()
        with self._writers:
            for frame in self._order.frames() if self._order is not None else ():
                self._emit(frame)
            self._finish()
        self.seconds["write"] += time.perf_counter() - start

    def _take_back(self, n_threads: int, *, has_rows: bool) -> None:
        """Restore the journal's records with that many reading threads."""
        if has_rows:
            for batch in self._kept.taken_back(self._order, n_threads, lambda rows: rows):
                self._rows.take_back(batch, self._piece_bytes)
        else:
            self._kept.take_back_sums(self._rows.summary, self._rows.derived)

    def _settle(self) -> None:
        """Complete files with everything accepted so far."""
        if self._order is not None:
            with as_publish_errors(self._path):
                self._settled += self._order.checkpoint()
        for data_set in self._data_sets:
            data_set.flush()
        self._writers.settle()
        self._settled += [path for data_set in self._data_sets for path in data_set.names.take_complete()]

    def _emit(self, frame: Frame) -> None:
        for data_set, rows in zip(self._data_sets, self._spread(frame), strict=True):
            data_set.add(rows)

    def _finish(self) -> None:
        if not self._data_sets:
            return
        for data_set, empty in zip(self._data_sets, self._spread(self._rows.no_rows()), strict=True):
            data_set.finish(empty)


def sink_within(
    collecting: Collecting,
    rows: Callable[[], BlockRows],
    schemas: Mapping[str, tuple[pa.Schema, int]],
    spread: Callable[[Frame], Iterator[Frame]] | None = None,
) -> ParquetSink:
    """Make the sink for the run's configuration, within the run's limit of device memory.

    Parameters
    ----------
    rows : callable
        Makes the rows; called once the memory is planned.
    schemas, spread
        See `ParquetSink`.
    """
    start = time.perf_counter()
    writing = writing_of(collecting, members=len(schemas) > 1)
    sink = ParquetSink(
        rows(),
        collecting.run_path,
        schemas,
        writing.plan,
        writing.write_file,
        spread=spread,
        sort=collecting.config.output.sort,
        journal=collecting.journal,
    )
    return sink.planned(writing.engine, time.perf_counter() - start)


def _alone(frame: Frame) -> Iterator[Frame]:
    yield frame
