"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.tasks import Task
from pipeline.backends.arrow.block_writer import BlockWriter
from pipeline.backends.arrow.kept_rows import KeptRows
from pipeline.backends.arrow.parts import write_table
from pipeline.backends.backend import FrameWriter
from pipeline.journal import Journal
from pipeline.kept_sums import Arrays, book_sums, restore, taken_back, together
from pipeline.outputs.bicliques.arrow.summary import Summary
from pipeline.outputs.bicliques.arrow.tables import biclique_batch, block_of, canonical_order, members_batch
from pipeline.publication import Collecting, DerivedCollector
from pipeline.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]


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
    derived : sequence of DerivedCollector
        Who else takes each block in, with its keys.
    journal : Journal, optional
        Of the run: what its records have is taken back, and `checkpoint` adds to it. Without the table there are no
        rows to take back, and all of `derived` have to give their sums (`pipeline.publication.DerivedCollector`).

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
        derived: Sequence[DerivedCollector] = (),
        journal: Journal | None = None,
    ) -> None:
        self.summary = Summary(left_hashes.size, right_hashes.size)
        self.write_file: FrameWriter = lambda table, path, _schema: write_table(table, path, compression)
        self._hashes = left_hashes, right_hashes
        self._derived = derived
        self._is_written, self._in_long_form = bicliques, members
        schemas = ({"bicliques": BICLIQUES} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        self._journal, self._kept = journal, KeptRows(journal, run_path, "bicliques")
        order = canonical_order(self._kept.scratch) if sort else None
        if bicliques:
            for batch in self._kept.taken_back(order):
                self._take_in(*block_of(batch))
        elif (sums := taken_back(journal)) is not None:
            restore(sums, self.summary.restore, derived)
        self._writer = BlockWriter(
            run_path,
            schemas,
            self._rows,
            self._spread,
            compression=compression,
            order=order,
            block_bytes=block_bytes,
            is_begun=self._kept.is_begun,
        )

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
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def _sums(self) -> Arrays:
        return together(self.summary.sums(), self._derived)

    def _take_in(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        self.summary.add(block, keys)
        for each in self._derived:
            each.accept(block, keys)

    def _rows(self, block: BicliqueBlock) -> pa.RecordBatch | None:
        keys = biclique_keys(block, *self._hashes)
        self._take_in(block, keys)
        return biclique_batch(block, keys) if self._is_written else None

    def _spread(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows of `bicliques/`, and in long form those of `members/` where there are any."""
        return [batch, members_batch(batch)] if self._in_long_form else [batch]


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    output, execution = collecting.config.output, collecting.config.execution.to_execution()
    return ParquetSink(
        collecting.run_path,
        *collecting.edges.key_hashes(),
        compression=output.compression,
        bicliques=output.bicliques,
        members=output.members,
        sort=output.sort,
        block_bytes=execution.block_bytes,
        derived=collecting.derived,
        journal=collecting.journal,
    )
