"""Directories of machine code for later processes, one for each state of the sources.

Directories are searched in this order, and the first writable one receives new code:

1. ``mbe_stage/__pycache__``, beside the sources: ``mbe compile`` fills it before site-packages become read-only;
2. the user's cache directory, ``$XDG_CACHE_HOME`` or ``~/.cache``, if the user has a home.

If ``NUMBA_CACHE_DIR`` is set, it is the only directory. Each contains ``mbe-stage/<digest of the sources>`` with one
file for each piece of code. A file's name covers all that the code depends on (function, types, processor, versions).
So machines with different processors may share a directory, and parallel writers do not conflict.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDER = "mbe-stage"
_DIGITS = 20
# Number of directories kept besides, the most recently used ones. In a checkout, one state of the sources has four: the
# package's and those of three folders of `pipeline`. Each other package with compiled code has one more.
_OTHERS = 15
# Environment variables that affect constants of compiled code.
_VARIABLES = ("MBE_CLIQUES_WITHOUT", "MBE_CPU_WITHOUT")
# Size of the checksum before a file's code: code that a crash cut short is compiled again.
_CHECK_BYTES = hashlib.sha256().digest_size


def cache_directories(sources: Path | None = None) -> tuple[Path, ...]:
    """Return the directories to search for machine code, in this order; they need not exist.

    Parameters
    ----------
    sources : Path, optional
        Directory with further sources that the code depends on.
    """
    digest = _digest(sources)
    return tuple(root / _FOLDER / digest for root in _roots())


def sources_of(function: Callable[..., Any]) -> Path | None:
    """Return the directory of a function's sources; None for functions of this package."""
    folder = Path(inspect.getfile(function)).resolve().parent
    return None if folder.is_relative_to(_PACKAGE) else folder


def can_keep(sources: Path | None = None) -> bool:
    """Return True if a cache directory is writable.

    It tries to write, as only this is reliable on every file system.
    """
    try:
        keep("probe", b"", sources)
    except OSError:
        return False
    drop("probe", sources)
    return True


def is_kept(name: str, sources: Path | None = None) -> bool:
    """Return True if there is code of that name; only `kept` checks whether it is complete."""
    return any((directory / name).is_file() for directory in cache_directories(sources))


def kept(name: str, sources: Path | None = None) -> bytes | None:
    """Return the code of that name; None if there is none, or it is damaged."""
    for directory in cache_directories(sources):
        try:
            content = (directory / name).read_bytes()
        except OSError:
            continue
        check, code = content[:_CHECK_BYTES], content[_CHECK_BYTES:]
        if hashlib.sha256(code).digest() == check:
            _note_use(directory)
            return code
        log.warning("%s is damaged: compiling again", directory / name)
    return None


def keep(name: str, code: bytes, sources: Path | None = None) -> None:
    """Save code under a name atomically: the file is complete or absent.

    Raises
    ------
    OSError
        No directory is writable.
    """
    refusals = []
    for directory in cache_directories(sources):
        try:
            _begin(directory)
            _replace(directory / name, hashlib.sha256(code).digest() + code)
        except OSError as refusal:
            refusals.append(f"{directory.parent}: {refusal.strerror}")
            continue
        return
    raise OSError("; ".join(refusals))


def keep_or_warn(name: str, code: bytes, sources: Path | None = None) -> None:
    """Save code as `keep` does; if no directory is writable, only warn once, since only time is lost."""
    try:
        keep(name, code, sources)
    except OSError as refusal:
        _warn_once(str(refusal))


def drop(prefix: str, sources: Path | None = None) -> None:
    """Remove the code whose names begin with `prefix`, as far as permissions allow."""
    for directory in cache_directories(sources):
        for path in directory.glob(f"{prefix}*"):
            with suppress(OSError):
                path.unlink()


def clear() -> list[Path]:
    """Remove the code of all versions and processors, as far as permissions allow; return its directories."""
    found = [directory for root in _roots() for directory in _directories(root / _FOLDER)]
    for directory in found:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):
            directory.parent.rmdir()
    return found


def _directories(folder: Path) -> list[Path]:
    """List the directories of code in a folder; other contents, such as a checkout, are not ours."""
    return [path for path in folder.glob("[0-9a-f]" * _DIGITS) if path.is_dir() and not path.is_symlink()]


def _roots() -> tuple[Path, ...]:
    only = os.environ.get("NUMBA_CACHE_DIR")
    if only:
        return (Path(only),)
    beside = _PACKAGE / "__pycache__"
    user = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"))
    # A user without HOME and without an account, as in many containers, has no such directory.
    return (beside,) if user.startswith("~") else (beside, Path(user))


@functools.cache
def _digest(sources: Path | None) -> str:
    """Return the checksum of the sources."""
    digest = hashlib.sha256()
    for variable in _VARIABLES:
        digest.update(f"{variable}={os.environ.get(variable, '')}\n".encode())
    for folder in (_PACKAGE, *([sources] if sources else [])):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def _begin(directory: Path) -> None:
    """Make the directory of these sources if there is none, and remove the least recently used ones."""
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    others = [path for path in _directories(directory.parent) if path != directory]
    # A directory that another process removes meanwhile counts as old.
    used = {path: path.stat().st_mtime if path.exists() else 0.0 for path in others}
    for path in sorted(others, key=lambda path: used[path], reverse=True)[_OTHERS:]:
        shutil.rmtree(path, ignore_errors=True)


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        fresh.write_bytes(content)
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


@functools.cache
def _note_use(directory: Path) -> None:
    """Record the use of a directory, once per process. Users who may not write may not remove it either."""
    with suppress(OSError):
        os.utime(directory)


@functools.cache
def _warn_once(refusals: str) -> None:
    log.warning("compiled code cannot be kept, so every process compiles again (%s): set NUMBA_CACHE_DIR", refusals)
