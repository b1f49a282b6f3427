"""The output of a lease for the publishing process: local files or objects in a store, and their sums."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.order import Spill
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.stored_parts import StoredEntry
from mbe_stage.pipeline.safe_paths import is_file_within
from mbe_stage.pipeline.wording import found_bytes_text


class WorkerSink(Protocol):
    """The writer of a lease in a worker: the used part of `pipeline.backends.arrow.row_sink.RowSink`."""

    def accept(self, block: Any) -> None:
        """Take one block in."""

    @property
    def summary(self) -> Any:
        """The problem's summary of all results."""

    @property
    def spills(self) -> tuple[Spill, ...]:
        """Files of rows that are sorted later."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *failure: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Written:
    """The output of a lease.

    Attributes
    ----------
    files : mapping of str to tuple of (Path, int)
        Complete parts and their bytes, by data set.
    spills : tuple of Spill
        The rows in place of parts, if they are to be sorted.
    summary
        The problem's summary of all of them.
    derived : tuple of dict
        Sums of derived outputs, if there are no files to make them from.
    stored : tuple of StoredEntry
        Files in a store: parts by data set and name, and spills by the paths in them; then `files` is empty.
    """

    files: dict[str, tuple[tuple[Path, int], ...]]
    spills: tuple[Spill, ...]
    summary: Any
    derived: tuple[dict[str, Any], ...] = ()
    stored: tuple[StoredEntry, ...] = ()

    @classmethod
    def by(cls, sink: WorkerSink, directory: Path) -> Written:
        """Return the output of a closed sink in a directory."""
        summary, spills = sink.summary, sink.spills
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        # A part without rows only exists to make a data set readable.
        if summary.fingerprint.n_items and not spills:
            with as_publish_errors(directory):
                files = {
                    each.name: tuple((path, path.stat().st_size) for path in sorted(each.glob("*.parquet")))
                    for each in sorted(directory.iterdir())
                }
        return cls(files, spills, summary)

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        n_bytes = sum(size for parts in self.files.values() for _, size in parts)
        return n_bytes + sum(entry.bytes for entry in self.stored) + sum(spill.n_bytes for spill in self._spills_here)

    @property
    def paths(self) -> list[Path]:
        """Paths of all local files."""
        parts = [path for parts in self.files.values() for path, _ in parts]
        return parts + [spill.path for spill in self._spills_here]

    def in_store(self, stored: tuple[StoredEntry, ...], directory: Path) -> Written:
        """Return the output after all files of a directory were moved to a store."""
        spills = tuple(replace(spill, path=spill.path.relative_to(directory)) for spill in self.spills)
        return replace(self, files={}, spills=spills, stored=stored)

    def fetched(self, directory: Path) -> Written:
        """Return the output after all stored files were fetched into a directory."""
        spills = tuple(replace(spill, path=directory / spill.path) for spill in self.spills)
        of_spills = {spill.path.as_posix() for spill in self.spills}
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        for entry in self.stored:
            if entry.path not in of_spills:
                name = entry.path.partition("/")[0]
                files[name] = (*files.get(name, ()), (directory / entry.path, entry.bytes))
        return replace(self, files=files, spills=spills, stored=())

    def check_arrived(self, directory: Path | None = None) -> None:
        """Refuse files that are missing or incomplete here.

        Parameters
        ----------
        directory : Path, optional
            Required parent of all files.

        Raises
        ------
        PublishError
            A file is missing or incomplete; the message names it.
        """
        here = [each for parts in self.files.values() for each in parts]
        here += [(spill.path, spill.n_bytes) for spill in self._spills_here]
        for path, n_bytes in here:
            _check_arrived(directory or path.parent, path, n_bytes)

    @property
    def _spills_here(self) -> tuple[Spill, ...]:
        return () if self.stored else self.spills


def _check_arrived(directory: Path, path: Path, n_bytes: int) -> None:
    is_within = is_file_within(directory, os.path.relpath(path, directory))
    found = path.stat().st_size if is_within else None
    if found != n_bytes:
        raise PublishError(
            f"{path}: {found_bytes_text(found)}; expected the {n_bytes:,} bytes that a worker wrote; "
            "check which directory the hosts share, or stop workers from writing there: they then send results"
        )


@dataclass(frozen=True, slots=True)
class WorkerSums:
    """See `mbe_stage.runners.parts.PartMaker`; every started worker may sum up.

    Attributes
    ----------
    sink : callable
        Takes a path and `RowSink`'s settings for memory, and returns a sink that writes nothing; it is pickled.
    derived : tuple of callable
        For each derived output a factory of its sums, which have `accept` and `sums`.
    """

    sink: Callable[..., WorkerSink] = field(repr=False)
    derived: tuple[Callable[[], Any], ...] = ()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Do nothing: no directory is needed."""
        yield

    def prove(self) -> bool:
        """Return True: the worker has started."""
        return True

    def proven(self, proofs: Mapping[str, bool | None]) -> set[str]:
        """Return the started workers."""
        return {worker for worker, proof in proofs.items() if proof}

    def what_is_sent(self, proof: bool | None) -> str:  # noqa: ARG002 - as of those that write
        """Explain for people what is sent."""
        return "did not start; its results are sent and summed up here"

    @contextmanager
    def open(self, name: str, execution: Execution, proof: bool) -> Iterator[_LeaseSums]:  # noqa: ARG002 - as above
        """Open the sums of a lease in a worker."""
        derived = [_SummedUp(make()) for make in self.derived]
        sink = self.sink(
            Path(name),
            block_bytes=execution.block_bytes,
            memory_budget=execution.memory_budget_bytes,
            derived=derived,
        )
        lease = _LeaseSums(sink)
        with sink:
            yield lease
        lease.made = Written({}, (), sink.summary, tuple(each.sums() for each in derived))


class _LeaseSums:
    """See `mbe_stage.runners.parts.PartSink`."""

    is_full = False

    def __init__(self, sink: WorkerSink) -> None:
        self.accept = sink.accept
        self.made: Written | None = None

    def part(self) -> tuple[Written, int]:
        """Return the sums; no bytes are stored."""
        assert self.made is not None
        return self.made, 0


class _SummedUp:
    """Adds blocks for a derived output from any of the sink's threads, one at a time.

    In the publishing process, which has the whole run, `pipeline.problems.derived.GuardedCollector` does that.
    """

    def __init__(self, collector: Any) -> None:
        self._collector, self._lock = collector, threading.Lock()
        self.sums = collector.sums

    def accept(self, block: Any, keys: Any) -> None:
        with self._lock:
            self._collector.accept(block, keys)
