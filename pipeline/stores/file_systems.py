"""What lies at addresses of other schemes than those of object stores, over the drivers of fsspec: listed and read.

Nothing is written there: fsspec has no write on a condition, as a pointer to the latest run takes.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pipeline.stores import transfers
from pipeline.stores.address import Address
from pipeline.stores.drivers import asked, driver_class, opened_driver
from pipeline.stores.failures import NoSuchObject, StoreFailure
from pipeline.stores.transfers import OnBytes, Stopped, StoredObject, check_names, side_by_side

__all__ = ["FileSystemObjects"]


class FileSystemObjects:
    """What lies below an address, as `pipeline.stores.objects.Objects` says it.

    Parameters
    ----------
    address : Address

    Raises
    ------
    ConfigError
        fsspec, or what it needs for this scheme, is not installed; or no such scheme is known.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._class = driver_class(address)
        self._is_http = address.scheme in ("http", "https")
        self._of_thread = threading.local()

    def listed(self) -> list[StoredObject]:
        """Every object below the address, by name; of a server of HTTP, what its pages of directories link to."""
        try:
            with asked(self.address):
                found = self._driver().find(self._path(), detail=True)
        except NoSuchObject:
            return []
        above = f"{self._path().rstrip('/')}/"
        objects = (
            StoredObject(self._named(path.removeprefix(above)), about.get("size") or 0)
            for path, about in found.items()
            if path.startswith(above)
        )
        return sorted(objects, key=lambda each: each.name)

    def size(self) -> int | None:
        """Bytes of the object at the address, 0 where the server does not say it; None where there is none."""
        try:
            with asked(self.address):
                about = self._driver().info(self._path())
        except NoSuchObject:
            return None
        # A server of HTTP has a page for a directory, where it leads those who leave out the slash at its end.
        is_directory = about["type"] == "directory" or (self._is_http and about.get("url", "").endswith("/"))
        return None if is_directory else about.get("size") or 0

    def download(self, names: Mapping[str, Path], on_bytes: OnBytes = lambda _: None) -> None:
        """Write objects to files; directories are made."""
        check_names(self.address, names)

        def move(name: str, stop: threading.Event) -> None:
            self._download(name, names[name], stop, on_bytes)

        side_by_side(list(names), move)

    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None:
        place = self.address / name if name else self.address
        n_bytes = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file, self._opened(place, self._path(name)) as source:
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

    @contextmanager
    def _opened(self, place: Address, path: str) -> Iterator[Any]:
        with asked(place):
            source = self._driver().open(path, "rb")
        try:
            yield source
        finally:
            with asked(place):
                source.close()

    def _driver(self) -> Any:
        if not hasattr(self._of_thread, "driver"):
            self._of_thread.driver = opened_driver(self.address)
        return self._of_thread.driver

    def _path(self, name: str = "") -> str:
        """What the driver calls an object."""
        path = str(self._class._strip_protocol(str(self.address)))
        return f"{path.rstrip('/')}/{quote(name) if self._is_http else name}" if name else path

    def _named(self, relative: str) -> str:
        """What a path relative to the address says: a server of HTTP writes it as a part of an address."""
        return unquote(relative) if self._is_http else relative
