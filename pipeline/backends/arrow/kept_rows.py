"""Checkpoints of a collector: rows of a data set, or sums without rows, recorded in a journal and restored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.pipeline.backends.arrow.parts import row_group_of
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.checkpoint_sums import Arrays, book_sums, restore, taken_back, together
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.tasks import OpenWork, Task

_T = TypeVar("_T")


class _Order(Protocol):
    """Sorts rows; a `KeyOrder` of any backend."""

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Take rows that an earlier process has spilled, and yield them."""


class _Writer(Protocol):
    """A `BlockWriter` of any backend."""

    def seal(self, seal: Callable[[list[Path]], None]) -> None:
        """Pass on the files settled since the last call."""


class _Summary(Protocol):
    """The summary of all results, of any backend."""

    fingerprint: Fingerprint

    def sums(self) -> Arrays:
        """Return the summary as arrays."""

    def restore(self, sums: Arrays) -> None:
        """Add the arrays of another summary."""


class KeptRows:
    """The journal as a collector of rows uses it; without a journal there is nothing to restore or record.

    Parameters
    ----------
    journal : Journal or None
        The journal of the run.
    data_set : str
        The directory of the rows that hold all information.
    members : mapping of str to (str, int)
        Columns of members in these rows, as in `BlockRows`.

    Attributes
    ----------
    scratch : Path
        Directory for the spills of an order. With a journal they may have to stay until publication; they are not part
        of the run.
    """

    def __init__(
        self, journal: Journal | None, run_path: Path, data_set: str, members: Mapping[str, tuple[str, int]]
    ) -> None:
        self._journal = journal
        self._data_set, self._members = data_set, members
        self._n_booked = 0 if journal is None else journal.n_found
        self.scratch = run_path / ".sort" if journal is None else journal.staging_dir / "sort"

    @property
    def is_begun(self) -> bool:
        """True if parts of an earlier process may exist."""
        return self._journal is not None

    def taken_back(self, order: _Order | None, n_threads: int, take: Callable[[pa.RecordBatch], _T]) -> Iterator[_T]:
        """Yield results made from recorded rows, some at a time; an order, if any, receives the rows.

        Parameters
        ----------
        order : optional
            This thread reads its spills, one after the other.
        n_threads : int
            Number of threads that read parts, a row group each.
        take : callable
            Takes rows, and returns the result made from them; called in these threads.

        Raises
        ------
        PublishError
            Rows do not fit this graph, although the checksum of their file is right.
        """
        files = () if self._journal is None else self._journal.files
        for path in files:
            if path.suffix == ".arrow":
                assert order is not None
                yield from (take(self._checked(batch, path)) for batch in order.restore(path) if batch.num_rows)
        groups = (
            (path, number)
            for path in files
            if path.suffix != ".arrow" and path.parent.name == self._data_set
            for number in range(pq.read_metadata(path).num_row_groups)
        )

        def taken_of(path: Path, number: int) -> list[_T]:
            return [take(self._checked(batch, path)) for batch in row_group_of(path, number)]

        for taken in _ahead(lambda group: taken_of(*group), groups, n_threads):
            yield from taken

    def _checked(self, batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
        """Return the same rows, once their vertices are checked: compiled code looks them up without checks."""
        for name, (size, n_vertices) in self._members.items():
            if not _fits(batch, name, size, n_vertices):
                raise PublishError(
                    f"{path}: its column {name!r} holds no vertices of this graph; expected numbers below "
                    f"{n_vertices:,}, as many as {size!r} says; start over without --resume"
                )
        return batch

    def book(self, writer: _Writer, remaining: Sequence[Task | OpenWork], work_done: float, n_items: int) -> None:
        """Record in the journal that everything but these tasks is done, once all settled files are on disk.

        Parameters
        ----------
        writer
            Settled.
        remaining : sequence of Task or OpenWork
            The remaining tasks, at least one.
        work_done : float
            See `Journal.add`.
        n_items : int
            Results so far, including those of earlier processes.

        Raises
        ------
        PublishError
            The record cannot be written.
        """
        journal = self._journal
        assert journal is not None
        n_found, self._n_booked = n_items - self._n_booked, n_items
        writer.seal(lambda files: journal.add(remaining, work_done, files, n_found))

    def take_back_sums(self, summary: _Summary, derived: Sequence[Any]) -> None:
        """Restore the recorded sums of a run without rows.

        Parameters
        ----------
        derived : sequence of DerivedCollector
            Collectors whose sums are restored, too.

        Raises
        ------
        PublishError
            The sums have another shape, although the checksum of their file is right.
        """
        try:
            if (sums := taken_back(self._journal)) is not None:
                restore(sums, summary.restore, derived)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            staging_dir = None if self._journal is None else self._journal.staging_dir
            raise PublishError(
                f"{staging_dir}: its sums are of another shape ({error}); expected those of this run; start over "
                "without "
                "--resume"
            ) from None

    def book_sums(
        self, remaining: Sequence[Task | OpenWork], work_done: float, summary: _Summary, derived: Sequence[Any]
    ) -> None:
        """Record the sums of a run without rows.

        Raises
        ------
        PublishError
            The record cannot be written.
        """
        journal = self._journal
        assert journal is not None
        n_items = summary.fingerprint.n_items
        book_sums(journal, remaining, work_done, lambda: together(summary.sums(), derived), n_items)


def _fits(batch: pa.RecordBatch, name: str, size: str, n_vertices: int) -> bool:
    """Return whether a column holds lists of vertices, each with its recorded length, and at most all vertices."""
    try:
        lists, sizes = batch[name], batch[size].to_numpy()
        members = lists.flatten().to_numpy()
        are_integers = members.dtype.kind in "iu" and sizes.dtype.kind in "iu"
        fit = np.array_equal(lists.value_lengths().to_numpy(), sizes) and sizes.min() > 0 and sizes.max() <= n_vertices
        return bool(are_integers and fit and members.min() >= 0 and members.max() < n_vertices)
    except (KeyError, AttributeError, pa.ArrowInvalid):
        return False


def _ahead(make: Callable[[Any], _T], items: Iterable[Any], n_threads: int) -> Iterator[_T]:
    """Yield the result for each item in order, made by threads that work a few items ahead."""
    waiting: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(n_threads, "taking-back") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
