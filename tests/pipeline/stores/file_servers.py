"""An SFTP server in its own process, and a directory that it serves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.patience import PATIENCE, begun
from tests.pipeline.stores import sftp_child
from tests.pipeline.stores.ports import SILENT, free_port, wait_for

__all__ = ["PASSWORD", "USER", "OnServer", "SftpServer"]

USER, PASSWORD = "tester", "the-password-that-nobody-may-read"


class SftpServer:
    """paramiko's SFTP server; killed with the tests, or by `kill`."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"sftp://{USER}@127.0.0.1:{self.port}"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, sftp_child.__file__, self.port, USER, PASSWORD]
        self.process = begun(command, env=environment, **SILENT)
        wait_for(self.process, self.port)

    def kill(self) -> None:
        """Stop like a machine that is switched off."""
        self.process.kill()
        self.process.wait(PATIENCE)


class OnServer:
    def __init__(self, server: SftpServer, directory: Path) -> None:
        self.server, self.directory, self.url = server, directory, f"{server.url}{directory}"

    def put(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"{self.url}/{name}"
