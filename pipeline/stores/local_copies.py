"""Local directories with copies of a store's files under the same names, kept while they are in use.

They are in the directory of temporary files (`TMPDIR`), where other users may write too. So only real directories that
this user owns and no other user can write to are used, and files are removed below their descriptors. Each is held by a
lock; the next process removes the directory of a killed one. The staging directories of resumable runs stay for some
days, with their address (`pipeline.publish.run_store`).
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
from mbe_stage.pipeline.publish.run_files import KEPT_DAYS, STAGING, as_publish_errors, resumable_in, written_at
from mbe_stage.pipeline.safe_paths import is_directory, opened_directory, remove_tree
from mbe_stage.pipeline.stores.address import Address

_PREFIX, _LOCK, _ADDRESS = "mbe-store-", ".lock", ".address"
# Seconds that a process may take to lock a new directory.
_YOUNG = 60
_mirrors: weakref.WeakSet[LocalCopies] = weakref.WeakSet()


class LocalCopies:
    """A temporary directory that stands for an address; it is removed with the object, or by `close`.

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
        """Replace this machine's paths in a text by addresses."""
        return str(text).replace(str(self.root), str(self.address))

    def naming(self, error: StageError) -> StageError:
        """Replace this machine's paths in an error by addresses."""
        error.args = tuple(self.named(each) if isinstance(each, str) else each for each in error.args)
        return error


def addresses_in(text: object) -> str:
    """Replace the paths of all existing local copies in a text by addresses."""
    named = str(text)
    for copies in list(_mirrors):
        named = copies.named(named)
    return named


def address_of(path: Path) -> str:
    """Return the address that a local path is a copy of, or the path itself."""
    return addresses_in(path)


def local_path(place: str) -> Path:
    """Return the local path of an address from `address_of` while its copy exists; a path is returned unchanged."""
    for copies in list(_mirrors):
        if place.startswith(f"{copies.address}/"):
            path = copies.root / place.removeprefix(f"{copies.address}/")
            if path.exists():
                return path
    return Path(place)


def _remove(root: Path, lock: IO[bytes], process: int) -> None:
    # A forked process also has the object, and ends earlier.
    if os.getpid() == process:
        with suppress(OSError), _opened(root) as within:
            _remove_all_but_staging(root, within, KEPT_DAYS)
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
        # Directories that are not ours, or that another process has just removed, are left alone.
        with suppress(OSError), _opened(root) as within:
            # Without a lock file, because its process was killed early, the time of the directory counts.
            lock = _LOCK if _LOCK in os.listdir(within) else "."
            made_at = os.stat(lock, dir_fd=within, follow_symlinks=False).st_mtime
            if time.time() - made_at >= _YOUNG and not is_locked(_LOCK, within):
                _remove_all_but_staging(root, within, KEPT_DAYS)


def unfinished_staging(address: Address) -> list[Path]:
    """List the staging directories of an address's resumable runs on this machine, newest last."""
    return sorted((each for root in _roots_of(address) for each in resumable_in(root / STAGING)), key=written_at)


def adopt(staging_dir: Path, place: Path) -> None:
    """Move an unused staging directory from another `LocalCopies` into this one.

    Raises
    ------
    RunIsBeingWritten
        Another process is writing or resuming it.
    """
    root = staging_dir.parents[1]
    try:
        with _opened(root) as within, opened_directory(STAGING, within) as staging:
            if not is_directory(staging_dir.name, staging) or is_locked(f"{staging_dir.name}/{_LOCK}", staging):
                raise RunIsBeingWritten(staging_dir)
            place.parent.mkdir(exist_ok=True)
            os.rename(staging_dir.name, place, src_dir_fd=staging)
            if not is_locked(_LOCK, within):
                _remove_all_but_staging(root, within, KEPT_DAYS)
    except FileNotFoundError:
        raise RunIsBeingWritten(staging_dir) from None


def remove_staging(address: Address, kept_days: float, but: Path | None = None) -> list[Path]:
    """Remove the staging directories of an address that no process is writing; return the removed paths.

    Parameters
    ----------
    kept_days : float
        Age up to which resumable runs stay.
    but : Path, optional
        A staging directory to keep.
    """
    removed = []
    for root in _roots_of(address):
        # Another writer of the address may remove any of them in the meantime.
        with suppress(FileNotFoundError), _opened(root) as within:
            for staging_dir in resumable_in(root / STAGING):
                is_old = time.time() - written_at(staging_dir) >= kept_days * 86_400
                with suppress(FileNotFoundError), opened_directory(STAGING, within) as staging:
                    if staging_dir != but and is_old and not is_locked(f"{staging_dir.name}/{_LOCK}", staging):
                        remove_tree(staging_dir, staging)
                        removed.append(staging_dir)
            if not is_locked(_LOCK, within):
                _remove_all_but_staging(root, within, kept_days)
    return removed


def meant_for(root: Path) -> str | None:
    """Return the address of such a directory of this user; None for any other directory."""
    if root.name.startswith(_PREFIX):
        # Directories that are not ours, just removed, or incomplete do not count.
        with suppress(OSError, UnicodeError), _opened(root):
            return (root / _ADDRESS).read_text(encoding="utf-8")
    return None


def _roots_of(address: Address) -> list[Path]:
    """List the directories of this user for an address."""
    roots = Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")
    return [root.resolve() for root in roots if meant_for(root) == str(address)]


def _remove_all_but_staging(root: Path, within: int, kept_days: float) -> None:
    """Remove an open, unlocked directory except for resumable runs that are not too old."""
    now = time.time()
    kept = {
        staging_dir.name
        for staging_dir in resumable_in(root / STAGING)
        if now - written_at(staging_dir) < kept_days * 86_400
    }
    if kept:
        with opened_directory(STAGING, within) as staging:
            _remove_directories(staging, kept)
    _remove_directories(within, {STAGING} if kept else set())
    if not kept:
        # The lock file goes last: without it, other processes cannot see that the directory was in use.
        for name in sorted(os.listdir(within), key=_LOCK.__eq__):
            with suppress(OSError):
                os.unlink(name, dir_fd=within)
        with suppress(OSError):
            os.rmdir(root)


def _remove_directories(above: int, kept: set[str]) -> None:
    for name in set(os.listdir(above)) - kept:
        if is_directory(name, above):
            shutil.rmtree(name, ignore_errors=True, dir_fd=above)
