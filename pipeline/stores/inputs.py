"""Inputs at addresses, in object stores or through fsspec: copied to this machine while they are read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import no_space, plain_name
from mbe_stage.pipeline.io.parquet import SUFFIXES
from mbe_stage.pipeline.stores.address import Address, parse_address
from mbe_stage.pipeline.stores.failures import as_input_errors
from mbe_stage.pipeline.stores.local_copies import LocalCopies
from mbe_stage.pipeline.stores.opening import files_at
from mbe_stage.pipeline.stores.remote_files import RemoteFiles
from mbe_stage.pipeline.stores.transfers import MovedBytes, StoredObject
from mbe_stage.pipeline.wording import bytes_text

log = logging.getLogger(__name__)


@contextmanager
def fetched_input(place: str) -> Iterator[tuple[Path, str]]:
    """Copy an object, or the data files below a prefix, into a temporary directory while the context lasts.

    Yields the path of the copy, and its name for messages: the address. Raises `ConfigError` for an unreadable address,
    and `InputError` if there is nothing, or the store refuses to read it.
    """
    address = parse_address(place)
    files = files_at(address)
    with as_input_errors():
        found = _data(files, address)
    above, _, name = address.key.rpartition("/")
    with LocalCopies(Address(address.root, above)) as copies:
        target = copies.root / name
        targets = {each.name: target / each.name if each.name else target for each in found}
        n_bytes = sum(each.size for each in found) if all(each.size for each in found) else 0
        log.info("fetching %s%s", address, f": {bytes_text(n_bytes)}" if n_bytes else "")
        try:
            with as_input_errors():
                files.download(targets, MovedBytes(f"fetching {address}", n_bytes))
        except OSError as error:
            expected = f"space for {bytes_text(n_bytes) if n_bytes else 'it'} there"
            raise no_space(address, f"cannot be copied to {copies.root}", expected, error) from error
        yield target, copies.named(target)


def something_is_at(place: str) -> bool:
    """Return whether there is an object at or below an address; a store that cannot be reached is an error."""
    address = parse_address(place)
    files = files_at(address)
    with as_input_errors():
        return bool(address.key and files.size() is not None) or bool(files.listed())


def _data(files: RemoteFiles, address: Address) -> list[StoredObject]:
    """Return the object at an address, with an empty name, or the data files below it."""
    size = files.size() if address.key else None
    if size is not None:
        return [StoredObject("", size)]
    below = files.listed()
    tables = [each for each in below if each.name.lower().endswith(SUFFIXES) and not _is_hidden(each.name)]
    lists = [each for each in below if each.name.startswith("out.") and "/" not in each.name]
    if found := tables or lists or _texts(below):
        return found
    if not below:
        found_none, expected = "no such object, and none below it", "an object or a prefix of edges"
        raise InputError.at(address, found=found_none, expected=expected, remedy="correct the address")
    raise InputError.at(
        address,
        found=f"a prefix of {', '.join(repr(each.name) for each in below[:10])}",
        expected="a prefix of .parquet files, of text files with one suffix, or with one KONECT file out.*",
        remedy="give one of the objects in it",
    )


def _texts(below: list[StoredObject]) -> list[StoredObject]:
    """Return the objects if all may be text files of one table; else none."""
    shown = [each for each in below if not _is_hidden(each.name)]
    suffixes = {Path(plain_name(Path(each.name))).suffix for each in shown}
    return shown if len(suffixes) == 1 and not any("/" in each.name for each in shown) else []


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))
