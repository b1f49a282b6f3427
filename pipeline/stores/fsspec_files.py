"""Files at addresses that are in no object store, read by the drivers of fsspec; nothing is written by way of them."""

from __future__ import annotations

import errno
import io
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mbe_stage.pipeline.stores import transfers
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.failures import NoSuchObject, StoreFailure
from mbe_stage.pipeline.stores.fsspec_drivers import (
    OVER_SSH,
    asked,
    close_driver,
    driver_class,
    is_missing,
    opened_driver,
)
from mbe_stage.pipeline.stores.remote_files import RemoteFiles
from mbe_stage.pipeline.stores.transfers import AT_ONCE, OnBytes, Stopped, StoredObject

__all__ = ["FsspecFiles", "files_below"]

# smbprotocol has one connection of a process with a server, and fails if several threads use it at once.
_ONE_AT_ONCE = {"smb": threading.Semaphore(1)}
# Pieces of 32 KB that are asked for before the first has come: more than the 2 MB that paramiko lets be on their way.
_AHEAD = 256
_MOST_LOOKS, _PAUSE = 5, 0.05


class FsspecFiles(RemoteFiles):
    """Files below an address.

    Raises
    ------
    ConfigError
        fsspec, or what it needs for this scheme, is not installed; or the scheme is unknown.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._class = driver_class(address)
        self._slots = _ONE_AT_ONCE.get(address.scheme) or threading.Semaphore(AT_ONCE)
        # Drivers that no thread uses; append and pop of a list need no lock.
        self._idle: list[Any] = []
        weakref.finalize(self, _close_all, address, self._idle)

    def listed(self, below: str = "") -> list[StoredObject]:
        """See `RemoteFiles`; a server of HTTP lists what its pages of directories link to."""
        try:
            with self._asking(below) as driver:
                found = files_below(driver, self.address, self._path(below))
        except NoSuchObject:
            return []
        above = f"{self._path().rstrip('/')}/"
        objects = (
            StoredObject(self._named(path.removeprefix(above)), about.get("size") or 0)
            for path, about in found.items()
            if path.startswith(above)
        )
        return sorted(objects, key=lambda each: each.name)

    def size(self, name: str = "") -> int | None:
        """See `RemoteFiles`; a directory is no file."""
        try:
            with self._asking(name) as driver:
                about = driver.info(self._path(name))
        except NoSuchObject:
            return None
        # A server of HTTP has a page for a directory, where it leads those who leave out the slash at its end.
        is_directory = about["type"] == "directory" or (self.address.is_http and about.get("url", "").endswith("/"))
        return None if is_directory else about.get("size") or 0

    def read(self, name: str) -> bytes | None:
        """See `RemoteFiles`."""
        try:
            with self._asking(name) as driver:
                return bytes(driver.cat_file(self._path(name)))
        except NoSuchObject:
            return None

    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None:
        place, n_bytes = self._place(name), 0
        with path.open("wb") as file, self._lent_driver() as driver:
            with asked(place):
                source = _opened_file(driver, self.address, self._path(name))
            try:
                while data := _next_chunk(source, place):
                    if stop.is_set():
                        raise Stopped
                    file.write(data)
                    n_bytes += len(data)
                    on_bytes(len(data))
                size = getattr(source, "size", None)
            finally:
                with asked(place):
                    source.close()
        # Not all drivers notice a connection that ends early.
        if isinstance(size, int) and size != n_bytes:
            reason = f"ended after {n_bytes:,} of {size:,} bytes"
            raise StoreFailure(errno.EIO, reason, str(place), "check the network, and try again")

    @contextmanager
    def _lent_driver(self) -> Iterator[Any]:
        """A driver that no other thread uses meanwhile; after a failure it is not used again."""
        with self._slots:
            driver = None
            with suppress(IndexError):
                driver = self._idle.pop()
            driver = driver or opened_driver(self.address)
            try:
                yield driver
            except NoSuchObject:
                # An answer like any other.
                self._idle.append(driver)
                raise
            except BaseException:
                close_driver(self.address, driver)
                raise
            self._idle.append(driver)

    @contextmanager
    def _asking(self, name: str) -> Iterator[Any]:
        """A driver to ask about a file, without what it remembers of earlier answers."""
        with self._lent_driver() as driver, asked(self._place(name)):
            driver.invalidate_cache()
            yield driver

    def _path(self, name: str = "") -> str:
        """The driver's name for a file."""
        path = str(self._class._strip_protocol(str(self.address)))
        return f"{path.rstrip('/')}/{quote(name) if self.address.is_http else name}" if name else path

    def _named(self, relative: str) -> str:
        """A path relative to the address as a name: a server of HTTP writes it as a part of an address."""
        return unquote(relative) if self.address.is_http else relative


def files_below(driver: Any, address: Address, path: str) -> Mapping[str, Mapping[str, Any]]:
    """Each file below a directory by its path, with what the driver says of it; none if there is no directory."""
    if address.is_http:
        # Links may lead to pages that are for others.
        return driver.find(path, detail=True)
    # Not by the driver's `find`: it leaves out, without a word, what it could not list.
    found, directories = {}, [path]
    while directories:
        directory = directories.pop()
        for about in _entries(driver, directory):
            name = about["name"].rstrip("/")
            if not {".", ".."}.isdisjoint(name.split("/")):
                # No file system has such names: the server wants its reader to leave the directory.
                continue
            if about["type"] != "directory":
                found[name] = about
            elif name != directory.rstrip("/"):
                directories.append(name)
    return found


def _entries(driver: Any, directory: str) -> Sequence[Mapping[str, Any]]:
    looks = 0
    while True:
        looks += 1
        try:
            return driver.ls(directory, detail=True)
        except OSError:
            # No directory, or another process has removed it since it was listed.
            if not _is_directory(driver, directory):
                return ()
            if looks == _MOST_LOOKS:
                raise
        # The driver of SMB asks for each file by itself, and another process may remove one meanwhile.
        time.sleep(_PAUSE)


def _is_directory(driver: Any, path: str) -> bool:
    # Not by the driver's `isdir`: it says no if the server does not answer.
    try:
        return driver.info(path)["type"] == "directory"
    except OSError as error:
        if is_missing(error):
            return False
        raise


def _opened_file(driver: Any, address: Address, path: str) -> Any:
    """A file to be read from beginning to end; its `size` is what the driver knows of it."""
    if address.scheme == "memory":
        # The driver gives every reader the same file, with one position for all.
        return io.BytesIO(driver.cat_file(path))
    file = driver.open(path, "rb")
    if address.scheme in OVER_SSH:
        _read_ahead(file)
    return file


def _next_chunk(source: Any, place: Address) -> bytes:
    with asked(place):
        return bytes(source.read(transfers.CHUNK))


def _read_ahead(file: Any) -> None:
    """Have a file of SFTP ask for pieces before they are read, or each takes the way there and back."""
    size = None
    with suppress(OSError):
        size = file.stat().st_size
    if size is None:
        # A server that does not say it. If the connection is lost, the first piece says so.
        return
    file.size = size
    send = getattr(file, "_prefetch_thread", None)
    if send is not None:

        def send_quietly(*arguments: Any) -> None:
            # The reader raises the error of a lost connection; a thread would write of it to stderr.
            with suppress(Exception):
                send(*arguments)

        file._prefetch_thread = send_quietly
    file.prefetch(size, max_concurrent_requests=_AHEAD)


def _close_all(address: Address, idle: list[Any]) -> None:
    while idle:
        close_driver(address, idle.pop())
