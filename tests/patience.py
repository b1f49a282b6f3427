"""How long tests wait for others, and what they say where that was not enough.

No test is about the speed of the machine: whatever is waited for may take many times as long as usual. The limit only
ends what hangs, and then the process and what it said so far are shown.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

__all__ = ["PATIENCE", "completed", "output_of"]

PATIENCE = 1800.0
"""Seconds after which something hangs; nothing that tests wait for takes a tenth of it on an idle machine."""

_SHOWN = 6000


def completed(
    command: Sequence[object], *, check: bool = False, patience: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess:
    """Run a command to its end, as `subprocess.run` does with ``capture_output`` and ``text``.

    Parameters
    ----------
    command : sequence
    check : bool
        Fail, and show what the process said, where its exit code is not 0.
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


def output_of(process: subprocess.Popen, patience: float = PATIENCE) -> tuple[Any, Any]:
    """Wait for a process, and what it wrote to stdout and stderr; None for one that goes elsewhere."""
    try:
        return process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        _kill(process)
        pytest.fail(_told(process, f"not done after {patience:g} s", *process.communicate()), pytrace=False)
    except BaseException:
        _kill(process)
        raise


def _kill(process: subprocess.Popen) -> None:
    """End a process; where it leads a group of its own, all of that: a child would keep the pipes open."""
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
