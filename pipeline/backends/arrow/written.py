"""The output of a lease for the publishing process: local files or objects in a store, and their sums."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from mbe_stage.pipeline.backends.arrow.order import Spill
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.stored_parts import StoredEntry
from mbe_stage.pipeline.safe_paths import is_file_within
from mbe_stage.pipeline.wording import found_bytes_text

__all__ = ["WorkerSink", "Written"]


class WorkerSink(Protocol):
    """What writes or sums up a lease in a worker: `pipeline.backends.arrow.row_sink.RowSink`, as far as it is used."""

    def accept(self, block: Any) -> None:
        """Take one block in."""

    @property
    def summary(self) -> Any:
        """Of all that was found, as the problem sums up."""

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
    def by(cls, sink: WorkerSink, room: Path) -> Written:
        """Return the output of a closed sink in a directory."""
        summary, spills = sink.summary, sink.spills
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        # A part without rows only exists to make a data set readable.
        if summary.fingerprint.n_items and not spills:
            with as_publish_errors(room):
                files = {
                    directory.name: tuple((path, path.stat().st_size) for path in sorted(directory.glob("*.parquet")))
                    for directory in sorted(room.iterdir())
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

    def in_store(self, stored: tuple[StoredEntry, ...], room: Path) -> Written:
        """Return the output after all files of a room were moved to a store."""
        spills = tuple(replace(spill, path=spill.path.relative_to(room)) for spill in self.spills)
        return replace(self, files={}, spills=spills, stored=stored)

    def fetched(self, room: Path) -> Written:
        """Return the output after all stored files were fetched into a room."""
        spills = tuple(replace(spill, path=room / spill.path) for spill in self.spills)
        of_spills = {spill.path.as_posix() for spill in self.spills}
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        for entry in self.stored:
            if entry.path not in of_spills:
                name = entry.path.partition("/")[0]
                files[name] = (*files.get(name, ()), (room / entry.path, entry.bytes))
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
            With the file.
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
