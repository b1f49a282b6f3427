"""Start processes with a time limit, show their output on a timeout, and end them with the test.

No test measures the speed of the machine, so limits are generous and only end hanging processes. No other file of
`tests` starts a process itself, or waits for one without a limit (`tests/test_structure.py`).
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

__all__ = ["PATIENCE", "begun", "completed", "end_with", "kill_remaining", "output_of"]

PATIENCE = 1800.0
"""Seconds until a process counts as hanging; no wait takes a tenth of it on an idle machine."""

_SHOWN = 6000
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Looked up here, so that little is done between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_begun: list[subprocess.Popen] = []


def completed(
    command: Sequence[object], *, check: bool = False, patience: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess:
    """Run a command to its end, as `subprocess.run` does with ``capture_output`` and ``text``.

    Parameters
    ----------
    command : sequence
    check : bool
        Fail and show the output if the exit code is not 0.
    patience : float
        Seconds.
    **options
        Of `subprocess.Popen`.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, **streams | options)
    out, err = output_of(process, patience)
    if check and process.returncode:
        pytest.fail(_told(process, f"exit code {process.returncode}", out, err), pytrace=False)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def begun(
    command: Sequence[object],
    *,
    preexec_fn: Callable[[], object] | None = None,
    outlives_the_test: bool = False,
    **options: Any,
) -> subprocess.Popen:
    """Start a process with piped stdout and stderr, as `subprocess.Popen` does; it does not outlive the test.

    It is killed after the test, however that ended, and (on Linux) at once where the tests' own process is killed: to
    be exact, where the thread ends that has begun it.

    Parameters
    ----------
    command : sequence
    preexec_fn : callable or None
        What is to be done in the new process before the command.
    outlives_the_test : bool
        True for a process of several tests: its owner ends it.
    **options
        Of `subprocess.Popen`.
    """
    parent = os.getpid()

    def bound_to_the_parent() -> None:
        end_with(parent)
        if preexec_fn is not None:
            preexec_fn()

    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(list(map(str, command)), preexec_fn=bound_to_the_parent, **streams | options)
    if not outlives_the_test:
        _begun.append(process)
    return process


def end_with(parent: int) -> None:
    """Let this process, just forked, be killed when its parent dies (on Linux)."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the parent died meanwhile
            os._exit(1)


@contextmanager
def kill_remaining() -> Iterator[None]:
    """Kill processes started by the test that still run at its end; a fixture of every test (`conftest.py`)."""
    n_before = len(_begun)
    try:
        yield
    finally:
        for process in _begun[n_before:]:
            if process.poll() is None:
                _kill(process)
                process.wait(PATIENCE)
        del _begun[n_before:]


def output_of(process: subprocess.Popen, patience: float = PATIENCE) -> tuple[Any, Any]:
    """Wait for a process and return its stdout and stderr; None for a redirected stream."""
    try:
        return process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        _kill(process)
        pytest.fail(_told(process, f"not done after {patience:g} s", *process.communicate()), pytrace=False)
    except BaseException:
        _kill(process)
        raise


def _kill(process: subprocess.Popen) -> None:
    """Kill a process, and its group if it leads one: a child would keep the pipes open."""
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()


def _told(process: subprocess.Popen, what: str, *streams: str | bytes | None) -> str:
    args = process.args if isinstance(process.args, list | tuple) else [process.args]
    lines = [f"{shlex.join(map(str, args))}: {what}"]
    for name, said in zip(("stdout", "stderr"), streams, strict=True):
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        lines.append(f"--- {name}\n{text[-_SHOWN:] if text else 'nothing'}")
    return "\n".join(lines)
