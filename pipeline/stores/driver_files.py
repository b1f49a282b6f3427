"""Files by the drivers of fsspec, each of which has ways of its own: listed, with their times, opened and written."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.drivers import OVER_SSH, is_missing

__all__ = ["files_below", "modified_at", "open_file", "write_to"]

# Pieces of 32 KB that are asked for before the first has come: more than the 2 MB that paramiko lets be on their way.
_AHEAD = 256
_MOST_LOOKS, _PAUSE = 5, 0.05
_TIMES = ("mtime", "modified", "last_modified", "LastModified", "created")


def files_below(driver: Any, address: Address, path: str) -> Mapping[str, Mapping[str, Any]]:
    """What is known of each file below a directory, by its path; none where there is no directory."""
    if address.is_http:
        # Links may lead to pages that are for others.
        return driver.find(path, detail=True)
    # Not by the driver's `find`: it leaves out, without a word, what it could not list.
    found, directories = {}, [path]
    while directories:
        directory = directories.pop()
        for about in _listed(driver, directory):
            name = about["name"].rstrip("/")
            if not {".", ".."}.isdisjoint(name.split("/")):
                # Of no file system: a server that wants to be left.
                continue
            if about["type"] != "directory":
                found[name] = about
            elif name != directory.rstrip("/"):
                directories.append(name)
    return found


def modified_at(about: Mapping[str, Any]) -> datetime | None:
    """When a file was last written, as far as its driver says it beyond doubt; a time without a zone is none."""
    # Of WebHDFS.
    if isinstance(milliseconds := about.get("modificationTime"), int):
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    # Of FTP, in UTC (RFC 3659).
    if isinstance(fact := about.get("modify"), str) and re.fullmatch(r"\d{14}(\.\d+)?", fact):
        return datetime.strptime(fact[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    for value in map(about.get, _TIMES):
        if isinstance(value, datetime):
            return value if value.tzinfo else None
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    return None


def open_file(driver: Any, address: Address, path: str, mode: str) -> Any:
    """A file to be read (`rb`) or written (`wb`) from beginning to end; its `size` is what the driver knows of it."""
    if mode == "rb" and address.scheme == "memory":
        # The driver gives every reader the same file, with one position for all.
        return io.BytesIO(driver.cat_file(path))
    file = driver.open(path, mode)
    if mode == "rb" and address.scheme in OVER_SSH:
        _read_ahead(file)
    return file


def write_to(file: Any, data: bytes) -> None:
    """Write a piece; at the end the server has acknowledged all of it."""
    if not hasattr(file, "set_pipelined"):
        file.write(data)
        return
    # SFTP writes 32 KB a request: all are sent before any answer is waited for, and the last waits for all. Where a
    # file is closed with answers still to come, paramiko looks at none of them.
    file.set_pipelined(True)
    file.write(data[:-1])
    file.set_pipelined(False)
    file.write(data[-1:])


def _listed(driver: Any, directory: str) -> Sequence[Mapping[str, Any]]:
    looks = 0
    while True:
        looks += 1
        try:
            return driver.ls(directory, detail=True)
        except OSError:
            # No directory, or removed by somebody else since it was listed.
            if not _is_directory(driver, directory):
                return ()
            if looks == _MOST_LOOKS:
                raise
        # The driver of SMB asks for each file by itself, and somebody else may remove one meanwhile.
        time.sleep(_PAUSE)


def _is_directory(driver: Any, path: str) -> bool:
    # Not by the driver's `isdir`: to it, what does not answer is none.
    try:
        return driver.info(path)["type"] == "directory"
    except OSError as error:
        if is_missing(error):
            return False
        raise


def _read_ahead(file: Any) -> None:
    """Have a file of SFTP ask for pieces before they are read, or each takes the way there and back."""
    size = None
    with suppress(OSError):
        size = file.stat().st_size
    if size is None:
        # A server that does not say it. If it is lost, the first piece says so.
        return
    file.size = size
    send = getattr(file, "_prefetch_thread", None)
    if send is not None:

        def send_quietly(*arguments: Any) -> None:
            # Whoever waits for the answer is told of a lost connection; a thread would write of it to stderr.
            with suppress(Exception):
                send(*arguments)

        file._prefetch_thread = send_quietly
    file.prefetch(size, max_concurrent_requests=_AHEAD)
