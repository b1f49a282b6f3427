"""What lies at addresses of other schemes than those of object stores, over the drivers of fsspec.

What such a file system gives a small file is a name that was not taken, once the file is complete: it is written among
`.staging/` and takes its name then (`pipeline.stores.exclusive_create`). Whatever may be replaced is a
`NumberedCell` of those.
"""

from __future__ import annotations

import errno
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from mbe_stage.pipeline.publish.run_files import STAGING
from mbe_stage.pipeline.stores import transfers
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.conditional_write import NumberedCell
from mbe_stage.pipeline.stores.connections import Connections
from mbe_stage.pipeline.stores.driver_files import files_below, modified_at, open_file, write_to
from mbe_stage.pipeline.stores.drivers import asked, driver_class
from mbe_stage.pipeline.stores.exclusive_create import take_of
from mbe_stage.pipeline.stores.failures import NoSuchObject, StoreConflict, StoreFailure
from mbe_stage.pipeline.stores.objects_below import ObjectsBelow
from mbe_stage.pipeline.stores.transfers import OnBytes, Stopped, StoredObject

__all__ = ["FileSystemObjects"]

# Others that make the same directories at the same time make each attempt end at another level.
_MOST_ATTEMPTS = 5


class FileSystemObjects(ObjectsBelow):
    """Files below an address.

    Raises
    ------
    ConfigError
        fsspec, or what it needs for this scheme, is not installed; or no such scheme is known.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._class = driver_class(address)
        self._connections = Connections(address)
        self._take, self._keeps_apart = take_of(address.scheme)
        self._made: set[str] = set()

    def listed(self, below: str = "") -> list[StoredObject]:
        """See `ObjectsBelow`; of a server of HTTP, what its pages of directories link to."""
        try:
            with self._asking(below) as driver:
                found = files_below(driver, self.address, self._path(below))
        except NoSuchObject:
            return []
        above = f"{self._path().rstrip('/')}/"
        objects = (
            StoredObject(self._named(path.removeprefix(above)), about.get("size") or 0, modified_at(about))
            for path, about in found.items()
            if path.startswith(above)
        )
        return sorted(objects, key=lambda each: each.name)

    def size(self, name: str = "") -> int | None:
        """See `ObjectsBelow`; a directory is no object."""
        try:
            with self._asking(name) as driver:
                about = driver.info(self._path(name))
        except NoSuchObject:
            return None
        # A server of HTTP has a page for a directory, where it leads those who leave out the slash at its end.
        is_directory = about["type"] == "directory" or (self.address.is_http and about.get("url", "").endswith("/"))
        return None if is_directory else about.get("size") or 0

    def read(self, name: str) -> bytes | None:
        """See `ObjectsBelow`."""
        try:
            with self._asking(name) as driver:
                return bytes(driver.cat_file(self._path(name)))
        except NoSuchObject:
            return None

    def create(self, name: str, content: bytes) -> None:
        """See `ObjectsBelow`; two that do it at the same time are kept apart where the file system can (`taking`)."""
        written = f"{STAGING}/{secrets.token_hex(8)}.part"
        try:
            self._write(written, [content])
            self._give_name(written, name)
        except BaseException:
            with suppress(StoreFailure):
                self.delete([written])
            raise
        # The last of several that all believed the name was free.
        if not self._keeps_apart and self.read(name) != content:
            raise StoreConflict(str(self._place(name)))

    def delete(self, names: list[str]) -> None:
        """See `ObjectsBelow`; directories that are empty then are removed too, but for those at the top."""
        above: set[PurePosixPath] = set()
        for name in names:
            try:
                with self._asking(name) as driver:
                    driver.rm_file(self._path(name))
            except StoreFailure:
                # Not all drivers say that it is not there.
                if self.size(name) is not None:
                    raise
            above.update(each for each in PurePosixPath(name).parents if len(each.parts) > 1)
        for directory in sorted(above, key=lambda each: len(each.parts), reverse=True):
            path = self._path(str(directory))
            self._made.discard(path)
            # Looked at first: some drivers remove all that is in it. Where it stays, it is empty.
            with suppress(StoreFailure), self._asking(str(directory)) as driver:
                if not driver.ls(path, detail=True):
                    driver.rmdir(path)

    def cell(self, name: str) -> NumberedCell:
        """See `ObjectsBelow`."""
        return NumberedCell(self, name, keeps_apart=self._keeps_apart)

    def _upload(self, path: Path, name: str, stop: threading.Event, on_bytes: OnBytes) -> None:
        def chunks() -> Iterator[bytes]:
            with path.open("rb") as file:
                while data := file.read(transfers.CHUNK):
                    if stop.is_set():
                        raise Stopped
                    yield data
                    on_bytes(len(data))

        self._write(name, chunks())

    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None:
        place, n_bytes = self._place(name), 0
        with path.open("wb") as file, self._opened(name, "rb") as source:
            while True:
                with asked(place):
                    data = source.read(transfers.CHUNK)
                if not data:
                    break
                if stop.is_set():
                    raise Stopped
                file.write(data)
                n_bytes += len(data)
                on_bytes(len(data))
            size = getattr(source, "size", None)
        # Not all drivers notice a connection that ends early.
        if isinstance(size, int) and size != n_bytes:
            reason = f"ended after {n_bytes:,} of {size:,} bytes"
            raise StoreFailure(errno.EIO, reason, str(place), "check the network, and try again")

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file, and look whether all of it is there."""
        place, n_bytes = self._place(name), 0
        self._make_above(name)
        with self._opened(name, "wb") as target:
            for data in chunks:
                with asked(place):
                    write_to(target, data)
                n_bytes += len(data)
        # Not all drivers notice that a disk is full.
        size = self.size(name)
        if size != n_bytes:
            reason = f"has {size or 0:,} of {n_bytes:,} bytes after it was written"
            raise StoreFailure(errno.EIO, reason, str(place), "check the network and the server's disk, and try again")

    def _give_name(self, written: str, name: str) -> None:
        self._make_above(name)
        with self._connections.lent() as driver:
            try:
                with asked(self._place(name)):
                    self._take(driver, self._path(written), self._path(name))
            except StoreFailure as failure:
                # Servers of SFTP say the same of every failure.
                if self._is_there(driver, name):
                    raise StoreConflict(str(self._place(name))) from failure
                raise

    def _is_there(self, driver: Any, name: str) -> bool:
        with suppress(StoreFailure), asked(self._place(name)):
            driver.info(self._path(name))
            return True
        return False

    def _make_above(self, name: str) -> None:
        """Make the directories above a file."""
        directory = self._path(name).rpartition("/")[0]
        if directory in self._made:
            return
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                with self._asking(name) as driver:
                    if not driver.isdir(directory):
                        driver.makedirs(directory, exist_ok=True)
                break
            except StoreFailure as failure:
                if attempt == _MOST_ATTEMPTS or failure.errno == errno.EACCES:
                    raise
        self._made.add(directory)

    @contextmanager
    def _asking(self, name: str) -> Iterator[Any]:
        """A driver that is asked about a file, and has forgotten what it knew of it."""
        with self._connections.lent() as driver, asked(self._place(name)):
            driver.invalidate_cache()
            yield driver

    @contextmanager
    def _opened(self, name: str, mode: str) -> Iterator[Any]:
        place = self._place(name)
        with self._connections.lent() as driver:
            with asked(place):
                file = open_file(driver, self.address, self._path(name), mode)
            try:
                yield file
            finally:
                with asked(place):
                    file.close()

    def _path(self, name: str = "") -> str:
        """What the driver calls an object."""
        path = str(self._class._strip_protocol(str(self.address)))
        return f"{path.rstrip('/')}/{quote(name) if self.address.is_http else name}" if name else path

    def _named(self, relative: str) -> str:
        """What a path relative to the address says: a server of HTTP writes it as a part of an address."""
        return unquote(relative) if self.address.is_http else relative
