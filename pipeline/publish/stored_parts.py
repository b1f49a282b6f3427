"""Parts of a run in progress that are already in its object store and not on this machine.

Workers of a cluster upload them, and the run has their names, sizes and checksums. These are kept in the memory of the
publishing process, not beside its files, so readers of the run's directory meet no placeholder files. Four places use
them: the manifest (for the checksums), the limit of bytes, the journal (for resumed runs), and the publication, which
has the store copy them to their places. Code that needs their rows fetches them first
(`pipeline.stores.part_objects.fetch_missing`); then they are ordinary files of the run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mbe_stage.pipeline.publish.manifest import FileEntry, PathWithin


class StoredEntry(FileEntry):
    """A part in a store; `path` is where it belongs, relative to the staging directory of its run.

    Attributes
    ----------
    store : str
        The address of the output directory.
    name : str
        Of the object, relative to that.
    """

    store: str
    name: PathWithin


@dataclass(slots=True)
class _Stored:
    """Parts of one run by path, and the sum of their bytes, which is read several times a second."""

    entries: dict[str, StoredEntry] = field(default_factory=dict)
    n_bytes: int = 0


# A checkpoint asks in a thread of its own while others are added.
_lock = threading.Lock()
_of_runs: dict[Path, _Stored] = {}


def as_file(entry: FileEntry, above: str = "") -> FileEntry:
    """Return a part's manifest entry, with its path relative to a directory of the staging directory."""
    path = entry.path.removeprefix(f"{above}/") if above else entry.path
    return FileEntry(path=path, bytes=entry.bytes, sha256=entry.sha256, rows=entry.rows)


def add_stored(run_path: Path, entry: StoredEntry) -> None:
    """Add a part to a run at its path, relative to the staging directory."""
    with _lock:
        stored = _of_runs.setdefault(run_path.resolve(), _Stored())
        before = stored.entries.get(entry.path)
        stored.entries[entry.path] = entry
        stored.n_bytes += entry.bytes - (0 if before is None else before.bytes)


def forget_stored(run_path: Path) -> None:
    """Have a run have none: an attempt at it begins, which has fetched what it goes on with, or all of it has ended."""
    with _lock:
        _of_runs.pop(run_path.resolve(), None)


def stored_entries(run_path: Path) -> dict[str, StoredEntry]:
    """Return the added parts of a run by path relative to the staging directory; most runs have none."""
    with _lock:
        stored = _of_runs.get(run_path.resolve())
        return {} if stored is None else dict(stored.entries)


def stored_bytes(run_path: Path) -> int:
    """Return the total bytes of the parts."""
    with _lock:
        stored = _of_runs.get(run_path.resolve())
        return 0 if stored is None else stored.n_bytes


def with_stored(run_path: Path, files: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """The entries of a run's files and of its parts in a store, by path.

    A part that was fetched is both, and stays what its worker has said: the publication copies it within the store.
    """
    stored = (as_file(entry, run_path.name) for entry in stored_entries(run_path).values())
    by_path = {entry.path: entry for entry in (*files, *stored)}
    return tuple(by_path[path] for path in sorted(by_path))
