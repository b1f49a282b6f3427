"""Names of runs: the second in which a run was published and a suffix, so that names sort as runs were published."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

__all__ = ["RUN_ID", "is_run_id", "next_run_id", "provisional_id", "renamed"]

_TIME, _SUFFIX = "[0-9]{8}T[0-9]{6}Z", "[0-9a-f]{6}"
RUN_ID = f"{_TIME}-{_SUFFIX}"
"""The one form of a name, as a regular expression."""
_SHAPE = re.compile(f"({_TIME})-({_SUFFIX})")
# No name follows the last second that there is.
_TOO_LATE = "9999"
_SECOND = "%Y%m%dT%H%M%SZ"
_SUFFIXES = 1 << 24
# Within a second suffixes grow by a random step: 65,000 runs fit, and two directories hardly give the same name.
_STEP = 1 << 8


def is_run_id(name: str) -> bool:
    """Return whether a name has the one form that names of runs have.

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
    """The name of a run until it is published; its suffix is random."""
    return f"{now:{_SECOND}}-{secrets.token_hex(3)}"


def next_run_id(published: Iterable[str], now: datetime) -> str:
    """A name that sorts behind every published one, even where the clock was set back or the second is the same.

    Parameters
    ----------
    published : iterable of str
        Names of runs; those of another shape do not count.
    now : datetime
        UTC.

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
    """Files that state the name of their run, stating another one; the manifest has the new checksums of the others.

    Parameters
    ----------
    files : mapping of str to bytes
        The manifest is one of them.
    manifest : str
        Which.
    old, new : str
        Of equal length, so that no file grows.
    """
    changed = {name: content.replace(old.encode(), new.encode()) for name, content in files.items()}
    for name, content in files.items():
        if name != manifest:
            before, after = (hashlib.sha256(text).hexdigest().encode() for text in (content, changed[name]))
            changed[manifest] = changed[manifest].replace(before, after)
    return changed
