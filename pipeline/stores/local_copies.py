"""Local directories with copies of a store's files under the same names, kept while they are in use.

They are in the directory of temporary files (`TMPDIR`), where others may write too. So only real directories that this
user owns and nobody else may write to are used, and files are removed below their descriptors. Each is held by a lock;
the next process removes the directory of a killed one. The staging directories of resumable runs stay for some days,
with the address that they belong to (`pipeline.publish.run_store`).
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import RunIsBeingWritten
from mbe_stage.pipeline.publish.locks import is_locked, locked, opened_lock
from mbe_stage.pipeline.publish.run_files import KEPT_DAYS, STAGING, as_publish_errors, rooms_in, written_at
from mbe_stage.pipeline.safe_paths import is_directory, opened_directory, remove_tree
from mbe_stage.pipeline.stores.address import Address

_PREFIX, _LOCK, _ADDRESS = "mbe-store-", ".lock", ".address"
# Seconds in which a process may still be about to lock a directory that it has just made.
_YOUNG = 60
_mirrors: weakref.WeakSet[LocalCopies] = weakref.WeakSet()


class LocalCopies:
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
            lock = locked(opened_lock(self.root / _LOCK))
            (self.root / _ADDRESS).write_text(str(address), encoding="utf-8")
        self._end = weakref.finalize(self, _remove, self.root, lock, os.getpid())
        _mirrors.add(self)

    def close(self) -> None:
        """Remove the directory except for resumable runs; a second call does nothing."""
        self._end()

    def __enter__(self) -> LocalCopies:
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
    for copies in list(_mirrors):
        told = copies.named(told)
    return told


def address_of(path: Path) -> str:
    """Return the address that a local path is a copy of, or the path itself."""
    return addresses_in(path)


def local_path(place: str) -> Path:
    """The path of what `address_of` has named, as long as its mirror is there; of a path the path itself."""
    for copies in list(_mirrors):
        if place.startswith(f"{copies.address}/"):
            path = copies.root / place.removeprefix(f"{copies.address}/")
            if path.exists():
                return path
    return Path(place)


def _remove(root: Path, lock: IO[bytes], process: int) -> None:
    # A forked process has the object too, and ends earlier.
    if os.getpid() == process:
        with suppress(OSError), _opened(root) as within:
            _remove_all_but_rooms(root, within, KEPT_DAYS)
    lock.close()


@contextmanager
def _opened(root: Path) -> Iterator[int]:
    """Open a directory that only this user can write to; raise OSError otherwise."""
    with opened_directory(root) as within:
        about = os.fstat(within)
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(root))
        yield within


def _remove_leftovers(directory: Path) -> None:
    for root in directory.glob(f"{_PREFIX}*"):
        # What is not ours, or was removed by another process just now, is left alone.
        with suppress(OSError), _opened(root) as within:
            # Of a process that was killed before it had made its lock, the directory itself says when.
            lock = _LOCK if _LOCK in os.listdir(within) else "."
            made_at = os.stat(lock, dir_fd=within, follow_symlinks=False).st_mtime
            if time.time() - made_at >= _YOUNG and not is_locked(_LOCK, within):
                _remove_all_but_rooms(root, within, KEPT_DAYS)


def unfinished_rooms(address: Address) -> list[Path]:
    """List the staging directories of an address's runs that can be resumed on this machine, the newest last."""
    return sorted((room for root in _roots_of(address) for room in rooms_in(root / STAGING)), key=written_at)


def adopt(room: Path, place: Path) -> None:
    """Move an unused staging directory from another `LocalCopies` into this one.

    Raises
    ------
    RunIsBeingWritten
        Another process is writing or resuming it.
    """
    root = room.parents[1]
    try:
        with _opened(root) as within, opened_directory(STAGING, within) as staging:
            if not is_directory(room.name, staging) or is_locked(f"{room.name}/{_LOCK}", staging):
                raise RunIsBeingWritten(room)
            place.parent.mkdir(exist_ok=True)
            os.rename(room.name, place, src_dir_fd=staging)
            if not is_locked(_LOCK, within):
                _remove_all_but_rooms(root, within, KEPT_DAYS)
    except FileNotFoundError:
        raise RunIsBeingWritten(room) from None


def remove_rooms(address: Address, kept_days: float, but: Path | None = None) -> list[Path]:
    """Remove the leftovers of an address's runs that no process is writing; return the removed paths.

    Parameters
    ----------
    kept_days : float
        Age up to which resumable runs stay.
    but : Path, optional
        A staging directory to keep.
    """
    removed = []
    for root in _roots_of(address):
        # Another writer of the address may remove any of it meanwhile.
        with suppress(FileNotFoundError), _opened(root) as within:
            for room in rooms_in(root / STAGING):
                is_old = time.time() - written_at(room) >= kept_days * 86_400
                with suppress(FileNotFoundError), opened_directory(STAGING, within) as staging:
                    if room != but and is_old and not is_locked(f"{room.name}/{_LOCK}", staging):
                        remove_tree(room, staging)
                        removed.append(room)
            if not is_locked(_LOCK, within):
                _remove_all_but_rooms(root, within, kept_days)
    return removed


def meant_for(root: Path) -> str | None:
    """The address that such a directory of this user was made for; None of any other."""
    if root.name.startswith(_PREFIX):
        # What is not ours, removed just now, or not complete yet, is none.
        with suppress(OSError, UnicodeError), _opened(root):
            return (root / _ADDRESS).read_text(encoding="utf-8")
    return None


def _roots_of(address: Address) -> list[Path]:
    """The directories of this user that were made for an address."""
    roots = Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")
    return [root.resolve() for root in roots if meant_for(root) == str(address)]


def _remove_all_but_rooms(root: Path, within: int, kept_days: float) -> None:
    """Remove an open, unlocked directory except for resumable runs that are not too old."""
    now = time.time()
    kept = {room.name for room in rooms_in(root / STAGING) if now - written_at(room) < kept_days * 86_400}
    if kept:
        with opened_directory(STAGING, within) as staging:
            _remove_directories(staging, kept)
    _remove_directories(within, {STAGING} if kept else set())
    if not kept:
        # The lock file comes last: without it no process knows that this was held.
        for name in sorted(os.listdir(within), key=_LOCK.__eq__):
            with suppress(OSError):
                os.unlink(name, dir_fd=within)
        with suppress(OSError):
            os.rmdir(root)


def _remove_directories(above: int, kept: set[str]) -> None:
    for name in set(os.listdir(above)) - kept:
        if is_directory(name, above):
            shutil.rmtree(name, ignore_errors=True, dir_fd=above)
