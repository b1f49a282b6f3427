"""Connections to a server by way of fsspec: each is used by one thread at a time, and again where it still holds."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.drivers import close_driver, opened_driver
from mbe_stage.pipeline.stores.failures import NoSuchObject, StoreConflict
from mbe_stage.pipeline.stores.transfers import AT_ONCE

__all__ = ["Connections"]

# smbprotocol has one connection of a process with a server, and fails where several threads ask for more than it takes.
_ONE_AT_ONCE = {"smb": threading.Semaphore(1)}
# Seconds: servers and firewalls end connections that are not used, and between the first look at a place and the
# publication may be hours of work.
_IDLE = 20.0


class Connections:
    """At most `AT_ONCE` drivers of one address that are used at once; they are closed with the object."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._free = _ONE_AT_ONCE.get(address.scheme) or threading.Semaphore(AT_ONCE)
        # Those that nobody uses, and since when; append and pop of a list need no lock.
        self._idle: list[tuple[Any, float]] = []
        weakref.finalize(self, _close_all, address, self._idle)

    @contextmanager
    def lent(self) -> Iterator[Any]:
        """A driver that nobody else uses meanwhile; after a failure it is not used again.

        Raises
        ------
        StoreFailure
            The server cannot be reached.
        """
        with self._free:
            driver = self._still_good() or opened_driver(self._address)
            try:
                yield driver
            except (NoSuchObject, StoreConflict):
                # An answer like any other.
                self._idle.append((driver, time.monotonic()))
                raise
            except BaseException:
                close_driver(self._address, driver)
                raise
            self._idle.append((driver, time.monotonic()))

    def _still_good(self) -> Any:
        while True:
            try:
                driver, since = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < _IDLE:
                return driver
            close_driver(self._address, driver)


def _close_all(address: Address, idle: list[tuple[Any, float]]) -> None:
    while idle:
        close_driver(address, idle.pop()[0])
