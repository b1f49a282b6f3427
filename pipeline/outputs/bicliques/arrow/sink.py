"""The sink that publishes: blocks of bicliques into Parquet, summed up on the way, in threads beside the engine."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.options import Execution
from pipeline.backends.arrow.parts import ROW_GROUP_BYTES, PartNames, PartWriter, write_table
from pipeline.backends.backend import FrameWriter
from pipeline.outputs.bicliques.arrow.summary import Summary
from pipeline.outputs.bicliques.arrow.tables import biclique_batch, canonical_order, members_batch
from pipeline.publication import Collecting, DerivedCollector
from pipeline.publish import as_publish_errors
from pipeline.schemas import BICLIQUES, MEMBERS

__all__ = ["ParquetSink", "sink_of"]

# Blocks that wait for an encoder: so many bytes, and never more blocks than that, however small they are.
_WAITING_BYTES = 64 << 20
_MOST_WAITING = 64
# Each takes up to 100 MB, and the file system has to keep up with all of them.
_MOST_ENCODERS = 8


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

    Notes
    -----
    `accept` only hands the block over, and waits while the encoders are behind. There is one at first; another is
    started when all are busy and a row group has come for each, up to the number of cores; each writes parts of its
    own. Sorted rows have one encoder. Use the sink as a context manager: leaving it closes the files, and raises what
    went wrong.

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
    ) -> None:
        self.summary = Summary(left_hashes.size, right_hashes.size)
        self.seconds = {"write": 0.0}
        self.write_file: FrameWriter = lambda table, path, _schema: write_table(table, path, compression)
        self._path = run_path
        self._hashes = left_hashes, right_hashes
        self._derived = derived
        self._compression = compression
        schemas = ({"bicliques": BICLIQUES} if bicliques else {}) | ({"members": MEMBERS} if members else {})
        self._parts = [(PartNames(run_path / name), schema) for name, schema in schemas.items()]
        self._order = canonical_order(run_path / ".sort") if sort else None
        self._blocks: queue.SimpleQueue[BicliqueBlock | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(min(_MOST_WAITING, max(1, _WAITING_BYTES // block_bytes)))
        self._failure: BaseException | None = None
        self._stopped = False
        self._most_encoders = 1 if sort else min(_MOST_ENCODERS, Execution().worker_count)
        self._encoders: list[threading.Thread] = []
        self._accepted_bytes = 0

    def accept(self, block: BicliqueBlock) -> None:
        """Take one block in; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        if self._failure is not None:
            raise self._failure
        if not block.n_bicliques:
            return
        start = time.perf_counter()
        self._hand_over(block)
        self.seconds["write"] += time.perf_counter() - start

    def _hand_over(self, block: BicliqueBlock) -> None:
        assert block.left_members is not None
        assert block.right_members is not None
        self._accepted_bytes += block.left_members.nbytes + block.right_members.nbytes
        all_busy = not self._blocks.empty()
        self._room.acquire()
        self._blocks.put(block)
        n_encoders = len(self._encoders)
        if all_busy and n_encoders < self._most_encoders and self._accepted_bytes > n_encoders * ROW_GROUP_BYTES:
            self._start_encoder()

    def __enter__(self) -> ParquetSink:
        # Not before: only who has entered is sure to leave, which ends the threads.
        self._start_encoder()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        start = time.perf_counter()
        try:
            self._stopped = kind is not None
            self._end_encoders()
        except BaseException:
            # Ctrl-C while the last rows are written: the threads must be gone before anybody removes their files.
            self._stopped = True
            self._end_encoders()
            raise
        if kind is not None:
            return
        self._attempt(self._write_missing_parts)
        self.seconds["write"] += time.perf_counter() - start
        if self._failure is not None:
            raise self._failure

    def _start_encoder(self) -> None:
        encoder = threading.Thread(target=self._encode, name="parquet-writer", daemon=True)
        self._encoders.append(encoder)
        encoder.start()

    def _end_encoders(self) -> None:
        self._blocks.put(None)
        for encoder in self._encoders:
            # None: it could not be started, and that is the error to report.
            if encoder.ident is not None:
                encoder.join()

    def _encode(self) -> None:
        """One encoder: until the sentinel; after a failure it only empties the queue, so nobody waits for it."""
        writers = [PartWriter(names, schema, self._compression) for names, schema in self._parts]
        while (block := self._blocks.get()) is not None:
            self._room.release()
            self._attempt(self._write, block, writers)
            # Not kept alive while waiting for the next one.
            del block
        # The sentinel is for every encoder.
        self._blocks.put(None)
        self._attempt(self._finish, writers)
        if self._failure is not None or self._stopped:
            for writer in writers:
                writer.abort()

    def _attempt(self, action: Callable[..., None], *arguments: object) -> None:
        if self._failure is not None or self._stopped:
            return
        try:
            with as_publish_errors(self._path):
                action(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that accepts
            self._failure = error

    def _write(self, block: BicliqueBlock, writers: list[PartWriter]) -> None:
        keys = biclique_keys(block, *self._hashes)
        self.summary.add(block, keys)
        for each in self._derived:
            each.accept(block, keys)
        if not writers:
            return
        batch = biclique_batch(block, keys)
        if self._order is None:
            _emit(batch, writers)
        else:
            self._order.add(batch)

    def _finish(self, writers: list[PartWriter]) -> None:
        for batch in self._order.batches() if self._order is not None else ():
            if self._stopped:
                return
            _emit(batch, writers)
        for writer in writers:
            writer.close()

    def _write_missing_parts(self) -> None:
        """A data set without rows gets one empty part, so that it can be read."""
        for names, schema in self._parts:
            if names.n_taken == 0:
                write_table(schema.empty_table(), names.take(), self._compression)


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
    )


def _emit(batch: pa.RecordBatch, writers: list[PartWriter]) -> None:
    """Rows of `bicliques/` to its writer, and in long form to that of `members/` where there is one."""
    bicliques, *members = writers
    bicliques.write(batch)
    for writer in members:
        writer.write(members_batch(batch))
