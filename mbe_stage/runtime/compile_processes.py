"""Processes that compile in parallel and save the machine code in the cache; they end with the call."""

from __future__ import annotations

import base64
import gc
import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)

# Ctrl-C reaches every process of the terminal; only the parent may end this one.
_PROGRAM = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = json.loads(sys.argv[1])
from mbe_stage.runtime.compile_processes import serve
serve()
"""

Task = Callable[[], object]


def compile_in_processes(
    tasks: Sequence[Task], processes: int, on_done: Callable[[], None], beside: Callable[[], object] | None = None
) -> list[Task]:
    """Call functions in other processes, in this order.

    Parameters
    ----------
    tasks : sequence of callables
        Picklable: functions of modules, or `functools.partial` of them.
    on_done : callable
        Called after every finished task, from any thread.
    beside : callable, optional
        Work for this process in the meantime.

    Returns
    -------
    list of callables
        Tasks that did not finish: a process could not start or was ended, or the task failed.
    """
    waiting, left = deque(tasks), list[Task]()
    ended: queue.Queue[None] = queue.Queue()
    children: list[_Child] = []
    try:
        while len(children) < min(processes, len(tasks)):
            children.append(_Child())
    except OSError as refusal:
        log.warning("no process to compile in (%s): this one goes on", refusal)

    def feed(child: _Child) -> None:
        try:
            while True:
                try:
                    task = waiting.popleft()
                except IndexError:
                    break
                left.append(task)
                if not child.does(task):
                    break
                left.remove(task)
                on_done()
        finally:
            # Also after an error, because the caller waits for it.
            ended.put(None)

    threads = [threading.Thread(target=feed, args=(child,), name="compiling", daemon=True) for child in children]
    try:
        for thread in threads:
            thread.start()
        if beside is not None:
            beside()
        for _ in threads:
            ended.get()
    finally:
        for child in children:
            child.end()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for child in children:
            child.close()
    return [*left, *waiting]


class _Child:
    """A process with two pipes: one line per task, one line per answer."""

    def __init__(self) -> None:
        self._is_to_end = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the pipes
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Colours in error messages, which are never shown, would take 2.5 % of the time.
            env=os.environ | {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"},
        )

    def does(self, task: Task) -> bool:
        """Run a task; return True if the process finished it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(base64.b64encode(pickle.dumps(task)) + b"\n")
            self._process.stdin.flush()
            if self._process.stdout.readline():
                return True
        except OSError:  # it has closed its pipe: see below
            pass
        if not self._is_to_end:
            self._say_why()
        return False

    def end(self) -> None:
        """Kill the process."""
        self._is_to_end = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, when no thread waits for them any more."""
        for file in (self._process.stdin, self._process.stdout, self._errors):
            assert file is not None
            with suppress(BrokenPipeError):
                file.close()

    def _say_why(self) -> None:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        log.warning(
            "a process that compiled ended with code %d%s: this one goes on", code, f" ({lines[-1]})" if lines else ""
        )


def serve() -> None:
    """Run a compiling process: one task per line, until the input ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # Keep other output apart from the answers.
    os.dup2(2, 1)
    # Compiling makes millions of objects, few of them garbage: collecting them would take 20 % of the time.
    gc.disable()
    for line in sys.stdin.buffer:
        task: Any = pickle.loads(base64.b64decode(line))
        task()
        answers.write(b"done\n")
