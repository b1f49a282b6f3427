"""Workers of a cluster write what they find: the sink of a run for one lease, in a directory that all of them share.

What a worker has written counts once the process that publishes has moved it below its run. What a lease that comes
late, or of which the worker was lost, has left is moved by nobody, and removed with the directory.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.options import Execution
from pipeline.backends.arrow.order import Spill
from pipeline.errors import PublishError
from pipeline.publish import as_publish_errors

if TYPE_CHECKING:
    from pipeline.backends.arrow.row_sink import RowSink
    from pipeline.publication import Collecting

__all__ = ["WorkerParts", "Written", "parts_of"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """What a lease has left in the directory.

    Attributes
    ----------
    files : mapping of str to tuple of (Path, int)
        Complete parts and their bytes, by data set.
    spills : tuple of Spill
        The rows in the place of parts, where they will be sorted.
    summary
        Of all of them, as the problem sums up.
    """

    files: dict[str, tuple[tuple[Path, int], ...]]
    spills: tuple[Spill, ...]
    summary: Any

    def check_arrived(self) -> None:
        """Refuse what is not here yet, or not whole.

        Raises
        ------
        PublishError
            With the file.
        """
        for each in self.files.values():
            for path, n_bytes in each:
                _check_arrived(path, n_bytes)
        for spill in self.spills:
            _check_arrived(spill.path, spill.n_bytes)


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """See `mbe_stage.runners.parts.PartMaker`.

    Attributes
    ----------
    directory : Path
        Absolute; here and where the workers are.
    sink : callable
        Takes a directory, and what `RowSink` says of memory and spills, and gives the sink that writes there, as that
        of the run does; it is pickled.
    """

    directory: Path
    sink: Callable[..., RowSink[Any]] = field(repr=False)

    @contextmanager
    def directory_made(self) -> Iterator[None]:
        """The directory is there for as long as the context, and gone afterwards with all that nobody has moved."""
        with as_publish_errors(self.directory):
            self.directory.mkdir()
        try:
            yield
        finally:
            # Whoever comes late finds no directory by that name, and so writes nothing while it is removed.
            gone = self.directory.with_name(f"{self.directory.name}.{uuid.uuid4().hex}")
            self.directory.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def prove(self) -> tuple[str, str, str]:
        """In a worker: write a file; its name, what is in it, and why that was not possible, empty where it was."""
        name, text, host = f"worker-{uuid.uuid4().hex}", uuid.uuid4().hex, socket.gethostname()
        try:
            (self.directory / name).write_text(text)
        except OSError as error:
            return name, text, f"{self.directory}: cannot be written on {host} ({os.strerror(error.errno or 0)})"
        return name, text, ""

    def is_proven(self, proof: tuple[str, str, str] | None) -> bool:
        """Whether the file is here, with what the worker says that it wrote."""
        if proof is None or proof[2]:
            return False
        path = self.directory / proof[0]
        try:
            return path.is_file() and path.read_text() == proof[1]
        except (OSError, UnicodeError):
            return False

    def what_is_sent(self, proof: tuple[str, str, str] | None) -> str:
        """For people."""
        unseen = f"{self.directory}: is another directory there, or what is written there cannot be read here"
        why = unseen if proof is None or not proof[2] else proof[2]
        return f"{why}; what it finds is sent here, and written here; share the output directory to spare that"

    @contextmanager
    def open(self, name: str, execution: Execution) -> Iterator[_LeaseSink]:
        """In a worker: the sink of a lease.

        Raises
        ------
        PublishError
            The directory cannot be written: no word of the cluster, which would have the lease done again elsewhere.
        """
        room = self.directory / name
        with as_publish_errors(self.directory):
            room.mkdir()
            sink = self.sink(
                room, spills=True, block_bytes=execution.block_bytes, memory_budget=execution.memory_budget_bytes
            )
        with sink:
            yield _LeaseSink(room, sink)


class _LeaseSink:
    """See `mbe_stage.runners.parts.PartSink`."""

    def __init__(self, room: Path, sink: RowSink[Any]) -> None:
        self._room, self._sink = room, sink
        self.accept = sink.accept

    def part(self) -> tuple[Written, int]:
        """What was written, and its bytes."""
        summary, spills = self._sink.summary, self._sink.spills
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        # One without rows is there only so that a data set can be read.
        if summary.fingerprint.n_items and not spills:
            with as_publish_errors(self._room):
                files = {
                    directory.name: tuple((path, path.stat().st_size) for path in sorted(directory.glob("*.parquet")))
                    for directory in sorted(self._room.iterdir())
                }
        n_bytes = sum(size for parts in files.values() for _, size in parts)
        return Written(files, spills, summary), n_bytes + sum(spill.n_bytes for spill in spills)


def parts_of(collecting: Collecting, sink: Callable[..., RowSink[Any]], *, has_rows: bool = True) -> WorkerParts | None:
    """How workers write; None where this process does the search, or makes derived outputs of results without rows.

    Parameters
    ----------
    collecting : Collecting
    sink : callable
        As of `WorkerParts`.
    has_rows : bool
        Whether it writes any: derived outputs read them back.
    """
    if collecting.config.execution.runner == "local":
        return None
    if collecting.derived and not has_rows:
        log.info("derived outputs take every result in, of which no rows are written: workers send what they find")
        return None
    run_path = collecting.run_path.resolve()
    # Workers of a run that was killed may still write where it told them to.
    return WorkerParts(run_path.with_name(f"{run_path.name}.{uuid.uuid4().hex[:8]}.parts"), sink)


def _check_arrived(path: Path, n_bytes: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != n_bytes:
        raise PublishError(
            f"{path}: {'is missing' if found is None else f'has {found:,} bytes'}; expected {n_bytes:,} bytes, which a "
            "worker has written; see what its host and this one share, or have results sent: workers that cannot write "
            "there do that"
        )
