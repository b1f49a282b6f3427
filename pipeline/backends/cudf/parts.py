"""A Parquet data set written in parts by a few threads: while one encodes, others copy and write."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import cudf
import cupy as cp
import pyarrow as pa

from pipeline.backends.backend import FrameWriter
from pipeline.publish import as_publish_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DataSet", "WriterPool", "frame_bytes"]


class WriterPool:
    """Threads that write frames as files; as many may wait as write, so that device memory stays bounded.

    A context: leaving it waits for the last file and raises what went wrong; left by an exception, it drops what waits.

    Parameters
    ----------
    n_threads : int
    write_file : FrameWriter
    """

    def __init__(self, n_threads: int, write_file: FrameWriter) -> None:
        self._write_file = write_file
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="parquet-writer")
        self._room = threading.BoundedSemaphore(2 * n_threads)
        self._files: list[Future[None]] = []

    def write(self, frame: cudf.DataFrame, path: Path, schema: pa.Schema) -> None:
        """Have a file written; waits while too many are under way.

        Raises
        ------
        PublishError
            An earlier file could not be written.
        """
        self._room.acquire()
        self._raise_failures()
        # Whatever made the frame must be done: the writer works on another stream.
        cp.cuda.get_current_stream().synchronize()
        file = self._pool.submit(self._write, frame, path, schema)
        file.add_done_callback(lambda _: self._room.release())
        self._files.append(file)

    def _write(self, frame: cudf.DataFrame, path: Path, schema: pa.Schema) -> None:
        with as_publish_errors(path):
            self._write_file(frame, path, schema)

    def __enter__(self) -> WriterPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(cancel_futures=kind is not None)
        finally:
            # Ctrl-C while the last files are written: the threads must be gone before anybody removes them.
            self._pool.shutdown(cancel_futures=True)
        if kind is None:
            self._raise_failures(everything=True)

    def _raise_failures(self, everything: bool = False) -> None:
        done = [file for file in self._files if everything or file.done()]
        self._files = [file for file in self._files if file not in done]
        for file in done:
            file.result()


class DataSet:
    """Collects frames into parts of bounded size: ``part-00000.parquet`` and so on, in the order they came.

    Parameters
    ----------
    directory : Path
        Made here; must not exist.
    schema : pa.Schema
    writers : WriterPool
    part_bytes : int
        Frames are kept until they hold so many bytes on the device, and then written as one part.
    """

    def __init__(self, directory: Path, schema: pa.Schema, writers: WriterPool, part_bytes: int) -> None:
        directory.mkdir()
        self._directory = directory
        self._schema = schema
        self._writers = writers
        self._part_bytes = part_bytes
        self._pending: list[cudf.DataFrame] = []
        self._pending_bytes = 0
        self._n_parts = 0

    def add(self, frame: cudf.DataFrame) -> None:
        """Take in some rows."""
        n_bytes = frame_bytes(frame)
        if self._pending and self._pending_bytes + n_bytes > self._part_bytes:
            self._flush()
        self._pending.append(frame)
        self._pending_bytes += n_bytes
        if self._pending_bytes >= self._part_bytes:
            self._flush()

    def finish(self, empty: cudf.DataFrame) -> None:
        """Write what is pending; a data set without rows gets one part from `empty`, so that it can be read."""
        if self._n_parts == 0 and not self._pending:
            self._pending = [empty]
        if self._pending:
            self._flush()

    def _flush(self) -> None:
        frames, self._pending, self._pending_bytes = self._pending, [], 0
        path = self._directory / f"part-{self._n_parts:05d}.parquet"
        self._n_parts += 1
        self._writers.write(_joined(frames), path, self._schema)


def frame_bytes(frame: cudf.DataFrame) -> int:
    """Device memory of a frame's values."""
    return int(frame.memory_usage(index=False).sum())


def _joined(frames: Sequence[cudf.DataFrame]) -> cudf.DataFrame:
    return frames[0] if len(frames) == 1 else cudf.concat(frames, ignore_index=True)
