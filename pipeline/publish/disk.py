"""Writing to a disk: failures with a remedy, and files that are on the disk before they are published."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError

__all__ = ["as_publish_errors", "sync", "synced_beside"]

_SYNCED_AT_ONCE = 8

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


@contextmanager
def synced_beside(directory: Path) -> Iterator[None]:
    """Have everything that a directory holds by now, and itself, synced while the context's work is done.

    Whoever publishes it afterwards syncs it again, and finds little that is not on the disk.

    Raises
    ------
    OSError
        Something could not be written to the disk; raised when the work is done.
    """
    # Several at once: a disk takes requests that wait together faster than one after the other.
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        synced = [pool.submit(sync, path) for path in (directory, *directory.rglob("*"))]
        try:
            yield
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        for each in synced:
            each.result()


def sync(path: Path) -> None:
    """Have a file, or a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
