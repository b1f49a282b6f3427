"""Parts of a run that is being written which are in its object store already, and not on this machine.

Workers of a cluster upload them, and the run has them by name, size and checksum. They are listed in its room, outside
the run: whatever reads the run's directory meets no file that only stands for another, and what has to know of them
asks here. That are the manifest, which takes the workers' checksums over; the limit of bytes; the journal, whose
records keep them; and the publication, which has the store copy them to their places. Whoever needs their rows has them
fetched first (`pipeline.stores.part_objects.bring`): then they are files of the run like all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.manifest import FileEntry

__all__ = ["StoredEntry", "add_stored", "as_file", "forget_stored", "stored_bytes", "stored_entries", "with_stored"]

_LIST = "stored/parts"


class StoredEntry(FileEntry):
    """A part in a store; `path` is where it belongs, relative to the room of its run.

    Attributes
    ----------
    store : str
        The address of the output directory.
    name : str
        Of the object, relative to that.
    """

    store: str
    name: str


def as_file(entry: FileEntry, above: str = "") -> FileEntry:
    """What a manifest says of a part, wherever it is; with its path relative to a directory of the room."""
    path = entry.path.removeprefix(f"{above}/") if above else entry.path
    return FileEntry(path=path, bytes=entry.bytes, sha256=entry.sha256, rows=entry.rows)


def add_stored(run_path: Path, entry: StoredEntry) -> None:
    """Have a run have a part, which is at its path, relative to the room, from now on.

    Raises
    ------
    OSError
        That cannot be written.
    """
    path = run_path.parent / _LIST
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{entry.model_dump_json()}\n")


def forget_stored(run_path: Path) -> None:
    """Have a run have none: it is begun anew, or what it goes on with has been fetched.

    Raises
    ------
    OSError
    """
    (run_path.parent / _LIST).unlink(missing_ok=True)


def stored_entries(run_path: Path) -> dict[str, StoredEntry]:
    """The parts of a run that were added, by their paths relative to the room; none of most runs."""
    path = run_path.parent / _LIST
    if not path.is_file():
        return {}
    # Whoever asks from another thread may meet a line that is being written.
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    entries = map(StoredEntry.model_validate_json, lines)
    return {entry.path: entry for entry in entries}


def stored_bytes(run_path: Path) -> int:
    """What they have of bytes."""
    return sum(entry.bytes for entry in stored_entries(run_path).values())


def with_stored(run_path: Path, files: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """The entries of a run's files and of its parts in a store, by path."""
    stored = (as_file(entry, run_path.name) for entry in stored_entries(run_path).values())
    by_path = {entry.path: entry for entry in (*stored, *files)}
    return tuple(by_path[path] for path in sorted(by_path))
