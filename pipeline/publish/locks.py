"""Operating-system locks on open files; they end with their process and leave nothing behind.

A lock belongs to its open file and ends when that is closed. A file closes at the end of its context without running
Python code that a signal could interrupt. A lock left behind would make this process wait for itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

# Do not follow links, and do not wait for the other end of a pipe.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def locked(file: IO[bytes], tell_of_waiting: Callable[[], None] | None = None) -> IO[bytes]:
    """Lock an open file until it is closed, and wait for the current holder; if that fails, close it.

    Parameters
    ----------
    file : binary file
        Open for writing if it may be on a network file system, which requires that for an exclusive lock.
    tell_of_waiting : callable, optional
        Called before waiting, if that is necessary.
    """
    try:
        if tell_of_waiting is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell_of_waiting()
            else:
                return file
        fcntl.flock(file, fcntl.LOCK_EX)
    except BaseException:
        file.close()
        raise
    return file


def opened_lock(path: Path, above: int | None = None) -> IO[bytes]:
    """Open a lock file; create it if there is none.

    Parameters
    ----------
    above : int, optional
        The descriptor of its directory.

    Raises
    ------
    OSError
        It cannot be opened, or is not a regular file.
    """
    try:
        return _opened(path if above is None else path.name, os.O_CREAT, above)
    except OSError as error:
        error.filename = str(path)
        raise


def is_locked(path: str | Path, above: int | None = None) -> bool:
    """Return whether any process has a file locked, this one included; False if there is no such file."""
    try:
        file = _opened(path, 0, above)
    except FileNotFoundError:
        return False
    except OSError as error:
        # A link, a directory or a pipe is not one of our locks.
        if error.errno in (errno.ELOOP, errno.EEXIST, errno.EISDIR, errno.ENXIO):
            return False
        raise
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _opened(path: str | Path, flags: int, above: int | None) -> IO[bytes]:
    file = os.fdopen(os.open(path, _FLAGS | flags, 0o666, dir_fd=above), "rb+", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileExistsError(errno.EEXIST, "is not a regular file")
    return file
