"""Fixtures that all tests share."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

_STAGE = Path(__file__).resolve().parents[1] / "mbe_stage"


def pytest_configure() -> None:
    """Drop compiled code that is older than any source: Numba's cache knows a function's file, not its callees'."""
    sources = sorted(_STAGE.rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    stamp = _STAGE / "__pycache__" / "compiled-from"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    for pattern in ("*.nbi", "*.nbc"):
        for path in _STAGE.rglob(pattern):
            path.unlink(missing_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real graphs: `MBE_DATA`, or `../shared/data` beside the checkout."""
    given = os.environ.get("MBE_DATA")
    directory = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (directory / "southern_women.npz").is_file():
        pytest.skip(f"no real graphs in {directory}: set MBE_DATA to a directory that holds southern_women.npz")
    return directory
