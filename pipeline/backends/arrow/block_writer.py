"""Write blocks of results as Parquet in threads, while the engine searches."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.order import KeyOrder, Spill
from mbe_stage.pipeline.backends.arrow.parts import ROW_GROUP_BYTES, PartNames, PartWriter, write_table
from mbe_stage.pipeline.publish.run_files import as_publish_errors

# Limit on the bytes of blocks waiting for encoders, and on their number, however small they are. Results come in
# bursts: one block may wait for each encoder.
_WAITING_BYTES = 64 << 20
_MOST_WAITING = 64
# Maximum memory of one encoder; the run's budget limits their number.
_ENCODER_BYTES = 128 << 20
_LEAST_BUDGET = 1 << 30
_MEMORY_FACTS = "/proc/meminfo"
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def writing_budget(memory_budget: int | None) -> int:
    """Return the bytes for writing: the run's budget or, without one, a quarter of the free memory."""
    return max(_LEAST_BUDGET, _free_bytes() // 4) if memory_budget is None else memory_budget


def most_encoders(memory_budget: int) -> int:
    """Return how many threads that convert between blocks and files fit into that many bytes."""
    return min(max(1, memory_budget // _ENCODER_BYTES), Execution().worker_count)


def writers_bytes(memory_budget: int | None) -> int:
    """Return the maximum memory of all encoders of a run with that budget."""
    return most_encoders(writing_budget(memory_budget)) * _ENCODER_BYTES


def _free_bytes() -> int:
    """Return the free memory of this machine or, if it has less, all memory of the container."""
    known = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _CONTAINER_LIMITS:
        # Without a limit the file is missing, or says "max".
        with suppress(OSError, ValueError):
            known.append(int(Path(path).read_text()))
    with suppress(OSError):
        facts = Path(_MEMORY_FACTS).read_text()
        known += [1024 * int(kilobytes) for kilobytes in re.findall(r"^MemAvailable: +(\d+)", facts, re.MULTILINE)]
    return min(known)


class _Pause:
    """A message that each encoder takes once per checkpoint: it completes its parts and waits."""

    def __init__(self) -> None:
        self.complete = threading.Semaphore(0)
        self.is_over = threading.Event()


class BlockWriter:
    """Writes blocks as data sets of parts.

    Parameters
    ----------
    schemas : mapping of str to pa.Schema
        Schemas by the names of the data sets' directories; if there are none, nothing is written.
    rows : callable
        Takes a block in one of the threads, and returns its rows as one batch; None if nothing is to be written.
    spread : callable
        Takes such a batch, and returns the rows of each data set in the order of `schemas`.
    order : KeyOrder or None
        Takes batches and returns them sorted; then there is one thread.
    block_bytes : int
        Expected size of the blocks.
    memory_budget : int
        Memory limit of all encoders together, in bytes.
    is_begun : bool
        True if parts of an earlier process exist.

    Notes
    -----
    `accept` only queues the block, and waits while the encoders are behind. There is one encoder at first. Another
    starts when all are busy and each has received a row group, up to the number of cores and the memory limit. Each
    writes parts of its own. Use the writer as a context manager: its exit closes the files, and raises any error.

    Attributes
    ----------
    seconds : float
        Wall time of `accept` and of the exit, during which the engine waited.
    """

    def __init__(
        self,
        run_path: Path,
        schemas: Mapping[str, pa.Schema],
        rows: Callable[[Any], pa.RecordBatch | None],
        spread: Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]],
        *,
        compression: str,
        order: KeyOrder | None,
        block_bytes: int,
        memory_budget: int,
        is_begun: bool = False,
    ) -> None:
        self.seconds = 0.0
        self._path, self._compression = run_path, compression
        self._parts = [(PartNames(run_path / name, is_begun=is_begun), schema) for name, schema in schemas.items()]
        self._rows, self._spread, self._order = rows, spread, order
        self._blocks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._stopped = False
        self._most_encoders = 1 if order is not None else most_encoders(memory_budget)
        waiting_bytes = max(_WAITING_BYTES, self._most_encoders * ROW_GROUP_BYTES)
        self._slots = threading.Semaphore(min(_MOST_WAITING, max(1, waiting_bytes // block_bytes)))
        self._encoders: list[threading.Thread] = []
        self._accepted_bytes = 0
        self._spilled: list[Path] = []
        self._settled: list[Path] = []
        self._sealing: threading.Thread | None = None

    def accept(self, block: Any, n_bytes: int) -> None:
        """Queue a block of that many bytes or, with an order, a `Spill`; its arrays are kept until they are written.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self.check()
        start = time.perf_counter()
        self._accepted_bytes += n_bytes
        all_busy = not self._blocks.empty()
        self._slots.acquire()
        self._blocks.put(block)
        n_encoders = len(self._encoders)
        if all_busy and n_encoders < self._most_encoders and self._accepted_bytes > n_encoders * ROW_GROUP_BYTES:
            self._start_encoder()
        self.seconds += time.perf_counter() - start

    def adopt(self, name: str, path: Path) -> Path:
        """Move a complete part of a data set from another process here, and return its new path.

        Raises
        ------
        PublishError
            It cannot be moved.
        """
        return self.have(name, lambda part: os.replace(path, part))

    def have(self, name: str, take: Callable[[Path], None]) -> Path:
        """Add a complete part that another process has written, and return its path.

        Parameters
        ----------
        take : callable
            Takes that path, and puts the part there.

        Raises
        ------
        PublishError
            The part cannot be put there.
        """
        names = next(names for names, _ in self._parts if names.name == name)
        with as_publish_errors(self._path):
            part = names.take()
            take(part)
        names.complete(part)
        return part

    def check(self) -> None:
        """Raise the error of a failed encoder, if any.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Complete files with everything accepted so far; `seal` then takes them.

        Raises
        ------
        PublishError
            A block could not be written.
        """
        self.check()
        start = time.perf_counter()
        pause = _Pause()
        try:
            for _ in self._encoders:
                self._blocks.put(pause)
            for _ in self._encoders:
                pause.complete.acquire()
            # While the encoders wait: files that they complete later belong to the next checkpoint.
            complete = [path for names, _ in self._parts for path in names.take_complete()]
            self._settled += [*self._spilled, *complete]
            self._spilled = []
        finally:
            pause.is_over.set()
        self.seconds += time.perf_counter() - start
        self.check()

    def seal(self, seal: Callable[[list[Path]], None]) -> None:
        """Pass on the files settled since the last call: parts or, with an order, its spills.

        Parameters
        ----------
        seal : callable
            Takes the files. It is called in a separate thread, one call at a time, while later blocks are written.

        Raises
        ------
        PublishError
            An earlier call of `seal` failed.
        """
        start = time.perf_counter()
        if self._sealing is not None:
            self._sealing.join()
        self.check()
        files, self._settled = self._settled, []
        sealing = threading.Thread(target=self._seal, args=(seal, files), name="checkpoint", daemon=True)
        sealing.start()
        self._sealing = sealing
        self.seconds += time.perf_counter() - start

    def __enter__(self) -> BlockWriter:
        # Not earlier: only an entered context is sure to exit, which ends the threads.
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
            # Ctrl-C while the last rows are written: the threads must end before their files are removed.
            self._stopped = True
            self._end_encoders()
            raise
        if kind is not None:
            return
        self._attempt(self._write_missing_parts)
        self.seconds += time.perf_counter() - start
        if self._failure is not None:
            raise self._failure

    def _start_encoder(self) -> None:
        encoder = threading.Thread(target=self._encode, name="parquet-writer", daemon=True)
        self._encoders.append(encoder)
        encoder.start()

    def _end_encoders(self) -> None:
        self._blocks.put(None)
        for encoder in self._encoders:
            # None means that the thread could not start, and that error is reported.
            if encoder.ident is not None:
                encoder.join()
        if self._sealing is not None:
            self._sealing.join()

    def _encode(self) -> None:
        """Run an encoder until the sentinel; after a failure it only empties the queue, so the engine does not wait."""
        writers = [PartWriter(names, schema, self._compression) for names, schema in self._parts]
        while (block := self._blocks.get()) is not None:
            if isinstance(block, _Pause):
                self._attempt(self._settle, writers)
                block.complete.release()
                block.is_over.wait()
                continue
            self._slots.release()
            self._attempt(self._write, block, writers)
            # Free the block while waiting for the next one.
            del block
        # Pass the sentinel on to the next encoder.
        self._blocks.put(None)
        self._attempt(self._finish, writers)
        if self._failure is not None or self._stopped:
            for writer in writers:
                writer.abort()

    def _seal(self, seal: Callable[[list[Path]], None], files: list[Path]) -> None:
        """Seal settled files, which are complete even if an error has ended the run meanwhile."""
        try:
            with as_publish_errors(self._path):
                seal(files)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that accepts
            self._failure = error

    def _attempt(self, action: Callable[..., None], *arguments: object) -> None:
        if self._failure is not None or self._stopped:
            return
        try:
            with as_publish_errors(self._path):
                action(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that accepts
            self._failure = error

    def _write(self, block: Any, writers: list[PartWriter]) -> None:
        if isinstance(block, Spill):
            assert self._order is not None
            self._order.adopt(block)
            return
        batch = self._rows(block)
        if batch is None:
            return
        if self._order is None:
            self._emit(batch, writers)
        else:
            self._order.add(batch)

    def _settle(self, writers: list[PartWriter]) -> None:
        """Write everything in memory; with an order there is one encoder, and parts are only written at the end."""
        if self._order is not None:
            self._spilled = self._order.checkpoint()
        self._complete(writers)

    def _complete(self, writers: list[PartWriter]) -> None:
        """Close the open parts; later rows go into new ones."""
        for writer in writers:
            writer.close()

    def _finish(self, writers: list[PartWriter]) -> None:
        for batch in self._order.batches() if self._order is not None else ():
            if self._stopped:
                return
            self._emit(batch, writers)
        self._complete(writers)

    def _emit(self, batch: pa.RecordBatch, writers: list[PartWriter]) -> None:
        for writer, rows in zip(writers, self._spread(batch), strict=True):
            writer.write(rows)

    def _write_missing_parts(self) -> None:
        """Give a data set without rows one empty part, so it can be read."""
        for names, schema in self._parts:
            if names.n_taken == 0:
                write_table(schema.empty_table(), names.take(), self._compression)
