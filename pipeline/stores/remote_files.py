"""Readable files below one address: objects of an object store, or files of an fsspec driver."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.transfers import OnBytes, StoredObject, check_names, side_by_side


class RemoteFiles(ABC):
    """Files below an address, by names relative to it; the empty name is the address itself.

    Every method raises `StoreFailure` if the store or the server refuses, or cannot be reached.
    """

    def __init__(self, address: Address) -> None:
        self.address = address

    @abstractmethod
    def listed(self, below: str = "") -> list[StoredObject]:
        """List every file below a name, sorted by name; empty if there is none."""

    @abstractmethod
    def size(self, name: str = "") -> int | None:
        """Return the bytes of a file, or 0 if the server does not say; None if there is no file."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if there is no file."""

    def download(self, names: Mapping[str, Path], on_bytes: OnBytes = lambda _: None) -> None:
        """Copy files to paths of this machine; directories are created."""
        check_names(self.address, names)

        def move(name: str, stop: threading.Event) -> None:
            names[name].parent.mkdir(parents=True, exist_ok=True)
            self._download(name, names[name], stop, on_bytes)

        side_by_side(list(names), move)

    @abstractmethod
    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None: ...

    def _place(self, name: str) -> Address:
        return self.address / name if name else self.address
