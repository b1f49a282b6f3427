"""`--metrics FILE`: a text file for Prometheus, replaced while a run goes on and at its end.

The file is in the text exposition format, for the textfile collector of node_exporter. Values of the last run stay
while the next one is in progress. The run id is a label of one metric only, so that series do not multiply.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from mbe_stage.errors import StageError
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli.json_log import is_json
from mbe_stage.pipeline.errors import INTERRUPTED, exit_code
from mbe_stage.pipeline.execution.signals import signals_are_heard
from mbe_stage.pipeline.package_files import version_of
from mbe_stage.pipeline.safe_paths import replaced_file
from mbe_stage.repeating import repeated

OPTION, VARIABLE = "--metrics", "MBE_METRICS"

log = logging.getLogger(__name__)

_UPDATE_SECONDS = 10.0
# Exit codes of runs without an error: done, and nothing to do.
_GOOD = (0, 5)
_ABOUT = {
    "mbe_run_active": "1 while a run is in progress, else 0",
    "mbe_run_start_timestamp_seconds": "start of the newest run, in seconds since 1970",
    "mbe_run_found": "results so far of the run in progress",
    "mbe_run_work_done_ratio": "share of the search that is done, as the engine estimates it",
    "mbe_last_run_success": "1 if the last run ended without an error, else 0",
    "mbe_last_run_exit_code": "exit code of the last run",
    "mbe_last_run_end_timestamp_seconds": "end of the last run, in seconds since 1970",
    "mbe_last_run_duration_seconds": "seconds that the last run took in all",
    "mbe_last_run_unchanged": "1 if the last run found nothing to do, else 0",
    "mbe_last_run_info": "id, engine and version of the last run, as labels",
    "mbe_last_run_found": "results of the last run",
    "mbe_last_run_graph_edges": "edges of the searched graph",
    "mbe_last_run_truncated": "1 if a limit ended the search, else 0",
    "mbe_last_run_warnings": "number of warnings",
    "mbe_last_run_step_seconds": "seconds of each step",
    "mbe_last_run_peak_memory_bytes": "largest resident set of the process",
    "mbe_last_run_output_bytes": "bytes of the published files",
    "mbe_last_success_timestamp_seconds": "end of the last run without an error, in seconds since 1970",
}
_Sample = tuple[str, float, dict[str, str]]
_target: Path | None = None


def write_to(path: Path | None) -> Path | None:
    """Name the file of this process, or none.

    Raises
    ------
    typer.BadParameter
        The directory cannot be written, or the file holds no metrics of `mbe`.
    """
    global _target
    _target = None
    if path is not None:
        target = path.resolve()
        if not os.access(target.parent, os.W_OK):
            raise typer.BadParameter(f"{path}: there is no writable directory {target.parent}", param_hint=OPTION)
        if target.exists() and (not target.is_file() or (target.stat().st_size and not _lines(target, "mbe_"))):
            raise typer.BadParameter(f"{path}: holds no metrics of mbe; choose another name", param_hint=OPTION)
        _target = target
    return _target


@contextmanager
def updated() -> Iterator[None]:
    """Write the progress of a run every few seconds, if a file is named."""
    if _target is None:
        yield
        return
    with repeated(lambda: _write(None), _UPDATE_SECONDS):
        yield


@contextmanager
def reported(logger: logging.Logger | logging.LoggerAdapter[Any] = log) -> Iterator[None]:
    """At the end, log the outcome if lines are JSON, and write it, if a file is named."""
    code = 0
    try:
        yield
    except BaseException as error:
        code = _code_of(error)
        raise
    finally:
        if code in _GOOD and is_json():
            logger.info("unchanged" if code else "done", extra=_end_of_run(code))
        if _target is not None:
            # A second Ctrl-C must not leave a temporary file.
            with signals_are_heard():
                _write(code)


def _code_of(error: BaseException) -> int:
    if isinstance(error, StageError):
        return exit_code(error)
    return int(getattr(error, "exit_code", 1 if isinstance(error, Exception) else INTERRUPTED))


def _end_of_run(code: int) -> dict[str, Any]:
    state = run_state.state
    values: dict[str, Any] = {"exit_code": code, "seconds": round(time.time() - state.start, 3)}
    if state.result is not None:
        values |= {"found": state.result.n_found, "steps": state.result.seconds}
    return values


def _write(code: int | None) -> None:
    """Write the file: the outcome of the run, or without an exit code its progress."""
    assert _target is not None
    # Values of the last run stay during the next; the time of the last success stays after a failure.
    kept = _lines(_target, "mbe_last_") if code is None else _lines(_target, "mbe_last_success_") * (code not in _GOOD)
    try:
        with replaced_file(_target) as file:
            file.write("".join(f"{line}\n" for line in (*_text(_samples(code)), *kept)).encode())
    except OSError as error:
        log.warning("%s: metrics cannot be written (%s)", _target, error.strerror)


def _samples(code: int | None) -> Iterator[_Sample]:
    state, now = run_state.state, time.time()
    yield "mbe_run_active", code is None, {}
    yield "mbe_run_start_timestamp_seconds", state.start, {}
    if code is not None:
        yield "mbe_last_run_success", code in _GOOD, {}
        yield "mbe_last_run_exit_code", code, {}
        yield "mbe_last_run_end_timestamp_seconds", now, {}
        yield "mbe_last_run_duration_seconds", now - state.start, {}
        yield "mbe_last_run_unchanged", code in _GOOD and state.result is None, {}
        if code in _GOOD and state.result is not None:
            yield from _samples_of_result(state.result)
        if code in _GOOD:
            yield "mbe_last_success_timestamp_seconds", now, {}
    elif state.progress is not None:
        yield "mbe_run_found", state.progress.n_found, {}
        yield "mbe_run_work_done_ratio", state.progress.work_done, {}


def _samples_of_result(result: Any) -> Iterator[_Sample]:
    labels = {"run": run_state.state.run or "", "engine": result.engine, "version": version_of("mbe-stage")}
    yield "mbe_last_run_info", 1, labels
    yield "mbe_last_run_found", result.n_found, {}
    yield "mbe_last_run_graph_edges", result.graph.n_edges, {}
    yield "mbe_last_run_truncated", result.truncated is not None, {}
    yield "mbe_last_run_warnings", len(result.warnings), {}
    for step, seconds in result.seconds.items():
        if step != "total":
            yield "mbe_last_run_step_seconds", seconds, {"step": step}
    yield "mbe_last_run_peak_memory_bytes", result.peak_memory_bytes, {}
    yield "mbe_last_run_output_bytes", sum(file.bytes for file in getattr(result, "files", ())), {}


def _text(samples: Iterator[_Sample]) -> Iterator[str]:
    """Yield the lines of samples; those of one metric follow each other."""
    before = ""
    for name, value, labels in samples:
        if name != before:
            yield f"# HELP {name} {_ABOUT[name]}."
            yield f"# TYPE {name} gauge"
            before = name
        pairs = {"problem": run_state.state.problem, **labels}
        yield f"{name}{{{','.join(f'{key}={_quoted(text)}' for key, text in pairs.items() if text)}}} {+value}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _lines(path: Path, prefix: str) -> list[str]:
    """Return the lines of a file about metrics with a prefix."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(prefix)]
