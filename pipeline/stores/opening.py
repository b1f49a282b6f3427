"""The files below an address: by obstore in object stores, everywhere else by fsspec."""

from __future__ import annotations

from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.remote_files import RemoteFiles


def files_at(address: Address) -> RemoteFiles:
    """Return the files below an address; the library that reads them is imported here.

    Raises
    ------
    ConfigError
        The library is not installed, or the scheme or the store is unknown.
    """
    if address.is_in_store:
        from mbe_stage.pipeline.stores.objects import Objects

        return Objects(address)
    from mbe_stage.pipeline.stores.fsspec_files import FsspecFiles

    return FsspecFiles(address)
