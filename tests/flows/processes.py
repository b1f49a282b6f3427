"""Processes of the server tests, each ended with its descendants, and a small client for Prefect's API."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from flow_toys import CHECKOUT

from tests.patience import PATIENCE, begun, completed

SECRET = "tests", "no secret"
_MIGRATE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""
_STOP_SECONDS = 30
_BUSY_ANSWERS = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def migrated(database: Path) -> None:
    """Copy a migrated Prefect database there: its hundred migrations take longer than most runs."""
    made = CHECKOUT / "build" / f"prefect-{version('prefect')}.db"
    made.parent.mkdir(exist_ok=True)
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory() as home:
                completed([sys.executable, "-c", _MIGRATE], env={**os.environ, "PREFECT_HOME": home}, check=True)
                # Rename, so that a killed test leaves no partial file.
                os.replace(shutil.copy(Path(home) / "prefect.db", made.with_suffix(".new")), made)
    database.parent.mkdir(parents=True, exist_ok=True)
    if not database.exists():
        shutil.copy(made, database)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a Prefect process with home `home` and without telemetry."""
    migrated(home / "prefect.db")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    # The packages come from the checkout, installed or not.
    path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    silent = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    # A server need not look again what `migrated` has done, nor list blocks that no flow uses.
    silent |= {"PREFECT_API_DATABASE_MIGRATE_ON_START": "false", "PREFECT_API_BLOCKS_REGISTER_ON_START": "false"}
    # A temporary server of a flow reads its secret there.
    silent["PREFECT_API_AUTH_STRING"] = ":".join(SECRET)
    return kept | silent | {"PYTHONPATH": path, "PREFECT_HOME": str(home)} | more


@contextmanager
def started(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen]:
    """Start a process in a new session; afterwards end it and its descendants in any case."""
    with open(log, "wb") as output:
        process = begun(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
    try:
        yield process
    except BaseException:
        print(f"--- {' '.join(command)}\n{log.read_text(errors='replace')[-6000:]}", file=sys.stderr)
        raise
    finally:
        end(process)


def end(process: subprocess.Popen, patience: float = _STOP_SECONDS) -> None:
    """Ask the process to stop and kill its descendants; the grace period does not matter here."""
    offspring = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):  # killed below
            process.wait(patience)
    for pid in [process.pid, *offspring]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(PATIENCE)


def descendants(pid: int) -> list[int]:
    """Return a process's descendants, in any session (Linux)."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [*children, *(grandchild for child in children for grandchild in descendants(child))]


def eventually(what: Callable[[], Any], seconds: float = PATIENCE, process: subprocess.Popen | None = None) -> Any:
    """Return the first true value of `what`; fail on a timeout or if the process has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = what()
        if value:
            return value
        assert process is None or process.poll() is None, f"the process ended with exit code {process.returncode}"
        time.sleep(0.2)
    raise AssertionError(f"no result within {seconds:g} s")


class Api:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api"
        # One client for all requests: each new one would load all certificates.
        self._client = httpx.Client(timeout=PATIENCE)

    def healthy(self) -> bool:
        try:
            return self._client.get(f"{self.url}/health").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        # While SQLite is locked, the server answers 503 with Retry-After, which Prefect's client handles too.
        for _ in range(_BUSY_ANSWERS):
            answer = self._client.request(method, f"{self.url}/{path}", auth=SECRET, **options)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(1)
        return answer.raise_for_status().json()

    def deployment(self, name: str) -> dict | None:
        found = self.post("deployments/filter", deployments={"name": {"any_": [name]}})
        return found[0] if found else None

    def trigger(self, deployment: dict, **parameters: Any) -> str:
        run = self.post(f"deployments/{deployment['id']}/create_flow_run", parameters=parameters)
        return run["id"]

    def finished(self, run_id: str) -> dict | None:
        """Return the final state of a run, or None."""
        state = self.get(f"flow_runs/{run_id}")["state"]
        return state if state["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"} else None

    def artifacts(self, run_id: str) -> dict[str, dict]:
        found = self.post("artifacts/filter", flow_runs={"id": {"any_": [run_id]}})
        return {artifact["key"]: artifact for artifact in found}
