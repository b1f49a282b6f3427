"""Parts of a run in progress that are already in its object store, not on this machine.

Cluster workers upload them, and the publishing process keeps their names, sizes and checksums in memory. There are no
placeholder files in the run's directory. Four places use them: the manifest (checksums), the limit of bytes, the
journal (resumed runs), and the publication, which copies them within the store. Code that needs their rows fetches them
first (`pipeline.stores.part_objects.fetch_missing`); then they are ordinary files of the run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mbe_stage.pipeline.publish.manifest import FileEntry, PathWithin


class StoredEntry(FileEntry):
    """A part in a store; `path` is its destination, relative to the staging directory of its run.

    Attributes
    ----------
    store : str
        The address of the output directory.
    name : str
        Name of the object, relative to the address.
    """

    store: str
    name: PathWithin


@dataclass(slots=True)
class _Stored:
    """Parts of one run by path, and their total bytes, which are read several times a second."""

    entries: dict[str, StoredEntry] = field(default_factory=dict)
    n_bytes: int = 0


# A checkpoint reads in its own thread while others are added.
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
    """Forget all parts of a run: a new attempt begins with fetched files, or the run has ended."""
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
    """Return the entries of a run's files and of its parts in a store, by path.

    A fetched part is both; its worker's entry counts, because the publication copies it within the store.
    """
    stored = (as_file(entry, run_path.name) for entry in stored_entries(run_path).values())
    by_path = {entry.path: entry for entry in (*files, *stored)}
    return tuple(by_path[path] for path in sorted(by_path))
