"""Objects below one address, by relative names, through obstore: list, read, write, and conditional writes.

Threads move files in chunks, so that a signal is handled between two chunks, and memory is bounded for any size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.stores import transfers
from mbe_stage.pipeline.stores.address import Address, check_output
from mbe_stage.pipeline.stores.failures import NoSuchObject, translated
from mbe_stage.pipeline.stores.remote_files import RemoteFiles
from mbe_stage.pipeline.stores.transfers import AT_ONCE, OnBytes, Stopped, StoredObject, side_by_side

# S3 accepts at most 10,000 parts per object.
_MOST_PARTS = 9_000
_RETRIES = {
    "max_retries": 5,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=10), "base": 2},
}
# The total time of a transfer is unlimited, but it fails without progress.
_TIMEOUTS = {
    "timeout": timedelta(days=1),
    "read_timeout": timedelta(minutes=1),
    "connect_timeout": timedelta(seconds=10),
}
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class Objects(RemoteFiles):
    """Objects of a store below an address.

    Raises
    ------
    ConfigError
        The address is not in an object store, the extra `object-stores` is not installed, or the store is unknown.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        check_output(str(address))
        self._store = _open(address)

    def listed(self, below: str = "") -> list[StoredObject]:
        """See `RemoteFiles`."""
        place = self._place(below)
        with translated(place):
            import obstore

            found = [each for chunk in obstore.list(self._store, prefix=place.key or None) for each in chunk]
        skipped = len(self.address.key) + 1 if self.address.key else 0
        objects = (StoredObject(each["path"][skipped:], each["size"], each["last_modified"]) for each in found)
        return sorted(objects, key=lambda each: each.name)

    def size(self, name: str = "") -> int | None:
        """See `RemoteFiles`."""
        try:
            with translated(self._place(name)):
                import obstore

                return obstore.head(self._store, self._key(name))["size"]
        except NoSuchObject:
            return None

    def read(self, name: str) -> bytes | None:
        """See `RemoteFiles`."""
        found = self.read_version(name)
        return None if found is None else found[0]

    def read_version(self, name: str) -> tuple[bytes, Mapping[str, Any]] | None:
        """Return the content of a small object, and its version for `replace`; None if it does not exist."""
        try:
            with translated(self.address / name):
                import obstore

                found = obstore.get(self._store, self._key(name))
                version = {"e_tag": found.meta["e_tag"], "version": found.meta["version"]}
                return bytes(found.bytes()), version
        except NoSuchObject:
            return None

    def create(self, name: str, content: bytes) -> Mapping[str, Any]:
        """Write a new small object, and return its version.

        Raises
        ------
        StoreConflict
            The object exists already.
        """
        return self._put(name, content, "create")

    def replace(self, name: str, content: bytes, version: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace an object that still has this version, and return the new version.

        Raises
        ------
        StoreConflict
            The object has another version.
        """
        return self._put(name, content, {key: value for key, value in version.items() if value is not None})

    def delete(self, names: list[str]) -> None:
        """Remove objects; missing ones are not an error."""
        if names:
            with translated(self.address):
                import obstore

                obstore.delete(self._store, [self._key(name) for name in names])

    def copy(self, name: str, to: str) -> None:
        """Copy an object to another name within the store, without a transfer.

        Raises
        ------
        StoreFailure
            Also if the store does not support it, with the errno `EOPNOTSUPP`.
        """
        with translated(self.address / name):
            import obstore

            obstore.copy(self._store, self._key(name), self._key(to))

    def upload(self, directory: Path, names: list[str], below: str, on_bytes: OnBytes = lambda _: None) -> None:
        """Upload the files of these names to objects of the same names below another name."""

        def move(name: str, stop: threading.Event) -> None:
            self._upload(directory / name, f"{below}/{name}", stop, on_bytes)

        side_by_side(names, move)

    def _put(self, name: str, content: bytes, mode: Any) -> Mapping[str, Any]:
        with translated(self.address / name):
            import obstore

            return {**obstore.put(self._store, self._key(name), content, mode=mode)}

    def _upload(self, path: Path, name: str, stop: threading.Event, on_bytes: OnBytes) -> None:
        size = path.stat().st_size
        chunk = max(transfers.CHUNK, -(-size // _MOST_PARTS))

        def chunks() -> Iterator[bytes]:
            with path.open("rb") as file:
                while data := file.read(chunk):
                    if stop.is_set():
                        raise Stopped
                    yield data
                    on_bytes(len(data))

        with translated(self.address / name):
            import obstore

            if size <= chunk:
                obstore.put(self._store, self._key(name), b"".join(chunks()))
            else:
                obstore.put(self._store, self._key(name), chunks(), chunk_size=chunk, max_concurrency=AT_ONCE)

    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None:
        with path.open("wb") as file, translated(self._place(name)):
            import obstore

            found = obstore.get(self._store, self._key(name))
            for data in found.stream(min_chunk_size=transfers.CHUNK):
                if stop.is_set():
                    raise Stopped
                file.write(data)
                on_bytes(len(data))

    def _key(self, name: str) -> str:
        return self._place(name).key


def _open(address: Address) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise ConfigError(
            f"{address}: is in an object store, which needs a package that is not installed; expected a path of "
            "this machine; install it: pip install 'mbe-stage[object-stores]'"
        ) from None
    options: dict[str, Any] = dict(_TIMEOUTS)
    # An explicit endpoint without encryption is intended.
    if address.root.startswith("s3") and _endpoint().startswith("http://"):
        options["allow_http"] = True
    try:
        return from_url(address.root, client_options=options, retry_config=_RETRIES)
    except (BaseError, ValueError):
        # Its message may quote settings.
        remedy = "check the address and the store's environment variables (docs/how-to/object-stores.md)"
        raise ConfigError(f"{address}: no such store can be opened; expected a bucket; {remedy}") from None


def _endpoint() -> str:
    return next((os.environ[name] for name in _S3_ENDPOINTS if os.environ.get(name)), "")
