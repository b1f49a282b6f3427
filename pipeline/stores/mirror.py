"""Directories of this machine that hold what lies in a store, under the same names, for as long as somebody needs it.

They stand where temporary files do (`TMPDIR`). Each is held by a lock, so that what a killed process left is removed by
the next one that makes such a directory. What stays for some days are the rooms of runs that can be gone on with
(`pipeline.publish`), with the address that they were meant for.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from mbe_stage.errors import StageError
from pipeline.errors import RunIsBeingWritten
from pipeline.locks import is_locked, locked
from pipeline.publish import KEPT_DAYS, as_publish_errors, is_unfinished, written_at
from pipeline.stores.address import Address
from pipeline.stores.layout import STAGING

__all__ = [
    "Mirror",
    "address_of",
    "addresses_in",
    "adopt",
    "local_path",
    "remove_rooms",
    "unfinished_rooms",
]

_PREFIX, _LOCK, _ADDRESS = "mbe-store-", ".lock", ".address"
# Seconds: before, somebody may be about to lock what it has just made.
_YOUNG = 60
_mirrors: weakref.WeakSet[Mirror] = weakref.WeakSet()


class Mirror:
    """A temporary directory in the place of an address; it is removed with the object, or by `close`.

    Attributes
    ----------
    root : Path
    address : Address
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        with as_publish_errors(Path(tempfile.gettempdir())):
            _remove_leftovers(Path(tempfile.gettempdir()))
            self.root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            lock = locked((self.root / _LOCK).open("ab"))
            (self.root / _ADDRESS).write_text(str(address), encoding="utf-8")
        self._end = weakref.finalize(self, _remove, self.root, lock, os.getpid())
        _mirrors.add(self)

    def close(self) -> None:
        """Remove the directory, but for what can be gone on with; nothing the second time."""
        self._end()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def named(self, text: object) -> str:
        """A text with addresses in the place of this machine's paths."""
        return str(text).replace(str(self.root), str(self.address))

    def naming(self, error: StageError) -> StageError:
        """The same error, which says addresses in the place of this machine's paths."""
        error.args = tuple(self.named(each) if isinstance(each, str) else each for each in error.args)
        return error


def addresses_in(text: object) -> str:
    """A text with addresses in the place of the paths of all mirrors that there are."""
    told = str(text)
    for mirror in list(_mirrors):
        told = mirror.named(told)
    return told


def address_of(path: Path) -> str:
    """What a user calls a path: the address of which it holds a copy, or the path itself."""
    return addresses_in(path)


def local_path(place: str) -> Path:
    """The path of what `address_of` has named, as long as its mirror is there; of a path the path itself."""
    for mirror in list(_mirrors):
        if place.startswith(f"{mirror.address}/"):
            path = mirror.root / place.removeprefix(f"{mirror.address}/")
            if path.exists():
                return path
    return Path(place)


def _remove(root: Path, lock: IO[bytes], process: int) -> None:
    # A forked process has the object too, and ends earlier.
    if os.getpid() == process:
        _remove_all_but_rooms(root, KEPT_DAYS)
    lock.close()


def _remove_leftovers(directory: Path) -> None:
    for left in directory.glob(f"{_PREFIX}*"):
        lock = left / _LOCK
        try:
            about = lock.stat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _YOUNG or is_locked(lock):
                continue
        except OSError:
            # Another process has removed it just now, or made it; or it is not ours at all.
            continue
        _remove_all_but_rooms(left, KEPT_DAYS)


def unfinished_rooms(address: Address) -> list[Path]:
    """The rooms of runs that were meant for an address and can be gone on with on this machine, the newest last."""
    return sorted((room for root in _roots_of(address) for room in _rooms_in(root)), key=written_at)


def adopt(room: Path, place: Path) -> None:
    """Move a room of another mirror, which nobody is writing, to a place within this one.

    Raises
    ------
    RunIsBeingWritten
        Somebody is writing it, or has taken it.
    """
    lock = room / _LOCK
    if not room.is_dir() or is_locked(lock):
        raise RunIsBeingWritten(room)
    place.parent.mkdir(exist_ok=True)
    os.rename(room, place)
    root = room.parents[1]
    if not is_locked(root / _LOCK):
        _remove_all_but_rooms(root, KEPT_DAYS)


def remove_rooms(address: Address, kept_days: float, but: Path | None = None) -> list[Path]:
    """Remove what runs that were meant for an address have left, and nobody is writing; gives what was removed.

    Parameters
    ----------
    address : Address
    kept_days : float
        What can be gone on with stays for so long.
    but : Path, optional
        A room that stays.
    """
    removed = []
    for root in _roots_of(address):
        for room in _rooms_in(root):
            lock = room / _LOCK
            is_old = time.time() - written_at(room) >= kept_days * 86_400
            if room == but or not is_old or is_locked(lock):
                continue
            with suppress(FileNotFoundError):
                shutil.rmtree(room)
            removed.append(room)
        if not is_locked(root / _LOCK):
            _remove_all_but_rooms(root, kept_days)
    return removed


def _roots_of(address: Address) -> list[Path]:
    """The directories of this user that were made for an address."""
    found = []
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            is_ours = root.stat().st_uid == os.getuid()
            if is_ours and (root / _ADDRESS).read_text(encoding="utf-8") == str(address):
                found.append(root.resolve())
        except OSError:
            # Removed just now, or not complete yet.
            continue
    return found


def _rooms_in(root: Path) -> list[Path]:
    return sorted(room for room in (root / STAGING).glob("*") if is_unfinished(room))


def _remove_all_but_rooms(root: Path, kept_days: float) -> None:
    """Remove a directory that nobody holds; with a room that can be gone on with, and is not old, all else of it."""
    now = time.time()
    kept = [room for room in _rooms_in(root) if now - written_at(room) < kept_days * 86_400]
    if not kept:
        shutil.rmtree(root, ignore_errors=True)
        return
    for path in (*root.iterdir(), *(root / STAGING).iterdir()):
        if path.is_dir() and path not in (root / STAGING, *kept):
            shutil.rmtree(path, ignore_errors=True)
