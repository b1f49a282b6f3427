"""Names of what stands in an output directory, errors of writing there, and files brought to the disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_ids import is_run_id
from mbe_stage.pipeline.safe_paths import is_directory, is_file_within, what_is_at

__all__ = [
    "ABANDONED_AFTER",
    "EXPIRED",
    "JOURNAL_NAME",
    "KEPT",
    "KEPT_DAYS",
    "LATEST",
    "LOCK",
    "MANIFEST_NAME",
    "RUNS",
    "SCHEMA_VERSION",
    "STAGING",
    "as_publish_errors",
    "is_room",
    "is_unfinished",
    "refuse_other_than_directory",
    "rooms_in",
    "sizes_of",
    "sync",
    "written_at",
]

SCHEMA_VERSION = 2
"""Of the published tables and of the manifest."""
MANIFEST_NAME = "manifest.json"
JOURNAL_NAME = "journal"
LATEST, LOCK, RUNS, STAGING = "latest", ".lock", "runs", ".staging"
KEPT, EXPIRED = "kept", "-expired"
KEPT_DAYS = 7.0
"""For so long what can be gone on with is kept."""
ABANDONED_AFTER = timedelta(days=1)
"""An upload to which nothing was added for so long has no writer any more."""

_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another output directory",
    errno.EDQUOT: "your disk quota is used up: free some space, or choose another output directory",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), or choose another output directory",
    errno.EROFS: "the file system is read-only: choose another output directory",
    errno.EACCES: "give this user write permission, or choose another output directory",
    errno.EPERM: "give this user write permission, or choose another output directory",
    errno.ENOTDIR: "a file is in the way: choose another output directory",
    errno.EEXIST: "a file is in the way: choose another output directory",
    errno.EISDIR: "a directory is in the way: remove it, or choose another output directory",
    errno.ELOOP: "a symbolic link is in the way: remove it, or choose another output directory",
    errno.ENOLCK: "the file system has no locks: choose a directory on a local disk",
    errno.EOPNOTSUPP: "the file system has no locks or symbolic links: choose a directory on a local disk",
}


@contextmanager
def as_publish_errors(path: Path, outcome: str = "nothing was published") -> Iterator[None]:
    """Turn whatever the operating system refuses while `path` is written into a `PublishError` with a remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        remedy = _REMEDIES.get(error.errno or 0, "check the disk, or choose another output directory")
        raise PublishError(f"{place}: cannot be written ({reason}); {outcome}; {remedy}") from error


def is_unfinished(room: Path) -> bool:
    """Whether a room can be gone on with: it has a journal, and the run or, where that was moved away, second names."""
    has_journal = is_directory(room) and is_file_within(room, JOURNAL_NAME)
    return has_journal and any(is_directory(room / name) for name in (room.name, KEPT))


def rooms_in(staging: Path) -> list[Path]:
    """The rooms below a directory that can be gone on with, in no order."""
    if not is_directory(staging):
        return []
    return [room for room in staging.glob("*") if is_run_id(room.name) and is_unfinished(room)]


def written_at(room: Path) -> float:
    """When its journal was written last, in seconds since 1970."""
    try:
        return (room / JOURNAL_NAME).stat().st_mtime
    except FileNotFoundError:
        # Published or removed meanwhile.
        return 0.0


def is_room(name: str) -> bool:
    """Whether something among `.staging` has a name of ours: that of a run, or of one that is being removed."""
    return is_run_id(name.removesuffix(EXPIRED))


def refuse_other_than_directory(path: Path) -> None:
    """Refuse a symbolic link or a file in the place of a directory of ours; nothing there is fine."""
    if what := what_is_at(path):
        raise PublishError(
            f"{path}: {what}; expected a directory that mbe has made; move it away, or choose another output directory"
        )


def sizes_of(run: Path) -> Callable[[str], int | None]:
    """What says how many bytes a file of a run has, by its path within; None where it is not there."""

    def size_of(name: str) -> int | None:
        return (run / name).stat().st_size if is_file_within(run, name) else None

    return size_of


def sync(path: Path) -> None:
    """Have a file, or a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
