"""A server for all tests of object stores, and a bucket and a place for temporary files for each."""

from __future__ import annotations

import gc
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.pipeline.stores.server import Bucket, Server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Server:
    from tests.pipeline.stores.server import Server

    return Server()


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bucket]:
    """A new bucket, with the environment that leads there; nothing temporary may be left."""
    from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    environment = {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
        "TMPDIR": str(temporary),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield Bucket(server, f"bucket-{next(_numbers)}")
    if any(temporary.iterdir()):
        # What an error came up in keeps it, until it is collected.
        gc.collect()
    assert list(temporary.iterdir()) == []
