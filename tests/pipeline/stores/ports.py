"""Server processes on loopback: a free port for each, and waiting until it answers."""

from __future__ import annotations

import socket
import subprocess
import time

import pytest

from tests.patience import PATIENCE, output_of

__all__ = ["SILENT", "free_port", "wait_for"]

# A request log would fill the pipes.
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(server: subprocess.Popen, port: int) -> None:
    """Wait until a server answers at a port; fail the test if the server has ended."""
    begin = time.monotonic()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if server.poll() is not None:
                pytest.fail(f"the server ended: {output_of(server)}", pytrace=False)
            assert time.monotonic() - begin < PATIENCE
            time.sleep(0.05)
