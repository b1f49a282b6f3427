"""The sink that publishes: blocks of cliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.tasks import Task
from pipeline.backends.arrow.block_writer import BlockWriter
from pipeline.backends.arrow.kept_rows import KeptRows
from pipeline.backends.arrow.parts import write_table
from pipeline.backends.arrow.summaries import Summaries
from pipeline.backends.backend import FrameWriter
from pipeline.journal import Journal
from pipeline.outputs.cliques.arrow.summary import Summary
from pipeline.outputs.cliques.arrow.tables import block_of, canonical_order, clique_batch
from pipeline.outputs.cliques.query import hashes_of
from pipeline.outputs.cliques.schemas import CLIQUES
from pipeline.publication import Collecting, DerivedCollector

__all__ = ["ParquetSink", "clique_keys", "sink_of"]


def clique_keys(block: CliqueBlock, hashes: np.ndarray) -> np.ndarray:
    """The key of every clique of a block, (n,) int64: that of a biclique with these left vertices and no right one.

    Parameters
    ----------
    block : CliqueBlock
        At `Detail.MEMBERS`.
    hashes : (n,) uint64
        Vertex hash of each key as a left one, whatever column it is from.
    """
    none = np.zeros(block.n_cliques, np.int32)
    members = BicliqueBlock(block.n_cliques, block.sizes, none, block.members, np.empty(0, np.int32))
    return biclique_keys(members, hashes, hashes)


class ParquetSink:
    """Writes `cliques/` under a run path, in threads beside the engine; keeps a `Summary`.

    Parameters
    ----------
    run_path : Path
    hashes : (n,) uint64
        As `clique_keys` takes them.
    compression : str
    sort : bool
        Rows in canonical order, ascending by `clique_key`.
    block_bytes : int
        Size of the blocks that will come.
    memory_budget : int
        Bytes that decide how many threads may write.
    derived : sequence of DerivedCollector
        Who else takes each block in, with its keys.
    journal : Journal, optional
        Of the run: what its records have is taken back, and `checkpoint` adds to it.

    Attributes
    ----------
    summary : Summary
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
        hashes: np.ndarray,
        *,
        compression: str = "zstd",
        sort: bool = False,
        block_bytes: int = 16 << 20,
        memory_budget: int = 1 << 30,
        derived: Sequence[DerivedCollector] = (),
        journal: Journal | None = None,
    ) -> None:
        self._summaries = Summaries(lambda: Summary(hashes.size))
        self.write_file: FrameWriter = lambda table, path, _schema: write_table(table, path, compression)
        self._hashes, self._derived = hashes, derived
        self._kept = KeptRows(journal, run_path, "cliques")
        order = canonical_order(self._kept.scratch) if sort else None
        for batch in self._kept.taken_back(order):
            self._take_in(*block_of(batch))
        self._writer = BlockWriter(
            run_path,
            {"cliques": CLIQUES},
            self._rows,
            lambda batch: [batch],
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
    def seconds(self) -> dict[str, float]:
        """``write``: what the engine waited for."""
        return {"write": self._writer.seconds}

    def accept(self, block: CliqueBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self._writer.check()
        if block.n_cliques:
            assert block.members is not None
            self._writer.accept(block, block.members.nbytes)

    def checkpoint(self, remaining: Sequence[Task], work_done: float) -> None:
        """Have the journal say that all but these tasks is done, once everything that was accepted is on the disk.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        # Where nothing is left the run ends now, and publishes.
        if remaining:
            self._writer.settle()
            self._kept.book(self._writer, remaining, work_done, self.summary.fingerprint.n_items)

    def __enter__(self) -> ParquetSink:
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def _rows(self, block: CliqueBlock) -> pa.RecordBatch:
        keys = clique_keys(block, self._hashes)
        self._take_in(block, keys)
        return clique_batch(block, keys)

    def _take_in(self, block: CliqueBlock, keys: np.ndarray) -> None:
        self._summaries.add(block, keys)
        for each in self._derived:
            each.accept(block, keys)


def sink_of(collecting: Collecting) -> ParquetSink:
    """The sink of a run, as its configuration asks for it."""
    config = collecting.config
    return ParquetSink(
        collecting.run_path,
        hashes_of(config.asked, collecting.edges, collecting.backend),
        compression=config.output.compression,
        sort=config.output.sort,
        block_bytes=config.execution.block_bytes,
        memory_budget=config.execution.memory_budget,
        derived=collecting.derived,
        journal=collecting.journal,
    )
