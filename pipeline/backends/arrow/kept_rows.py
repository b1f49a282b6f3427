"""Rows of a data set that a journal books, or sums where there are none; those of earlier processes are taken back."""

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
from mbe_stage.tasks import Task

__all__ = ["KeptRows"]

_T = TypeVar("_T")


class _Order(Protocol):
    """Puts rows into their order; a `KeyOrder` of any backend."""

    def restore(self, spill: Path) -> Iterator[pa.RecordBatch]:
        """Take in what an earlier process has spilled; yields its rows."""


class _Writer(Protocol):
    """A `BlockWriter` of any backend."""

    def seal(self, seal: Callable[[list[Path]], None]) -> None:
        """Hand on the files that were settled since this was done last."""


class _Summary(Protocol):
    """What is known of all results, of any backend."""

    fingerprint: Fingerprint

    def sums(self) -> Arrays:
        """All of it as arrays."""

    def restore(self, sums: Arrays) -> None:
        """Take back what `sums` gave of other results."""


class KeptRows:
    """What a collector of rows does with its journal; without one there is nothing to take back, and nothing is booked.

    Parameters
    ----------
    journal : Journal or None
        Of the run.
    data_set : str
        The name of the directory whose rows hold all that is to be known.
    members : mapping of str to (str, int)
        Of these rows, as `BlockRows` has it.

    Attributes
    ----------
    scratch : Path
        For the spills of an order: with a journal they may have to stay until the run is published, and are no part of
        it.
    """

    def __init__(
        self, journal: Journal | None, run_path: Path, data_set: str, members: Mapping[str, tuple[str, int]]
    ) -> None:
        self._journal = journal
        self._data_set, self._members = data_set, members
        self._n_booked = 0 if journal is None else journal.n_found
        self.scratch = run_path / ".sort" if journal is None else journal.room / "sort"

    @property
    def is_begun(self) -> bool:
        """Whether parts of an earlier process may be there."""
        return self._journal is not None

    def taken_back(self, order: _Order | None, n_threads: int, take: Callable[[pa.RecordBatch], _T]) -> Iterator[_T]:
        """What is made of the rows that are booked, some at a time; the order, where there is one, takes them in.

        Parameters
        ----------
        order : optional
            Its spills are read by this thread, one after the other.
        n_threads : int
            That read parts, a row group each.
        take : callable
            Takes rows, and gives what is made of them; called in these threads.

        Raises
        ------
        PublishError
            Rows are none of this graph, though the checksum of their file is right.
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
        """The same rows: compiled code looks up their members without asking whether there are such vertices."""
        for name, (size, n_vertices) in self._members.items():
            if not _fits(batch, name, size, n_vertices):
                raise PublishError(
                    f"{path}: its column {name!r} holds no vertices of this graph; expected numbers below "
                    f"{n_vertices:,}, as many as {size!r} says; begin anew, without --resume"
                )
        return batch

    def book(self, writer: _Writer, remaining: Sequence[Task], work_done: float, n_items: int) -> None:
        """Have the journal say that all but these tasks is done, once everything that was settled is on the disk.

        Parameters
        ----------
        writer
            Settled.
        remaining : sequence of Task
            At least one.
        work_done : float
            As `Journal.add` takes it.
        n_items : int
            Results until now, those of earlier processes too.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        journal = self._journal
        assert journal is not None
        n_found, self._n_booked = n_items - self._n_booked, n_items
        writer.seal(lambda files: journal.add(remaining, work_done, files, n_found))

    def take_back_sums(self, summary: _Summary, derived: Sequence[Any]) -> None:
        """Have all take back what is booked where there are no rows.

        Parameters
        ----------
        derived : sequence of DerivedCollector
            Which give their sums, too.

        Raises
        ------
        PublishError
            They are of another shape, though the checksum of their file is right.
        """
        try:
            if (sums := taken_back(self._journal)) is not None:
                restore(sums, summary.restore, derived)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            room = None if self._journal is None else self._journal.room
            raise PublishError(
                f"{room}: its sums are of another shape ({error}); expected those of this run; begin anew, without "
                "--resume"
            ) from None

    def book_sums(self, remaining: Sequence[Task], work_done: float, summary: _Summary, derived: Sequence[Any]) -> None:
        """As `book`, where there are no rows.

        Parameters
        ----------
        remaining, work_done
            As of `book`.
        summary, derived
            As of `take_back_sums`.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        journal = self._journal
        assert journal is not None
        n_items = summary.fingerprint.n_items
        book_sums(journal, remaining, work_done, lambda: together(summary.sums(), derived), n_items)


def _fits(batch: pa.RecordBatch, name: str, size: str, n_vertices: int) -> bool:
    """Whether a column holds lists of vertices, each as long as another column says, and no longer than all of them."""
    try:
        lists, sizes = batch[name], batch[size].to_numpy()
        members = lists.flatten().to_numpy()
        are_integers = members.dtype.kind in "iu" and sizes.dtype.kind in "iu"
        fit = np.array_equal(lists.value_lengths().to_numpy(), sizes) and sizes.min() > 0 and sizes.max() <= n_vertices
        return bool(are_integers and fit and members.min() >= 0 and members.max() < n_vertices)
    except (KeyError, AttributeError, pa.ArrowInvalid):
        return False


def _ahead(make: Callable[[Any], _T], items: Iterable[Any], n_threads: int) -> Iterator[_T]:
    """What is made of each item, in their order, by threads that are a few items ahead of who takes it."""
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
