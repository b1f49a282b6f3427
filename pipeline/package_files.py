"""Versions of installed packages, the commit of this package, and its files that messages name.

``setup.py`` runs this file by itself, so it imports only the standard library.
"""

from __future__ import annotations

import functools
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# The repository, or `mbe_stage` of an sdist or an installation.
_HOME = Path(__file__).resolve().parents[1]


def default_configuration() -> Path:
    """Return the path of the default configuration, which shows every key."""
    return _HOME / "configs" / "default.yaml"


@functools.cache
def version_of(package: str) -> str:
    """Return the version of a package, or ``not installed``, as in a source tree without an installation."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """Return the commit of this code; empty if it is unknown, as in a copy of a checkout without history."""
    with suppress(OSError):
        return (_HOME / "commit.txt").read_text(encoding="ascii").strip()
    # Ignore the repository of a project that has this package in its virtual environment.
    if (_HOME / ".git").exists():
        with suppress(OSError, subprocess.CalledProcessError):
            git = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
            return subprocess.run(git, cwd=_HOME, capture_output=True, text=True, check=True).stdout.strip()
    return ""


def version_line() -> str:
    """Return the line of ``mbe --version``."""
    of = commit()
    return f"mbe {version_of('mbe-stage')}{f' ({of})' if of else ''}"
