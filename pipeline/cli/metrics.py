"""`--metrics FILE`: a text file for Prometheus, written during and after a run.

Values of the last run stay while the next one is in progress. Its id is a label of one metric only, so that series do
not multiply.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from mbe_stage.errors import StageError
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli.json_log import is_json
from mbe_stage.pipeline.errors import INTERRUPTED, exit_code
from mbe_stage.pipeline.execution.signals import signals_are_heard
from mbe_stage.pipeline.safe_paths import replaced_file

log = logging.getLogger(__name__)

_UPDATE_SECONDS = 10.0
# Exit codes of runs without an error: done, and nothing to do.
_GOOD = (0, 5)
_Metrics = Iterator[tuple[str, str, float | Mapping[str, float]]]
_target: Path | None = None


def write_to(path: Path | None) -> Path | None:
    """Set the file of this process, or none.

    Raises
    ------
    typer.BadParameter
        The directory cannot be written, or the file holds more than metrics of `mbe` or is no regular one.
    """
    global _target
    _target = None
    target = None if path is None else path.resolve()
    if target is not None and not os.access(target.parent, os.W_OK):
        raise typer.BadParameter(f"{path}: there is no writable directory {target.parent}", param_hint="--metrics")
    if target is not None and target.exists() and not _is_ours(target):
        reason = "holds more than metrics of mbe, or is no regular file"
        raise typer.BadParameter(f"{path}: {reason}; choose another name", param_hint="--metrics")
    _target = target
    return target


@contextmanager
def updated() -> Iterator[None]:
    """Write the progress of a run every few seconds, if a file is set."""
    if _target is None:
        yield
        return
    from mbe_stage.repeating import repeated

    with repeated(lambda: _write(None), _UPDATE_SECONDS):
        yield


@contextmanager
def reported(logger: Callable[[], logging.Logger | logging.LoggerAdapter[Any]] = lambda: log) -> Iterator[None]:
    """At the end, log success if lines are JSON, and write the outcome if a file is set."""
    code = 0
    try:
        yield
    except BaseException as error:
        other = 1 if isinstance(error, Exception) else INTERRUPTED
        code = exit_code(error) if isinstance(error, StageError) else getattr(error, "exit_code", other)
        raise
    finally:
        state = run_state.state
        if code in _GOOD and is_json():
            facts = {} if state.result is None else {"found": state.result.n_found, "steps": state.result.seconds}
            seconds = round(time.time() - state.start, 3)
            logger().info("unchanged" if code else "done", extra={"exit_code": code, "seconds": seconds, **facts})
        if _target is not None:
            # A second Ctrl-C must not leave a temporary file.
            with signals_are_heard():
                _write(code)


def _write(code: int | None) -> None:
    """Write the outcome of the run or, without an exit code, its progress to the file."""
    assert _target is not None
    # The outcome of the last run stays during this one, and the time of the last success after a failure.
    kept = [] if code in _GOOD else _lines(_target, "mbe_last_" if code is None else "mbe_last_success_")
    metrics = _progress() if code is None else _outcome(code)
    try:
        with replaced_file(_target) as file:
            file.write("".join(f"{line}\n" for line in (*_text(metrics), *kept)).encode())
    except OSError as error:
        log.warning("%s: metrics cannot be written (%s)", _target, error.strerror)


def _progress() -> _Metrics:
    """Yield name, help text and value of each metric; or values by label, whose name follows the metric's."""
    yield "run_active", "1 while a run is in progress, else 0", 1
    if (progress := run_state.state.progress) is not None:
        yield "run_found", "results of the run in progress", progress.n_found
        yield "run_work_done_ratio", "share of its search that is done, as the engine estimates it", progress.work_done


def _outcome(code: int) -> _Metrics:
    state, now, result = run_state.state, time.time(), run_state.state.result
    yield "run_active", "1 while a run is in progress, else 0", 0
    yield "last_run_success", "1 if the last run ended without an error, else 0", code in _GOOD
    yield "last_run_exit_code", "its exit code; 5 if there was nothing to do", code
    yield "last_run_end_timestamp_seconds", "its end, in seconds since 1970", now
    yield "last_run_duration_seconds", "seconds from its start to its end", now - state.start
    if code in _GOOD:
        yield "last_success_timestamp_seconds", "end of the last run without an error, in seconds since 1970", now
    if code in _GOOD and result is not None:
        yield "last_run_info run", "its id", {state.run or "": 1}
        yield "last_run_found", "its results", result.n_found
        yield "last_run_truncated", "1 if a limit ended its search, else 0", result.truncated is not None
        yield "last_run_warnings", "number of its warnings", len(result.warnings)
        yield "last_run_step_seconds step", "seconds of each step, and in total", result.seconds
        yield "last_run_peak_memory_bytes", "largest resident set of its process", result.peak_memory_bytes
        files = getattr(result, "files", ())
        yield "last_run_output_bytes", "bytes of its published files", sum(file.bytes for file in files)


def _text(metrics: _Metrics) -> Iterator[str]:
    """Yield the lines of the file."""
    of_problem = {"problem": run_state.state.problem} if run_state.state.problem else {}
    for words, about, values in metrics:
        name, _, label = words.partition(" ")
        yield f"# HELP mbe_{name} {about}"
        yield f"# TYPE mbe_{name} gauge"
        for text, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            labels = of_problem | ({label: text} if label else {})
            # JSON escapes as this format does; no label has control characters.
            shown = ",".join(f"{key}={json.dumps(each, ensure_ascii=False)}" for key, each in labels.items())
            yield f"mbe_{name}{{{shown}}} {+value}"


def _is_ours(path: Path) -> bool:
    """Return whether a file is empty or has only metrics of `mbe`."""
    return path.is_file() and _lines(path, "mbe_") == [line for line in _all_lines(path) if line.strip()]


def _lines(path: Path, prefix: str) -> list[str]:
    """Return the lines of a file about metrics with a prefix."""
    starts = tuple(f"{start}{prefix}" for start in ("", "# HELP ", "# TYPE "))
    return [line for line in _all_lines(path) if line.startswith(starts)]


def _all_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
