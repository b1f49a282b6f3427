"""A Parquet data set written in parts by a few threads: while one encodes, others copy and write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import cudf
import cupy as cp
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.parts import PartNames
from mbe_stage.pipeline.backends.backend import FrameWriter
from mbe_stage.pipeline.publish.run_files import as_publish_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


class WriterPool:
    """Threads that write frames as files; as many frames may wait as are written, to bound device memory.

    Another thread runs `book`. Use it as a context manager: its exit waits for the last file and raises any error.
    After an exception it drops the waiting frames.
    """

    def __init__(self, n_threads: int, write_file: FrameWriter) -> None:
        self._write_file = write_file
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="parquet-writer")
        self._booking = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._slots = threading.BoundedSemaphore(2 * n_threads)
        self._files: list[Future[None]] = []
        self._booked: Future[None] | None = None

    def write(self, frame: cudf.DataFrame, names: PartNames, schema: pa.Schema) -> None:
        """Queue a part of a data set for writing; wait while too many are in progress.

        Raises
        ------
        PublishError
            An earlier file could not be written.
        """
        self._slots.acquire()
        self._raise_failures()
        # The writer uses another stream, so the frame must be complete.
        cp.cuda.get_current_stream().synchronize()
        # Names are taken here, so that sorted rows are in the order of the names.
        file = self._pool.submit(self._write, frame, names.take(), names, schema)
        file.add_done_callback(lambda _: self._slots.release())
        self._files.append(file)

    def settle(self) -> None:
        """Wait for all files in progress.

        Raises
        ------
        PublishError
            One could not be written.
        """
        self._raise_failures(everything=True)

    def book(self, directory: Path, action: Callable[[], None]) -> None:
        """Run an action in a separate thread while others write, after the previous action has finished.

        Raises
        ------
        PublishError
            The previous action failed.
        """

        def guarded() -> None:
            with as_publish_errors(directory):
                action()

        self._raise_failure_to_book()
        self._booked = self._booking.submit(guarded)

    def _write(self, frame: cudf.DataFrame, path: Path, names: PartNames, schema: pa.Schema) -> None:
        with as_publish_errors(path):
            self._write_file(frame, path, schema)
        names.complete(path)

    def __enter__(self) -> WriterPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(cancel_futures=kind is not None)
        finally:
            # Ctrl-C while the last files are written: the threads must end before the files are removed.
            self._pool.shutdown(cancel_futures=True)
            self._booking.shutdown()
        if kind is None:
            self._raise_failures(everything=True)
            self._raise_failure_to_book()

    def _raise_failure_to_book(self) -> None:
        if self._booked is not None:
            self._booked.result()

    def _raise_failures(self, everything: bool = False) -> None:
        done = [file for file in self._files if everything or file.done()]
        self._files = [file for file in self._files if file not in done]
        for file in done:
            file.result()


class DataSet:
    """Collects frames into parts of bounded size, in order of arrival.

    Parameters
    ----------
    part_bytes : int
        Frames are collected up to this size on the device, and then written as one part.
    """

    def __init__(self, names: PartNames, schema: pa.Schema, writers: WriterPool, part_bytes: int) -> None:
        self.names = names
        self._schema = schema
        self._writers = writers
        self._part_bytes = part_bytes
        self._pending: list[cudf.DataFrame] = []
        self._pending_bytes = 0

    def add(self, frame: cudf.DataFrame) -> None:
        """Add some rows."""
        n_bytes = frame_bytes(frame)
        if self._pending and self._pending_bytes + n_bytes > self._part_bytes:
            self._flush()
        self._pending.append(frame)
        self._pending_bytes += n_bytes
        if self._pending_bytes >= self._part_bytes:
            self._flush()

    def flush(self) -> None:
        """Queue pending rows for writing as a part."""
        if self._pending:
            self._flush()

    def finish(self, empty: cudf.DataFrame) -> None:
        """Write pending rows; a data set without rows gets one part from `empty`, so it can be read."""
        if self.names.n_taken == 0 and not self._pending:
            self._pending = [empty]
        self.flush()

    def _flush(self) -> None:
        frames, self._pending, self._pending_bytes = self._pending, [], 0
        self._writers.write(_joined(frames), self.names, self._schema)


def frame_bytes(frame: cudf.DataFrame) -> int:
    """Return the device memory of a frame's values."""
    return int(frame.memory_usage(index=False).sum())


def _joined(frames: Sequence[cudf.DataFrame]) -> cudf.DataFrame:
    return frames[0] if len(frames) == 1 else cudf.concat(frames, ignore_index=True)
