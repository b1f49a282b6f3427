"""The Prefect server of a command, on loopback while the command runs, and a flow served from the same process.

Prefect's own temporary server is not enough. It has no scheduler, so no run of `Flow.serve` would ever start. It is in
this process's group, so Ctrl-C ends it first, and the run then waits a minute and a half for an answer. The database of
this server is the SQLite file in ``PREFECT_HOME``.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpx
from prefect.events.worker import EventsWorker
from prefect.flows import EntrypointType, Flow  # type: ignore[attr-defined]  # an implicit re-export
from prefect.logging.handlers import APILogWorker
from prefect.runner import Runner
from prefect.schedules import Schedule
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_SERVER_API_AUTH_STRING,
    temporary_settings,
)

from mbe_stage.pipeline.errors import ConfigError

__all__ = ["DEFAULT_PORT", "api_of_one_run", "embedded_server", "has_lasting_server", "scheduling_api", "serve"]

DEFAULT_PORT = 4200
_HOST = "127.0.0.1"
# Keeps Ctrl-C within ten seconds; the database survives a kill.
_STOP_SECONDS = 5.0
_DRAIN_SECONDS = 10.0
_is_of_one_run: ContextVar[bool] = ContextVar("is_of_one_run", default=False)


@contextmanager
def api_of_one_run() -> Iterator[None]:
    """Within the context, use the server at ``PREFECT_API_URL`` or, without one, an embedded server."""
    if PREFECT_API_URL.value():
        yield
        return
    marked = _is_of_one_run.set(True)
    try:
        with embedded_server(_free_port(), schedules=False):
            try:
                yield
            finally:
                # Prefect's threads are still sending log lines and events.
                for worker in (APILogWorker, EventsWorker):
                    worker.drain_all(timeout=_DRAIN_SECONDS)
    finally:
        _is_of_one_run.reset(marked)


def has_lasting_server() -> bool:
    """True if this process uses a server that other runs share."""
    return bool(PREFECT_API_URL.value()) and not _is_of_one_run.get()


@contextmanager
def scheduling_api(port: int = DEFAULT_PORT) -> Iterator[str]:
    """Yield the address of the server at ``PREFECT_API_URL`` or, without one, of an embedded server."""
    configured = PREFECT_API_URL.value()
    if configured:
        yield configured
        return
    with embedded_server(port) as url:
        yield url


@contextmanager
def embedded_server(port: int = DEFAULT_PORT, startup_seconds: float = 1800.0, schedules: bool = True) -> Iterator[str]:
    """Within the context, run a Prefect server on loopback, with this process as its client.

    Requests need its secret: ``PREFECT_API_AUTH_STRING``, or one generated for this server.

    Parameters
    ----------
    port : int
        Port of the API and the web interface.
    startup_seconds : float
        Maximum wait for the first answer of a live server. It is generous because the first start creates the database.
    schedules : bool
        Run a scheduler.

    Yields
    ------
    str
        The address of its API.

    Raises
    ------
    ConfigError
        The port is taken.
    RuntimeError
        The server ended or did not answer in time; its messages are on standard error.
    """
    _refuse_taken(port)
    url = f"http://{_HOST}:{port}/api"
    configured = PREFECT_API_AUTH_STRING.value() or PREFECT_SERVER_API_AUTH_STRING.value()
    secret = configured or f"mbe:{secrets.token_urlsafe()}"
    environment = {
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        # Without this, the page would look for the API at port 4200.
        "PREFECT_UI_API_URL": url,
        **os.environ,
        "PREFECT_SERVER_API_AUTH_STRING": secret,
    }
    # Ctrl-C and SIGTERM (which systemd sends to all processes of a service) must reach this process first: it needs the
    # server while it stops. So the server has a session of its own and blocks SIGTERM.
    less = [] if schedules else ["--no-scheduler", "--no-late-runs"]
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", _HOST, "--port", str(port), *less],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
    try:
        _wait_until_healthy(process, url, startup_seconds)
        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: secret}):
            yield url
    finally:
        _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


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
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def serve(
    flow: Flow[..., Any], name: str, schedule: Schedule, parameters: dict[str, Any], tags: Sequence[str] = ()
) -> None:
    """Run `flow` on `schedule` until Ctrl-C, SIGTERM, or SIGHUP (unless it is ignored).

    Stopping cancels the active run, which removes its unfinished work, and pauses the schedule. The next `serve` with
    the same name resumes the schedule. Runs never overlap: a run that is due waits for the one before.
    """
    asyncio.run(_serve(flow, name, schedule, parameters, tags))


async def _serve(
    flow: Flow[..., Any], name: str, schedule: Schedule, parameters: dict[str, Any], tags: Sequence[str]
) -> None:
    runner = _StoppableRunner(name=name, limit=1, pause_on_shutdown=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # as under nohup
        asyncio.get_running_loop().add_signal_handler(number, runner.handle_sigterm)
    try:
        # A deployment by module, so that a run's process imports the package. `Runner.add_flow` would send it this
        # process's modules pickled by value.
        deployment = await flow.ato_deployment(
            name,
            schedule=schedule,
            parameters=parameters,
            tags=list(tags),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        await runner.aadd_deployment(deployment)
        await runner.start()
    except asyncio.CancelledError:
        # It was stopped before the runner had started.
        if not runner.is_stopping:
            raise


class _StoppableRunner(Runner):
    """Prefect's runner, which SIGTERM and SIGINT also stop before it has started; `start` installs the handler.

    Prefect's own handler exits then, and nothing is paused or removed.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._serving_loop = asyncio.get_running_loop()
        self._serving_task = asyncio.current_task()
        self._stop: Future[None] | None = None

    def handle_sigterm(self, *_: Any, **__: Any) -> None:
        """Stop, once."""
        if self._stop is None:
            self._stop = asyncio.run_coroutine_threadsafe(self._end(), self._serving_loop)

    @property
    def is_stopping(self) -> bool:
        """True once a signal has arrived."""
        return self._stop is not None

    async def _end(self) -> None:
        if self.started:
            await self.astop()
        elif self._serving_task is not None:
            self._serving_task.cancel()
