"""Names of runs and other entries of an output directory, write errors, and syncing files to disk.

A run name is the second of publication and a suffix, so names sort by publication.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.safe_paths import is_directory, is_file_within, what_is_at

PLAIN_VERSION, SCHEMA_VERSION = 2, 3
"""Versions of the published tables and of the manifest that can be read: of runs without and
with derived outputs. Derived outputs of version 2 followed other rules."""
MANIFEST_NAME = "manifest.json"
JOURNAL_NAME = "journal"
LATEST, LOCK, RUNS, STAGING = "latest", ".lock", "runs", ".staging"
KEPT, EXPIRED = "kept", "-expired"
KEPT_DAYS = 7.0
"""Days for which resumable runs are kept."""
ABANDONED_AFTER = timedelta(days=1)
"""An upload without additions for this long has no writer."""
_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another output directory",
    errno.EDQUOT: "your disk quota is used up: free some space, or choose another output directory",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), or choose another output directory",
    errno.EROFS: "the file system is read-only: choose another output directory",
    errno.EACCES: "give this user write permission, or choose another output directory",
    errno.EPERM: "give this user write permission, or choose another output directory",
    errno.ENOTDIR: "a file is in the way: choose another output directory",
    errno.EEXIST: "a file is in the way: choose another output directory",
    errno.EISDIR: "a directory is in the way: remove it, or choose another output directory",
    errno.ELOOP: "a symbolic link is in the way: remove it, or choose another output directory",
    errno.ENOLCK: "the file system has no locks: choose a directory on a local disk",
    errno.EOPNOTSUPP: "the file system has no locks or symbolic links: choose a directory on a local disk",
}
_TIME, _SUFFIX = "[0-9]{8}T[0-9]{6}Z", "[0-9a-f]{6}"
RUN_ID = f"{_TIME}-{_SUFFIX}"
"""The form of a run name, as a regular expression."""
_SHAPE = re.compile(f"({_TIME})-({_SUFFIX})")
# No name can follow the last possible second.
_TOO_LATE = "9999"
_SECOND = "%Y%m%dT%H%M%SZ"
_SUFFIXES = 1 << 24
# Within a second, suffixes grow by a random step: 65,000 runs fit, and two directories rarely give the same name.
_STEP = 1 << 8


@contextmanager
def as_publish_errors(path: Path, outcome: str = "nothing was published") -> Iterator[None]:
    """Turn an error of the operating system while writing `path` into a `PublishError` with a remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        remedy = _REMEDIES.get(error.errno or 0, "check the disk, or choose another output directory")
        raise PublishError(f"{place}: cannot be written ({reason}); {outcome}; {remedy}") from error


def is_unfinished(staging_dir: Path) -> bool:
    """Return whether a staging directory can be resumed: it has a journal, and the run or its second names."""
    has_journal = is_directory(staging_dir) and is_file_within(staging_dir, JOURNAL_NAME)
    return has_journal and any(is_directory(staging_dir / name) for name in (staging_dir.name, KEPT))


def resumable_in(staging: Path) -> list[Path]:
    """List the resumable staging directories below a directory, in no order."""
    if not is_directory(staging):
        return []
    return [each for each in staging.glob("*") if is_run_id(each.name) and is_unfinished(each)]


def written_at(staging_dir: Path) -> float:
    """Return the time of the journal's last write, in seconds since 1970."""
    try:
        return (staging_dir / JOURNAL_NAME).stat().st_mtime
    except FileNotFoundError:
        # It was published or removed in the meantime.
        return 0.0


def is_staging_name(name: str) -> bool:
    """Return whether an entry of `.staging` is named like a run, or like one being removed."""
    return is_run_id(name.removesuffix(EXPIRED))


def refuse_other_than_directory(path: Path) -> None:
    """Refuse a symbolic link or a file in place of one of our directories; a missing directory is fine."""
    if what := what_is_at(path):
        raise PublishError(
            f"{path}: {what}; expected a directory made by mbe; move it away, or choose another output directory"
        )


def sizes_of(run: Path) -> Callable[[str], int | None]:
    """Return a function from a path within a run to the size of the file; None if there is no file."""

    def size_of(name: str) -> int | None:
        return (run / name).stat().st_size if is_file_within(run, name) else None

    return size_of


def sync(path: Path) -> None:
    """Sync a file or a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_run_id(name: str) -> bool:
    """Return whether a name has the form of a run name.

    Examples
    --------
    >>> is_run_id("20261120T060001Z-0a1b2c"), is_run_id("../20261120T060001Z-0a1b2c")
    (True, False)
    """
    return _parsed(name) is not None


def _parsed(name: str) -> re.Match[str] | None:
    found = _SHAPE.fullmatch(name)
    if found is None or name >= _TOO_LATE:
        return None
    try:
        datetime.strptime(found[1], _SECOND).replace(tzinfo=UTC)
    except ValueError:
        return None
    return found


def provisional_id(now: datetime) -> str:
    """Return the name of a run until it is published; its suffix is random."""
    return f"{now:{_SECOND}}-{secrets.token_hex(3)}"


def next_run_id(published: Iterable[str], now: datetime) -> str:
    """Return a name that sorts after every published one, even if the clock was set back or in the same second.

    Parameters
    ----------
    published : iterable of str
        Names of runs; other names are ignored.
    now : datetime
        The current time in UTC.

    Examples
    --------
    >>> now = datetime(2026, 11, 20, 6, 0, 1, tzinfo=UTC)
    >>> next_run_id(["20261120T060001Z-000000"], now)[:20]
    '20261120T060001Z-000'
    >>> next_run_id(["20261120T070000Z-ffffff"], now)[:17]
    '20261120T070001Z-'
    """
    newest = max((found for found in map(_parsed, published) if found), key=lambda found: found[0], default=None)
    fresh = provisional_id(now)
    if newest is None or newest[1] < fresh[: len(newest[1])]:
        return fresh
    suffix = int(newest[2], 16) + 1 + secrets.randbelow(_STEP)
    if suffix < _SUFFIXES:
        return f"{newest[1]}-{suffix:06x}"
    return provisional_id(datetime.strptime(newest[1], _SECOND).replace(tzinfo=UTC) + timedelta(seconds=1))


def renamed(files: Mapping[str, bytes], manifest: str, old: str, new: str) -> dict[str, bytes]:
    """Replace the run name in files that contain it; update the checksums in the manifest.

    Parameters
    ----------
    files : mapping of str to bytes
        One of them is the manifest.
    manifest : str
        Name of the manifest.
    old, new : str
        Run names of equal length, so that file sizes do not change.
    """
    changed = {name: content.replace(old.encode(), new.encode()) for name, content in files.items()}
    for name, content in files.items():
        if name != manifest:
            before, after = (hashlib.sha256(text).hexdigest().encode() for text in (content, changed[name]))
            changed[manifest] = changed[manifest].replace(before, after)
    return changed
