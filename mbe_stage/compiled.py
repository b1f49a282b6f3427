"""Compiled kernels kept from earlier runs are dropped when any source of this package has changed.

numba-cuda keeps machine code in ``__pycache__`` and compares only the file of a function, not those of what it calls.
After an update of a checkout, old code would go on running inside new code, and its answers could be wrong.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

__all__ = ["drop_stale_code"]

_STAMP = "compiled-from"
_COMPILED = ("*.nbi", "*.nbc")


def drop_stale_code(package: Path) -> int:
    """Remove what was compiled from other sources than those that are there now.

    Parameters
    ----------
    package : Path
        Directory of the package; nothing is done where this user may not write into it, for then Numba keeps its files
        elsewhere.

    Returns
    -------
    int
        Files removed.
    """
    cache = package / "__pycache__"
    stamp = cache / _STAMP
    digest = _digest(package)
    if stamp.is_file() and stamp.read_text() == digest:
        return 0
    if not os.access(cache if cache.is_dir() else package, os.W_OK | os.X_OK):
        return 0
    stale = [path for pattern in _COMPILED for path in package.rglob(pattern)]
    for path in stale:
        path.unlink(missing_ok=True)
    cache.mkdir(exist_ok=True)
    # In one step, last: a process that is stopped half way leaves the old stamp, and the next one begins again.
    fresh = cache / f"{_STAMP}.{os.getpid()}"
    fresh.write_text(digest)
    os.replace(fresh, stamp)
    return len(stale)


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
