"""Transfers between a store and this machine, several at a time."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime

from mbe_stage.pipeline.safe_paths import is_path_within
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.wording import bytes_text

log = logging.getLogger(__name__)

OnBytes = Callable[[int], object]
"""Called with numbers of moved bytes, from any thread."""

AT_ONCE = 4
CHUNK = 8 << 20
"""Bytes per chunk: a transfer can be stopped between two chunks."""
_WAIT = 0.2
_LOG_EVERY = 5.0


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing.

    Attributes
    ----------
    name : str
        Relative to the address.
    size : int
        Bytes; also 0 if a server does not say.
    modified : datetime, optional
        None for an object that was not listed, and for files read through fsspec.
    """

    name: str
    size: int
    modified: datetime | None = None


class Stopped(Exception):
    """Another transfer failed, or a signal arrived: transfers in progress stop."""


class MovedBytes:
    """Logs the progress of a transfer from time to time.

    Parameters
    ----------
    what : str
        Description of the transfer.
    n_bytes : int
        Total bytes; 0 if unknown.
    """

    def __init__(self, what: str, n_bytes: int) -> None:
        self._what, self._n_bytes, self._n_moved = what, n_bytes, 0
        self._lock, self._last = threading.Lock(), time.monotonic()

    def __call__(self, n_bytes: int) -> None:
        """Count bytes that were moved; from any thread."""
        with self._lock:
            self._n_moved += n_bytes
            now = time.monotonic()
            if now - self._last < _LOG_EVERY:
                return
            self._last = now
            done, of_all = self._n_moved, self._n_bytes
        log.info("%s: %s%s", self._what, bytes_text(done), f" of {bytes_text(of_all)}" if of_all else "")


def check_names(address: Address, names: Iterable[str]) -> None:
    """Refuse names that lead out of the directory of a copy; the empty name is the address itself.

    Raises
    ------
    StoreFailure
    """
    for name in names:
        if name and not is_path_within(name):
            reason = "a name that leads out of its directory"
            raise StoreFailure(errno.EINVAL, reason, str(address / name), "copy it under another name")


def side_by_side(names: list[str], move: Callable[[str, threading.Event], None]) -> None:
    """Run several transfers at once; the first failure stops the others, and is raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        moved = {pool.submit(move, name, stop) for name in names}
        try:
            waiting = moved
            while waiting:
                # A wait without limit cannot be interrupted by signals on some systems.
                done, waiting = wait(waiting, timeout=_WAIT, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
