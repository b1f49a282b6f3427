"""What is moved between a store and this machine: objects as they are listed, and several transfers side by side."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime

from mbe_stage.pipeline.safe_paths import is_path_within
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.failures import StoreFailure

__all__ = ["AT_ONCE", "CHUNK", "OnBytes", "Stopped", "StoredObject", "check_names", "side_by_side"]

OnBytes = Callable[[int], object]
"""Told of bytes as they have been moved, from any thread."""

AT_ONCE = 4
CHUNK = 8 << 20
"""Bytes: between two of them a transfer can be stopped."""
_WAIT = 0.2


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as it was listed.

    Attributes
    ----------
    name : str
        Relative to the address.
    size : int
        Bytes; 0 also where a server does not say it.
    modified : datetime, optional
        None of an object that was not listed, and where nothing is written.
    """

    name: str
    size: int
    modified: datetime | None = None


class Stopped(Exception):
    """Another transfer failed, or a signal came: what is under way ends."""


def check_names(address: Address, names: Iterable[str]) -> None:
    """Refuse names that would lead a copy out of its directory; the empty name is the address itself.

    Raises
    ------
    StoreFailure
    """
    for name in names:
        if name and not is_path_within(name):
            reason = "a name that leads out of its directory"
            raise StoreFailure(errno.EINVAL, reason, str(address / name), "copy it under another name")


def side_by_side(names: list[str], move: Callable[[str, threading.Event], None]) -> None:
    """Move several at once; the first failure ends the others, and is raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        moved = {pool.submit(move, name, stop) for name in names}
        try:
            waiting = moved
            while waiting:
                # A wait without limit would hear no signal on some systems.
                done, waiting = wait(waiting, timeout=_WAIT, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
