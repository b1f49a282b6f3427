"""Directories of machine code for later processes, one for each state of the sources.

Directories are looked at in this order, and written to at the first that may be written:

1. ``mbe_stage/__pycache__``, beside the sources: ``mbe compile`` fills it before site-packages become read-only;
2. the user's cache directory, ``$XDG_CACHE_HOME`` or ``~/.cache``, where the user has a home.

Where ``NUMBA_CACHE_DIR`` is set, it is the only one. In each stands ``mbe-stage/<digest of the sources>``, and in that
one file for each piece of code. The name of a file holds what the code was made for (function, types, processor,
versions): machines with different processors may share a directory, and processes that write at the same time never
mix up what they write.
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
# Directories of other sources that stay: those that were used last.
_OTHERS = 3
# What the constants of compiled code depend on beside the sources.
_VARIABLES = ("MBE_CLIQUES_WITHOUT", "MBE_CPU_WITHOUT")
# In front of a file's bytes: what a crash cut short is compiled anew.
_CHECK_BYTES = hashlib.sha256().digest_size


def cache_directories(sources: Path | None = None) -> tuple[Path, ...]:
    """Directories searched for machine code, in this order; they need not exist.

    Parameters
    ----------
    sources : Path, optional
        Directory whose sources count beside those of this package.
    """
    digest = _digest(sources)
    return tuple(root / _FOLDER / digest for root in _roots())


def sources_of(function: Callable[..., Any]) -> Path | None:
    """The directory whose sources count for a function's code beside those of this package; None for one of ours."""
    folder = Path(inspect.getfile(function)).resolve().parent
    return None if folder.is_relative_to(_PACKAGE) else folder


def can_keep(sources: Path | None = None) -> bool:
    """True if some cache directory may be written; only writing tells, whatever the file system."""
    try:
        keep("probe", b"", sources)
    except OSError:
        return False
    drop("probe", sources)
    return True


def is_kept(name: str, sources: Path | None = None) -> bool:
    """True if there is code of that name; what it is worth, `kept` says."""
    return any((directory / name).is_file() for directory in cache_directories(sources))


def kept(name: str, sources: Path | None = None) -> bytes | None:
    """The code of that name; None where there is none, or a crash left a part of it."""
    for directory in cache_directories(sources):
        try:
            content = (directory / name).read_bytes()
        except OSError:
            continue
        check, code = content[:_CHECK_BYTES], content[_CHECK_BYTES:]
        if hashlib.sha256(code).digest() == check:
            _note_use(directory)
            return code
        log.warning("%s is damaged: compiling anew", directory / name)
    return None


def keep(name: str, code: bytes, sources: Path | None = None) -> None:
    """Keep code under a name, in one step: it is there as a whole or not at all.

    Raises
    ------
    OSError
        None of the directories may be written.
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
    """As `keep`; where no directory may be written there is a warning, once, for only time is lost."""
    try:
        keep(name, code, sources)
    except OSError as refusal:
        _warn_once(str(refusal))


def drop(prefix: str, sources: Path | None = None) -> None:
    """Remove the code whose names begin so, where this user may."""
    for directory in cache_directories(sources):
        for path in directory.glob(f"{prefix}*"):
            with suppress(OSError):
                path.unlink()


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
    """Checksum of the sources, computed once a process."""
    digest = hashlib.sha256()
    for variable in _VARIABLES:
        digest.update(f"{variable}={os.environ.get(variable, '')}\n".encode())
    for folder in (_PACKAGE, *([sources] if sources else [])):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _begin(directory: Path) -> None:
    """Make the directory of these sources where there is none, and let go those that were used longest ago."""
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    others = [path for path in directory.parent.iterdir() if path != directory]
    # One that another process has removed meanwhile is as good as old.
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
    """Once a process. Where this user may not write, nothing is removed either."""
    with suppress(OSError):
        os.utime(directory)


@functools.cache
def _warn_once(refusals: str) -> None:
    log.warning("compiled code cannot be kept, so every process compiles anew (%s): set NUMBA_CACHE_DIR", refusals)
