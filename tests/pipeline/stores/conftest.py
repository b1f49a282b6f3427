"""Servers shared by all tests of stores, and a fresh place on each of them for every test."""

from __future__ import annotations

import gc
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.pipeline.stores.file_servers import OnServer, SftpServer
    from tests.pipeline.stores.server import Bucket, Server

_numbers = itertools.count()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directory for temporary files; tests must leave it empty."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield temporary
    if any(temporary.iterdir()):
        # An exception keeps its objects alive until it is collected.
        gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.fixture(scope="session")
def server() -> Server:
    from tests.pipeline.stores.server import Server

    return Server()


@pytest.fixture
def bucket(server: Server, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new bucket, with the environment variables to reach it."""
    from tests.pipeline.stores.server import KEY_ID, SECRET, Bucket

    del temporary
    environment = {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.url,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(server, f"bucket-{next(_numbers)}")


@pytest.fixture(scope="session")
def sftp_server() -> SftpServer:
    pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")
    from tests.pipeline.stores.file_servers import SftpServer

    return SftpServer()


@pytest.fixture
def sftp(sftp_server: SftpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnServer:
    """A new directory on an SFTP server, with the password to reach it."""
    import fsspec.config

    from tests.pipeline.stores.file_servers import PASSWORD, OnServer

    # fsspec has already read the variable when it was imported, so change its configuration too.
    monkeypatch.setenv("FSSPEC_SFTP_PASSWORD", PASSWORD)
    monkeypatch.setitem(fsspec.config.conf, "sftp", {"password": PASSWORD})
    (tmp_path / "served").mkdir()
    return OnServer(sftp_server, tmp_path / "served")
