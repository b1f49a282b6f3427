"""The objects below an address: by obstore in object stores, everywhere else by fsspec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbe_stage.pipeline.stores.address import Address

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.objects_below import ObjectsBelow

__all__ = ["objects_at"]


def objects_at(address: Address) -> ObjectsBelow:
    """What lies below an address; the library that reaches it is imported here.

    Raises
    ------
    ConfigError
        What reads it is not installed, or no such scheme or store is known.
    """
    if address.is_in_store:
        from mbe_stage.pipeline.stores.objects import Objects

        return Objects(address)
    from mbe_stage.pipeline.stores.file_systems import FileSystemObjects

    return FileSystemObjects(address)
