"""The sink that publishes rows of any problem: blocks in host memory become Parquet, in threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline.backends.arrow.block_writer import BlockWriter, most_encoders, writing_budget
from mbe_stage.pipeline.backends.arrow.kept_rows import KeptRows
from mbe_stage.pipeline.backends.arrow.member_rows import BlockRows, MemberRows
from mbe_stage.pipeline.backends.arrow.order import Spill, SpillOrder, spilled
from mbe_stage.pipeline.backends.arrow.parts import batches_of, write_table
from mbe_stage.pipeline.backends.arrow.summaries import LockedSums, Summaries
from mbe_stage.pipeline.backends.arrow.worker_parts import WorkerParts, sink_within
from mbe_stage.pipeline.backends.arrow.written import WorkerSums, Written
from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, add_stored
from mbe_stage.runners.parts import Part
from mbe_stage.tasks import OpenWork, Task

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import Collecting, DerivedCollector

_S = TypeVar("_S", bound=LockedSums)

# Further sums may take the memory budget divided by this.
_OF_SUMS = 16


@dataclass(frozen=True, slots=True)
class _ToDerive:
    """A file of rows that a worker has written and summed up; it takes the place of a block."""

    path: Path


class RowSink(Generic[_S]):
    """Writes blocks as data sets of parts, and sums them up; the base of a problem's sink.

    Parameters
    ----------
    schemas : mapping of str to pa.Schema
        Schemas by the names of the data sets' directories, that of `rows` first. If there are none, nothing is written
        or sorted, and memory stays constant.
    spread : callable, optional
        Takes rows, and returns those of each data set in the order of `schemas`; not needed for one.
    sort : bool
        Write rows in canonical order, ascending by key.
    spills : bool
        With `sort`: leave the rows in spill files, to be merged with those of other workers.
    block_bytes : int
        Expected size of the blocks.
    memory_budget : int or None
        Bytes that decide how many threads may write; None takes the machine's free memory into account.
    journal : Journal, optional
        The run's journal: its records are restored, and `checkpoint` adds to it. Without a data set there are no rows
        to restore: the summary and all of `BlockRows.derived` then have to provide sums
        (`pipeline.problems.base.DerivedCollector`).
    parts : WorkerParts or WorkerSums, optional
        Lets remote workers write or sum up their results; `take_part` receives these.

    Notes
    -----
    `pipeline.backends.arrow.block_writer.BlockWriter` writes, in threads. Use the sink as a context manager: its exit
    closes the files, and raises any error.

    Attributes
    ----------
    summary
        The summary made by `rows`.
    seconds : dict
        Wall time of `accept` and of the exit, as ``write``, during which the engine waited.
    shares : None
        No memory is set aside from the engine's.
    write_file : FrameWriter
        Writes the other tables of the run.
    """

    shares = None

    def __init__(
        self,
        rows: BlockRows,
        run_path: Path,
        schemas: Mapping[str, pa.Schema],
        *,
        spread: Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]] | None = None,
        sort: bool = False,
        spills: bool = False,
        compression: str = "zstd",
        block_bytes: int = 16 << 20,
        memory_budget: int | None = 1 << 30,
        journal: Journal | None = None,
        parts: WorkerParts | WorkerSums | None = None,
    ) -> None:
        self.write_file: FrameWriter = lambda table, path, _schema: write_table(table, path, compression)
        self.parts = parts
        self._rows, self._run_path, self._is_written = rows, run_path, bool(schemas)
        memory_budget = writing_budget(memory_budget)
        rows.summaries.most_bytes = memory_budget // _OF_SUMS
        self._context = ExitStack()
        self._data_set = next(iter(schemas), "")
        self._kept = KeptRows(journal, run_path, self._data_set, rows.members)
        order = rows.table.left_in_spills if spills else rows.table.canonical_order
        self._order = order(self._kept.scratch) if sort else None
        if self._is_written:
            for _ in self._kept.taken_back(self._order, most_encoders(memory_budget), rows.take_back):
                pass
        else:
            self._kept.take_back_sums(rows.summaries.whole(), rows.derived)
        self._writer = BlockWriter(
            run_path,
            {} if isinstance(self._order, SpillOrder) else schemas,
            self._batch,
            (lambda batch: [batch]) if spread is None else spread,
            compression=compression,
            order=self._order,
            block_bytes=block_bytes,
            memory_budget=memory_budget,
            is_begun=self._kept.is_begun,
        )

    @property
    def summary(self) -> _S:
        """The summary of all accepted results; only valid at a checkpoint and at the end."""
        summary: _S = self._rows.summaries.whole()
        return summary

    @property
    def spills(self) -> tuple[Spill, ...]:
        """The spill files in place of parts, after the exit."""
        return self._order.spills if isinstance(self._order, SpillOrder) else ()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds per step."""
        return {"write": self._writer.seconds}

    def accept(self, block: Any) -> None:
        """Take one block; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self._writer.check()
        if len(block):
            self._writer.accept(block, self._rows.table.member_bytes(block))

    def take_part(self, part: Part) -> None:
        """Take over a worker's results for a lease: its files are moved here.

        Derived outputs read the rows in the writing threads. Files in a store are only recorded, unless derived outputs
        or sorting need their rows here.

        Raises
        ------
        PublishError
            A file is missing or incomplete, or cannot be moved.
        """
        written: Written | None = part.made
        if written is None:
            return
        if written.stored and (self._rows.derived or self._order is not None):
            assert isinstance(self.parts, WorkerParts)
            written = self.parts.fetched(written)
        if isinstance(self.parts, WorkerParts):
            written.check_arrived(self.parts.directory)
        for name, files in written.files.items():
            for path, n_bytes in files:
                adopted = self._writer.adopt(name, path)
                if name == self._data_set:
                    self._have_derived(adopted, n_bytes)
        for entry in written.stored:
            self._writer.have(entry.path.partition("/")[0], partial(self._have_stored, entry))
        for spill in written.spills:
            # Before it is moved: with an order there is one thread, which works in sequence.
            self._have_derived(spill.path, 0)
            self._writer.accept(spill, 0)
        if written.derived:
            summing: Sequence[Any] = self._rows.derived
            for each, sums in zip(summing, written.derived, strict=True):
                each.restore(sums)
        self._rows.summaries.merge(written.summary)

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
        self._writer.settle()
        summary = self._rows.summaries.whole()
        if self._is_written:
            self._kept.book(self._writer, remaining, work_done, summary.fingerprint.n_items)
        else:
            self._kept.book_sums(remaining, work_done, summary, self._rows.derived)

    def __enter__(self) -> Self:
        with ExitStack() as context:
            if self.parts is not None:
                context.enter_context(self.parts.opened())
            self._writer.__enter__()
            self._context = context.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._context:
            self._writer.__exit__(kind, error, trace)

    def _have_stored(self, entry: StoredEntry, part: Path) -> None:
        """Record that a part in a store belongs at the path that `part` returns."""
        place = part.relative_to(self._run_path.parent).as_posix()
        add_stored(self._run_path, entry.model_copy(update={"path": place}))

    def _have_derived(self, path: Path, n_bytes: int) -> None:
        """Pass the rows of a complete file to derived outputs."""
        if self._rows.derived:
            self._writer.accept(_ToDerive(path), n_bytes)

    def _batch(self, block: Any) -> pa.RecordBatch | None:
        if isinstance(block, _ToDerive):
            for batch in (spilled if block.path.suffix == ".arrow" else batches_of)(block.path):
                if batch.num_rows:
                    self._rows.derive(batch)
            return None
        if self._is_written:
            return self._rows.of(block)
        self._rows.named(block)
        return None


class ListSink(RowSink[_S]):
    """Writes one table of lists of vertices, and keeps a summary.

    Parameters
    ----------
    hashes : (n,) uint64
        Vertex hash of each key, for the key of a list: that of a biclique with these vertices on one side alone.
    derived : sequence of DerivedCollector
        Collectors that also receive each block with its keys.
    **writing
        Further parameters of `RowSink`.

    Attributes
    ----------
    name : str
        The directory of the table.
    summary_of : type
        Makes an empty summary for a number of vertices.
    is_left : bool
        True if keys take the lists as left sides.
    """

    name: ClassVar[str]
    table: ClassVar[MemberRows]
    summary_of: ClassVar[Any]
    is_left: ClassVar[bool]

    def __init__(
        self, run_path: Path, hashes: np.ndarray, *, derived: Sequence[DerivedCollector] = (), **writing: Any
    ) -> None:
        summaries = Summaries(partial(self.summary_of, hashes.size))
        rows = BlockRows(self.table, partial(self.keys, hashes), (hashes.size,), summaries, derived)
        super().__init__(rows, run_path, {self.name: self.table.schema}, **writing)

    @classmethod
    def keys(cls, hashes: np.ndarray, block: Any) -> np.ndarray:
        """Return the keys of the lists of a block."""
        ((sizes, members),) = cls.table.lists_of(block)
        none, nobody = np.zeros(sizes.size, np.int32), np.empty(0, np.int32)
        sides = (sizes, none, members, nobody) if cls.is_left else (none, sizes, nobody, members)
        return biclique_keys(BicliqueBlock(sizes.size, *sides), hashes, hashes)

    @classmethod
    def within(cls, collecting: Collecting, hashes: np.ndarray) -> Self:
        """Make the sink for the run's configuration."""
        output = collecting.config.output
        return sink_within(collecting, partial(cls, hashes=hashes, compression=output.compression, sort=output.sort))
