"""Safe paths: names from outside are checked before use, and directories are opened without following links."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

EMPTY = "is an empty directory"
LINK, _SPECIAL = "is a symbolic link", "is not a regular file"
# Control characters, backslashes, and characters without UTF-8 encoding.
_UNFIT = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_MOST_BYTES, _MOST_PART_BYTES = 1024, 255


def is_path_within(name: str) -> bool:
    """Return whether a name is a relative POSIX path that stays below its directory.

    Examples
    --------
    >>> [is_path_within(name) for name in ("bicliques/part-0.parquet", "../x", "/x", "a//b", "a/./b", "")]
    [True, False, False, False, False, False]
    """
    if _UNFIT.search(name) or len(name.encode()) > _MOST_BYTES:
        return False
    return all(part not in ("", ".", "..") and len(part.encode()) <= _MOST_PART_BYTES for part in name.split("/"))


@contextmanager
def replaced_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place and permissions of `target` in one step; an error leaves that unchanged."""
    growing = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with open(growing, "xb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(growing, target)
    finally:
        growing.unlink(missing_ok=True)


@contextmanager
def opened_directory(name: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a descriptor of a real directory.

    Parameters
    ----------
    above : int, optional
        The descriptor that the name is relative to.

    Raises
    ------
    OSError
        It does not exist, or is a symbolic link or a file.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def what_is_at(path: str | Path, above: int | None = None) -> str | None:
    """Say why a path is not a real directory: empty text for a directory, None if it cannot be seen."""
    try:
        mode = os.stat(path, dir_fd=above, follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return ""
    return LINK if stat.S_ISLNK(mode) else "is a file" if stat.S_ISREG(mode) else _SPECIAL


def is_directory(path: str | Path, above: int | None = None) -> bool:
    """Return whether a path is a directory rather than a symbolic link to one."""
    return what_is_at(path, above) == ""


def is_file_within(directory: Path, name: str) -> bool:
    """Return whether a name is a regular file below a directory, without symbolic links on the way."""
    path = directory / name
    return is_path_within(name) and path.is_file() and path.resolve() == directory.resolve() / name


def remove_tree(path: Path, above: int) -> None:
    """Remove a real directory with all of its content.

    Parameters
    ----------
    path : Path
        Only its last name is used; the rest is for messages.
    above : int
        The descriptor of its parent directory.

    Raises
    ------
    OSError
        It is a symbolic link or a file, or some of its content cannot be removed.
    """
    try:
        shutil.rmtree(path.name, dir_fd=above)
    except RecursionError:
        raise OSError(errno.ELOOP, "it is nested too deep", str(path)) from None
    except OSError as error:
        error.filename = str(path)
        raise


def entries_below(directory: Path, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every file and empty directory below a directory in order, without following links.

    Yields
    ------
    str
        The path of the file or directory, relative to `directory`.
    str
        Empty text for a regular file, or a description of anything else.
    """
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        yield prefix.rstrip("/") or ".", f"cannot be read ({error.strerror})"
        return
    if not entries and prefix:
        yield prefix.rstrip("/"), EMPTY
    for entry in entries:
        # Longer names are not ours, and this also limits the depth.
        if entry.is_dir(follow_symlinks=False) and is_path_within(f"{prefix}{entry.name}"):
            yield from entries_below(directory / entry.name, f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield f"{prefix}{entry.name}", ""
        else:
            yield f"{prefix}{entry.name}", LINK if entry.is_symlink() else _SPECIAL


def odd_entry(directory: Path) -> str | None:
    """Name the first entry below a directory that is a symbolic link or not a regular file; None if there is none."""
    return next((f"{name} {what}" for name, what in entries_below(directory) if what not in ("", EMPTY)), None)
