"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# How long an example takes is the machine's business, and what else runs there.
hypothesis.settings.register_profile("whatever the machine", deadline=None)
hypothesis.settings.load_profile("whatever the machine")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real graphs: `MBE_DATA`, or `../shared/data` beside the checkout."""
    given = os.environ.get("MBE_DATA")
    directory = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (directory / "southern_women.npz").is_file():
        pytest.skip(f"no real graphs in {directory}: set MBE_DATA to a directory that holds southern_women.npz")
    return directory
