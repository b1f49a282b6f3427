"""Directories of this machine that hold what lies in a store, under the same names, for as long as somebody needs it.

They stand where temporary files do (`TMPDIR`). Each is held by a lock, so that what a killed process left is removed by
the next one that makes such a directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import IO

from mbe_stage.errors import StageError
from pipeline.locks import is_locked, locked
from pipeline.publish import as_publish_errors
from pipeline.stores.address import Address

__all__ = ["Mirror", "address_of", "addresses_in", "local_path"]

_PREFIX, _LOCK = "mbe-store-", ".lock"
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
        self._end = weakref.finalize(self, _remove, self.root, lock, os.getpid())
        _mirrors.add(self)

    def close(self) -> None:
        """Remove the directory; nothing the second time."""
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
        shutil.rmtree(root, ignore_errors=True)
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
        shutil.rmtree(left, ignore_errors=True)
