"""What is asked of the objects below one address, whichever library reaches them."""

from __future__ import annotations

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.transfers import OnBytes, StoredObject, check_names, side_by_side

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.conditional_write import Cell

__all__ = ["ObjectsBelow"]


class ObjectsBelow(ABC):
    """What lies below an address, by names relative to it; the empty name is the address itself.

    All raise `StoreFailure` where the store or the server refuses, or is not reached.
    """

    def __init__(self, address: Address) -> None:
        self.address = address

    @abstractmethod
    def listed(self, below: str = "") -> list[StoredObject]:
        """Every object below a name, by name; none where there is nothing."""

    @abstractmethod
    def size(self, name: str = "") -> int | None:
        """Bytes of an object, 0 also where a server does not say it; None where there is none."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a small object; None where there is none."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> object:
        """Write a small object that is not there yet; nobody ever sees a part of it.

        Raises
        ------
        StoreConflict
            It is there.
        """

    def copy(self, name: str, to: str) -> None:
        """Have an object copied to another name where it is; nothing of it passes here.

        Raises
        ------
        StoreFailure
            Also where that cannot be done, with the errno `EOPNOTSUPP`.
        """
        reason = f"is not copied to {to} by the server itself"
        raise StoreFailure(errno.EOPNOTSUPP, reason, str(self._place(name)), "fetch it, and upload it there")

    @abstractmethod
    def delete(self, names: list[str]) -> None:
        """Remove objects; those that are not there are no error."""

    @abstractmethod
    def cell(self, name: str) -> Cell:
        """An object of that name whose content can be replaced, by one writer at a time."""

    def upload(self, directory: Path, names: list[str], below: str, on_bytes: OnBytes = lambda _: None) -> None:
        """Write the files of these names to objects of the same names below another name."""

        def move(name: str, stop: threading.Event) -> None:
            self._upload(directory / name, f"{below}/{name}", stop, on_bytes)

        side_by_side(names, move)

    def download(self, names: Mapping[str, Path], on_bytes: OnBytes = lambda _: None) -> None:
        """Write objects to files; directories are made."""
        check_names(self.address, names)

        def move(name: str, stop: threading.Event) -> None:
            names[name].parent.mkdir(parents=True, exist_ok=True)
            self._download(name, names[name], stop, on_bytes)

        side_by_side(list(names), move)

    @abstractmethod
    def _upload(self, path: Path, name: str, stop: threading.Event, on_bytes: OnBytes) -> None: ...

    @abstractmethod
    def _download(self, name: str, path: Path, stop: threading.Event, on_bytes: OnBytes) -> None: ...

    def _place(self, name: str) -> Address:
        return self.address / name if name else self.address
