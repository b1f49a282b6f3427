"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.runners.parts import Part
from mbe_stage.tasks import Task
from pipeline.backends.arrow.block_writer import BlockWriter
from pipeline.backends.arrow.kept_rows import KeptRows
from pipeline.backends.arrow.order import KeyOrder, Spill, SpillOrder
from pipeline.backends.arrow.parts import write_table
from pipeline.backends.arrow.summaries import Summaries
from pipeline.backends.backend import FrameWriter
from pipeline.errors import PublishError
from pipeline.journal import Journal
from pipeline.kept_sums import Arrays, book_sums, restore, taken_back, together
from pipeline.outputs.bicliques.arrow.summary import Summary
from pipeline.outputs.bicliques.arrow.tables import (
    biclique_batch,
    block_of,
    canonical_order,
    left_in_spills,
    members_batch,
)
from pipeline.outputs.bicliques.arrow.worker_parts import WorkerParts, Written
from pipeline.outputs.bicliques.largest import n_shown
from pipeline.publication import Collecting, DerivedCollector
from pipeline.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]

log = logging.getLogger(__name__)


class ParquetSink:
    """Writes `bicliques/` unless it is left out, and `members/` when asked, under a run path; keeps a `Summary`.

    Parameters
    ----------
    run_path : Path
    left_hashes, right_hashes : (n,) uint64
        Vertex hashes, as `pipeline.backends.arrow.hashes.key_hashes` gives them.
    compression : str
    bicliques : bool
        Write the table; without it there is no long form and no order, and nothing grows with what passes.
    members : bool
        Also write the long form.
    sort : bool
        Rows in canonical order, ascending by `biclique_key`.
    block_bytes : int
        Size of the blocks that will come.
    memory_budget : int
        Bytes that decide how many threads may write.
    n_shown : int
        How many of the largest the report shows; none are kept for 0.
    derived : sequence of DerivedCollector
        Who else takes each block in, with its keys.
    journal : Journal, optional
        Of the run: what its records have is taken back, and `checkpoint` adds to it. Without the table there are no
        rows to take back, and all of `derived` have to give their sums (`pipeline.publication.DerivedCollector`).
    spills : bool
        With `sort`: leave the rows in spill files, for the sink that puts those of several workers in order.
    parts : WorkerParts, optional
        How workers elsewhere write what they find; `take_part` takes that over.

    Notes
    -----
    `pipeline.backends.arrow.block_writer.BlockWriter` writes, in threads. Use the sink as a context manager: leaving it
    closes the files, and raises what went wrong.

    Attributes
    ----------
    summary : Summary
    seconds : dict
        Wall time of `accept` and of leaving, as ``write``: what the engine waited for.
    shares : None
        Of the memory that the engine takes nothing is set aside.
    write_file : FrameWriter
        How the other tables of the run are to be written.
    """

    shares = None

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(
        self,
        run_path: Path,
        left_hashes: np.ndarray,
        right_hashes: np.ndarray,
        *,
        compression: str = "zstd",
        bicliques: bool = True,
        members: bool = False,
        sort: bool = False,
        block_bytes: int = 16 << 20,
        memory_budget: int = 1 << 30,
        n_shown: int = 20,
        derived: Sequence[DerivedCollector] = (),
        journal: Journal | None = None,
        spills: bool = False,
        parts: WorkerParts | None = None,
    ) -> None:
        self._summaries = Summaries(lambda: Summary(left_hashes.size, right_hashes.size, n_shown))
        self.write_file: FrameWriter = lambda table, path, _schema: write_table(table, path, compression)
        self._hashes = left_hashes, right_hashes
        self._derived = derived
        self._is_written, self._in_long_form = bicliques, members
        schemas = ({"bicliques": BICLIQUES} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        if sort and spills:
            schemas = {}
        self.parts = parts
        self._parts_context = ExitStack()
        self._journal, self._kept = journal, KeptRows(journal, run_path, "bicliques")
        order: KeyOrder | None = None
        if sort:
            order = (left_in_spills if spills else canonical_order)(self._kept.scratch)
        self._order = order
        if bicliques:
            for batch in self._kept.taken_back(order):
                self._take_in(*block_of(batch))
        elif (sums := taken_back(journal)) is not None:
            restore(sums, self._summaries.whole().restore, derived)
        self._writer = BlockWriter(
            run_path,
            schemas,
            self._rows,
            self._spread,
            compression=compression,
            order=order,
            block_bytes=block_bytes,
            memory_budget=memory_budget,
            is_begun=self._kept.is_begun,
        )

    @property
    def summary(self) -> Summary:
        """Of all that was accepted; asked while nothing is being written: at a checkpoint, and in the end."""
        return self._summaries.whole()

    @property
    def spills(self) -> tuple[Spill, ...]:
        """What was left in the place of parts, once the context was left."""
        return self._order.spills if isinstance(self._order, SpillOrder) else ()

    @property
    def seconds(self) -> dict[str, float]:
        """As above."""
        return {"write": self._writer.seconds}

    def accept(self, block: BicliqueBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self._writer.check()
        if block.n_bicliques:
            assert block.left_members is not None
            assert block.right_members is not None
            self._writer.accept(block, block.left_members.nbytes + block.right_members.nbytes)

    def take_part(self, part: Part) -> None:
        """Take over what a worker has written of the bicliques below the roots of a lease: its files are moved here.

        Raises
        ------
        PublishError
            A file is not here, or not whole, or cannot be moved.
        """
        written: Written | None = part.made
        if written is None:
            return
        for name, files in written.files.items():
            for path, n_bytes in files:
                _check_arrived(path, n_bytes)
                self._writer.adopt(name, path)
        for spill in written.spills:
            _check_arrived(spill.path, spill.n_bytes)
            self._writer.accept(spill, 0)
        self._summaries.merge(written.summary)

    def checkpoint(self, remaining: Sequence[Task], work_done: float) -> None:
        """Have the journal say that all but these tasks is done, once everything that was accepted is on the disk.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        if self._journal is None or not remaining:
            # Nothing is left: the run ends now, and publishes.
            return
        self._writer.settle()
        n_items = self.summary.fingerprint.n_items
        if self._is_written:
            self._kept.book(self._writer, remaining, work_done, n_items)
        else:
            book_sums(self._journal, remaining, work_done, self._sums, n_items)

    def __enter__(self) -> ParquetSink:
        with ExitStack() as context:
            if self.parts is not None:
                context.enter_context(self.parts.directory_made())
            self._writer.__enter__()
            self._parts_context = context.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._parts_context:
            self._writer.__exit__(kind, error, trace)

    def _sums(self) -> Arrays:
        return together(self.summary.sums(), self._derived)

    def _take_in(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        self._summaries.add(block, keys)
        for each in self._derived:
            each.accept(block, keys)

    def _rows(self, block: BicliqueBlock) -> pa.RecordBatch | None:
        keys = biclique_keys(block, *self._hashes)
        self._take_in(block, keys)
        return biclique_batch(block, keys) if self._is_written else None

    def _spread(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows of `bicliques/`, and in long form those of `members/` where there are any."""
        return [batch, members_batch(batch)] if self._in_long_form else [batch]


def _check_arrived(path: Path, n_bytes: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != n_bytes:
        raise PublishError(
            f"{path}: {'is missing' if found is None else f'has {found:,} bytes'}; expected {n_bytes:,} bytes, which a "
            "worker has written; see what its host and this one share, or have results sent: workers that cannot write "
            "there do that"
        )


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    output, execution = collecting.config.output, collecting.config.execution.to_execution()
    hashes = collecting.edges.key_hashes()
    return ParquetSink(
        collecting.run_path,
        *hashes,
        compression=output.compression,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        block_bytes=execution.block_bytes,
        memory_budget=execution.memory_budget_bytes,
        n_shown=n_shown(output),
        derived=collecting.derived,
        journal=collecting.journal,
        parts=_parts(collecting, hashes),
    )


def _parts(collecting: Collecting, hashes: tuple[np.ndarray, np.ndarray]) -> WorkerParts | None:
    """How workers write; None where this process does the search, or where more than tables is made of results."""
    if collecting.config.execution.runner == "local":
        return None
    if collecting.derived:
        log.info("derived outputs take every biclique in: workers send what they find, and it is written here")
        return None
    output, run_path = collecting.config.output, collecting.run_path.resolve()
    return WorkerParts(
        # Workers of a run that was killed may still write where it told them to.
        run_path.with_name(f"{run_path.name}.{uuid.uuid4().hex[:8]}.parts"),
        *hashes,
        compression=output.compression,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        n_shown=n_shown(output),
    )
