"""The Prefect server that `--serve` brings along, so that a schedule needs nothing else started.

`Flow.serve` alone is not enough: without a server address Prefect starts a temporary API that has no scheduler, and no
run would ever begin. So a real server on loopback lives as long as the serving process; its database is the SQLite file
in ``PREFECT_HOME``.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ANALYTICS_ENABLED, temporary_settings

from pipeline.errors import ConfigError

__all__ = ["DEFAULT_PORT", "embedded_server", "scheduling_api", "without_analytics"]

DEFAULT_PORT = 4200
_HOST = "127.0.0.1"
_STOP_SECONDS = 15.0


@contextmanager
def without_analytics() -> Iterator[None]:
    """The temporary server that Prefect starts for a single run reports nothing to its makers, unless asked to."""
    with temporary_settings(set_defaults={PREFECT_SERVER_ANALYTICS_ENABLED: False}):
        yield


@contextmanager
def scheduling_api(port: int = DEFAULT_PORT) -> Iterator[str]:
    """The server that ``PREFECT_API_URL`` names, or else an embedded one; yields its address."""
    configured = PREFECT_API_URL.value()
    if configured:
        yield configured
        return
    with embedded_server(port) as url, temporary_settings({PREFECT_API_URL: url}):
        yield url


@contextmanager
def embedded_server(port: int = DEFAULT_PORT, startup_seconds: float = 90.0) -> Iterator[str]:
    """Run a Prefect server with its scheduler on loopback while the context lasts.

    Parameters
    ----------
    port : int
        Also where its web interface is.
    startup_seconds : float
        How long it may take to answer; the first start on a machine creates the database.

    Yields
    ------
    str
        The address of its API.

    Raises
    ------
    ConfigError
        The port is taken.
    RuntimeError
        The server ended, or did not answer in time; its own messages are on standard error.
    """
    _refuse_taken(port)
    # A session of its own: Ctrl-C must reach the serving process first, which still talks to the server while it stops.
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", _HOST, "--port", str(port)],
        env={"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_SERVER_LOGGING_LEVEL": "WARNING"} | os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_until_healthy(process, f"http://{_HOST}:{port}/api", startup_seconds)
        yield f"http://{_HOST}:{port}/api"
    finally:
        _stop(process)


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise ConfigError(
                f"--port {port}: cannot be used on {_HOST} ({error.strerror}); expected a free port; choose another, or"
                f" set PREFECT_API_URL=http://{_HOST}:{port}/api if the Prefect server to use is already there"
            ) from None


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the Prefect server ended with exit code {process.returncode} before it answered")
        try:
            if httpx.get(f"{url}/health", timeout=2.0).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.2)
    raise RuntimeError(f"the Prefect server did not answer at {url} within {seconds:g} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
