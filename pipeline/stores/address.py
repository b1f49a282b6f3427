"""Addresses: recognise, split, and refuse them before any request to a store or server."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from mbe_stage.pipeline.errors import ConfigError

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""Schemes of object stores, to which runs are published; fsspec reads the others."""
STANDARD_INPUT = "-"
"""The place that stands for standard input."""
Place = TypeVar("Place")
_SAME = {"gcs": "gs"}
# Schemes with the container within the authority: container@account.
_WITH_ACCOUNT = ("abfs", "abfss")
# Schemes whose user name alone is not secret, and rarely equals the local user name.
_WITH_USER = ("sftp", "ssh", "hdfs", "smb")
# Schemes with the first part of a path after the slashes.
_WITHOUT_HOST = ("memory",)
_CHAIN = r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*"
_SCHEME = re.compile(rf"{_CHAIN}([A-Za-z][A-Za-z0-9+.-]*)://")
# The result of `pathlib.Path` on an address.
_OTHERS = ("gcs", "http", "https", "ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs", "memory")
_AS_PATH = re.compile(rf"({'|'.join((*SCHEMES, *_OTHERS))}):/(?!/)")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(:\d*)?")
_FILE = re.compile(r"file:(?://)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """A place in an object store, or in a file system of fsspec.

    Attributes
    ----------
    root : str
        Scheme and bucket, or host: ``s3://bucket``.
    key : str
        Key in the bucket, without outer slashes; empty for the whole bucket.
    """

    root: str
    key: str

    @property
    def scheme(self) -> str:
        """The scheme, in lower case."""
        return self.root.partition(":")[0]

    @property
    def is_in_store(self) -> bool:
        """True for an object store."""
        return self.scheme in SCHEMES

    @property
    def is_http(self) -> bool:
        """True for an HTTP server, which lists directories as pages."""
        return self.scheme in ("http", "https")

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    def __truediv__(self, name: str) -> Address:
        return Address(self.root, f"{self.key}/{name}" if self.key else name)


def is_address(place: object) -> bool:
    """Return whether a place is an address with a scheme, rather than a path.

    An address that lost a slash in `pathlib.Path` counts too; `parse_address` refuses it.

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
    """Return the parts of an address.

    Raises
    ------
    ConfigError
        It names no place, or may contain a password or a connection setting, which the message does not repeat.

    Examples
    --------
    >>> parse_address("s3://bucket/a/edges.csv")
    Address(root='s3://bucket', key='a/edges.csv')
    """
    if _AS_PATH.match(text):
        meant = parse_address(text.replace(":/", "://", 1))
        raise ConfigError(
            f"{text}: an address with one slash, as pathlib.Path makes it; expected {meant}; give it as text"
        )
    found = _SCHEME.match(text)
    scheme = "" if found is None else found[1].lower()
    scheme = _SAME.get(scheme, scheme)
    bucket, _, key = text[0 if found is None else found.end() :].partition("/")
    _refuse_secrets(text, scheme, bucket or key.lstrip("/").partition("/")[0])
    parts = [part for part in key.split("/") if part]
    if not (bucket or (parts and scheme not in SCHEMES)) or "." in parts or ".." in parts:
        raise ConfigError(f"{text}: does not name a place in a store; expected {scheme}://bucket/key; correct it")
    if scheme in _WITHOUT_HOST:
        return Address(f"{scheme}:/", "/".join((bucket, *parts)).strip("/"))
    return Address(f"{scheme}://{bucket}", "/".join(parts))


def check_output(place: str) -> None:
    """Refuse an address outside object stores: runs are not published there.

    Raises
    ------
    ConfigError

    Examples
    --------
    >>> check_output("out"), check_output("s3://bucket/out")
    (None, None)
    """
    if is_address(place) and not (address := parse_address(place)).is_in_store:
        raise ConfigError(
            f"{address}: runs are not published at addresses of {address.scheme}://; expected a directory of this "
            "machine, or an address of an object store (s3://, gs://, az://, abfs://); choose one of these, and "
            "copy the runs afterwards"
        )


def _refuse_secrets(text: str, scheme: str, authority: str) -> None:
    """Refuse an address that may contain a password; the message shows only the host."""
    if "::" in text.partition("://")[0] or (scheme not in SCHEMES and "::" in re.sub(r"\[.*?\]", "", text)):
        raise ConfigError(
            f"{scheme}://...: a chained address (::); expected a single address; copy the file to the disk, or "
            "give its own address"
        )
    user, at, behind = authority.rpartition("@")
    host = re.split("[?#]", behind)[0]
    is_host = _HOST.fullmatch(host) is not None
    may_have_user = scheme in (*_WITH_ACCOUNT, *_WITH_USER) and ":" not in user
    if not is_host or (at and not may_have_user):
        raise ConfigError(
            f"{scheme}://...{f'@{host}' if at and is_host else ''}: has a user or a password; expected an "
            "address without; give credentials as environment variables (docs/how-to/object-stores.md)"
        )
    shown = f"{scheme}://{host}"
    if "?" in text or "#" in text:
        raise ConfigError(
            f"{shown}: has settings after its key (? or #); expected only {scheme}://bucket/key; set environment "
            "variables (docs/how-to/object-stores.md)"
        )


def place_of(place: Place) -> Place | str:
    """Return the path of a ``file:`` address; any other place unchanged.

    Raises
    ------
    ConfigError
        The file is on another machine.

    Examples
    --------
    >>> place_of("file:///data/a%20b.csv"), place_of("edges.csv"), place_of("s3://bucket/edges.csv")
    ('/data/a b.csv', 'edges.csv', 's3://bucket/edges.csv')
    """
    found = _FILE.match(place) if isinstance(place, str) else None
    if found is None:
        return place
    host, _, path = str(place)[found.end() :].partition("/")
    if host and "//" not in found[0]:
        # A name that contains a colon.
        return place
    if host.lower() not in ("", "localhost") or not path or re.search(r"[?#]", path):
        raise ConfigError(
            "file://...: is not a file of this machine; expected file:///path, with %3F for ? and %23 for #; "
            "give its path"
        )
    return f"/{unquote(path.lstrip('/'))}"


def absolute_place(place: str) -> str:
    """Return an absolute path; an address is only checked."""
    meant = str(place_of(place))
    return str(parse_address(meant)) if is_address(meant) else os.path.abspath(Path(meant))
