"""Addresses in object stores: what is one, its parts, and what is refused before anything is asked of a store."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigError

__all__ = ["SCHEMES", "Address", "absolute_place", "is_address", "parse_address"]

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
# What names the container within the authority: container@account.
_WITH_ACCOUNT = ("abfs", "abfss")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# What `pathlib.Path` makes of an address.
_AS_PATH = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)")


@dataclass(frozen=True, slots=True)
class Address:
    """A place in an object store.

    Attributes
    ----------
    root : str
        Scheme and bucket: ``s3://bucket``.
    key : str
        Within the bucket, without slashes at its ends; empty for all of it.
    """

    root: str
    key: str

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, name: str) -> Address:
        return Address(self.root, f"{self.key}/{name}" if self.key else name)


def is_address(place: object) -> bool:
    """Whether a place is named by an address with a scheme, and not by a path.

    An address that went through `pathlib.Path`, and lost a slash there, is one too, which `parse_address` refuses.

    Examples
    --------
    >>> is_address("s3://bucket/edges.parquet"), is_address("edges.parquet"), is_address(Path("out"))
    (True, False, False)
    """
    if not isinstance(place, str | os.PathLike):
        return False
    text = os.fsdecode(place)
    return _SCHEME.match(text) is not None or _AS_PATH.match(text) is not None


def parse_address(text: str) -> Address:
    """The parts of an address.

    Raises
    ------
    ConfigError
        Its scheme is unknown, it names no bucket, or it holds what may be a password or a setting of the connection,
        which the message does not repeat.

    Examples
    --------
    >>> parse_address("s3://bucket/a/edges.csv")
    Address(root='s3://bucket', key='a/edges.csv')
    """
    if _AS_PATH.match(text):
        raise ConfigError(
            f"{text}: an address with one slash, as pathlib.Path makes it; expected {text.replace(':/', '://', 1)}; "
            "give it as text"
        )
    found = _SCHEME.match(text)
    scheme = "" if found is None else found[1].lower()
    rest = text[0 if found is None else found.end() :]
    bucket, _, key = rest.partition("/")
    if "@" in bucket and (scheme not in _WITH_ACCOUNT or ":" in bucket):
        raise ConfigError(
            f"{scheme}://...@{bucket.rpartition('@')[2]}: holds a user or a password; expected an address without; "
            "give credentials as the store's environment variables (docs/object-stores.md)"
        )
    if scheme not in SCHEMES:
        raise ConfigError(
            f"{scheme}://{bucket}: a scheme that is not known; expected a path, or an address that begins with "
            f"{', '.join(f'{each}://' for each in SCHEMES)}; copy it to one of them, or to the disk"
        )
    if "?" in text or "#" in text:
        raise ConfigError(
            f"{scheme}://{bucket}: has settings behind its key (? or #); expected {scheme}://bucket/key alone; set the "
            "store's environment variables (docs/object-stores.md)"
        )
    parts = [part for part in key.split("/") if part]
    if not bucket or "." in parts or ".." in parts:
        raise ConfigError(f"{text}: names no place in a store; expected {scheme}://bucket/key; correct it")
    return Address(f"{scheme}://{bucket}", "/".join(parts))


def absolute_place(place: str) -> str:
    """A path as it is from anywhere; an address is that already, and only checked."""
    return str(parse_address(place)) if is_address(place) else os.path.abspath(Path(place))
