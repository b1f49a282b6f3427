"""Client of `tests.command_nursery`: commands and snippets in processes forked from one that has loaded everything.

An interpreter takes longer to import the pipeline than most test commands take to run. Tests of commands in fresh
processes use `tests.patience`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE, begun

__all__ = ["Commands"]

ROOT = Path(__file__).parents[1]
# Replaces the installed command: hands over its streams and returns the exit code.
_STAND_IN = f"""#!{sys.executable} -IS
import json, os, socket, sys
asked = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ)}}
with socket.socket(socket.AF_UNIX) as to:
    to.connect(ADDRESS)
    socket.send_fds(to, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(to.recv(16)))
"""


class Commands:
    """Client of a process that forks commands.

    Parameters
    ----------
    directory : Path
        An empty directory for the socket and a stand-in for the command `mbe`.
    part : str
        What that process loads: "everything", or "libraries" for modules that replace some.

    Attributes
    ----------
    path : Path
        The stand-in's directory; put it first in ``PATH``.
    """

    def __init__(self, directory: Path, part: str = "everything") -> None:
        self._address, self.path = str(directory / "socket"), directory / "bin"
        self.path.mkdir()
        stand_in = self.path / "mbe"
        stand_in.write_text(_STAND_IN.replace("ADDRESS", repr(self._address)))
        stand_in.chmod(0o755)
        self._process = begun(
            [sys.executable, "-m", "tests.command_nursery", self._address, part],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=None,
            outlives_the_test=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def python(
        self, code: str, cwd: Path, environment: dict[str, str], *arguments: str, file: str = "<string>"
    ) -> subprocess.CompletedProcess[str]:
        """Run a snippet to its end, as ``python -c`` does."""
        asked = {"code": code, "cwd": str(cwd), "environment": environment, "arguments": arguments, "file": file}
        return self._completed(asked)

    def mbe(
        self,
        *arguments: object,
        cwd: Path = ROOT,
        environment: Mapping[str, str] = os.environ,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; output to a given descriptor is not in the answer."""
        asked = {"arguments": list(map(str, arguments)), "cwd": str(cwd), "environment": dict(environment)}
        return self._completed(asked, stdout, stderr)

    def _completed(
        self, asked: dict[str, Any], stdout: int | None = None, stderr: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        streams = [os.memfd_create(name) for name in ("stdout", "stderr")]
        try:
            with socket.socket(socket.AF_UNIX) as to, open(os.devnull) as nothing:
                to.settimeout(PATIENCE)
                to.connect(self._address)
                ends = [
                    given if given is not None else ours for given, ours in zip((stdout, stderr), streams, strict=True)
                ]
                socket.send_fds(to, [json.dumps(asked).encode()], [nothing.fileno(), *ends])
                code = int(to.recv(16))
            out, err = (os.pread(stream, os.fstat(stream).st_size, 0).decode() for stream in streams)
        finally:
            for stream in streams:
                os.close(stream)
        return subprocess.CompletedProcess(asked.get("arguments", []), code, out, err)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
