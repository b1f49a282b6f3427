"""Locks of the operating system on open files: whatever ends a process ends what it holds, and nothing is left behind.

The lock is the open file's and ends where that is closed, and a file closes itself when its context ends, without a
statement of Python's in which a signal could come up: a lock that stays would have this process wait for itself.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import IO

__all__ = ["is_locked", "locked"]


def locked(file: IO[bytes], tell_of_waiting: Callable[[], None] | None = None) -> IO[bytes]:
    """Lock an open file until it is closed, and wait for whoever has it locked; where that fails, it is closed.

    Parameters
    ----------
    file : binary file
        Open for writing where it may be on another machine: network file systems lock no other for one holder.
    tell_of_waiting : callable, optional
        Called before it waits, if it has to.

    Returns
    -------
    binary file
        The same.
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


def is_locked(path: Path) -> bool:
    """Whether somebody has a file locked, this process included; nobody has one that is not there, or no more."""
    try:
        file = path.open("rb+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
