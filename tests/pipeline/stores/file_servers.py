"""Places that fsspec reaches, in memory and on real servers of SFTP as processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import fsspec

from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.file_systems import FileSystemObjects
from tests.patience import PATIENCE, begun
from tests.pipeline.stores import sftp_child
from tests.pipeline.stores.ports import SILENT, free_port, wait_for

__all__ = [
    "PASSWORD",
    "USER",
    "InMemory",
    "OnServer",
    "Place",
    "SftpServer",
    "objects_at",
    "openssh",
    "pointer",
]

USER, PASSWORD = "tester", "the-password-that-nobody-may-read"
# Where distributions have it; SFTP_SERVER names another.
_PROGRAMS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")


def openssh() -> str | None:
    """OpenSSH's `sftp-server`, where it is."""
    found = [each for each in (os.environ.get("SFTP_SERVER", ""), *_PROGRAMS) if os.access(each, os.X_OK)]
    return found[0] if found else None


class SftpServer:
    """Of paramiko, or OpenSSH's program behind paramiko's transport; killed with the tests, or by `kill`."""

    def __init__(self, *program: str) -> None:
        self.port, self._program = free_port(), program
        self.url = f"sftp://{USER}@127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Begin, also again after `kill`."""
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, sftp_child.__file__, self.port, USER, PASSWORD, *self._program]
        self.process = begun(command, env=environment, **SILENT)
        wait_for(self.process, self.port)

    def kill(self) -> None:
        """As a machine that is switched off; what was written stays."""
        self.process.kill()
        self.process.wait(PATIENCE)


class OnServer:
    """A directory that a server serves."""

    def __init__(self, server: SftpServer, directory: Path) -> None:
        self.server, self.directory, self.url = server, directory, f"{server.url}{directory}"

    def put(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"{self.url}/{name}"

    def get(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def listed(self) -> list[str]:
        return sorted(
            each.relative_to(self.directory).as_posix() for each in self.directory.rglob("*") if each.is_file()
        )

    def directories(self) -> set[str]:
        return {each.relative_to(self.directory).as_posix() for each in self.directory.rglob("*") if each.is_dir()}


class InMemory:
    """A directory of fsspec's file system in memory."""

    def __init__(self, name: str) -> None:
        self.url, self._top, self._system = f"memory://{name}", f"/{name}", fsspec.filesystem("memory")

    def put(self, name: str, content: bytes) -> str:
        self._system.pipe(f"{self._top}/{name}", content)
        return f"{self.url}/{name}"

    def get(self, name: str) -> bytes:
        return self._system.cat_file(f"{self._top}/{name}")

    def listed(self) -> list[str]:
        return sorted(each.removeprefix(f"{self._top}/") for each in self._system.find(self._top))

    def directories(self) -> set[str]:
        below = [each for each in self._system.pseudo_dirs if each.startswith(f"{self._top}/")]
        return {each.removeprefix(f"{self._top}/") for each in below}

    def clear(self) -> None:
        self._system.store.clear()
        self._system.pseudo_dirs[:] = [""]


Place = InMemory | OnServer


def pointer(place: Place, prefix: str = "out") -> dict:
    return json.loads(place.get(max(name for name in place.listed() if name.startswith(f"{prefix}/latest/"))))


def objects_at(place: Place, prefix: str = "out") -> FileSystemObjects:
    return FileSystemObjects(parse_address(f"{place.url}/{prefix}"))
