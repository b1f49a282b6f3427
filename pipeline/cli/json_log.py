"""`--log-format json`: every line on stderr is a JSON object, with the keys of docs/how-to/monitor.md."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from types import TracebackType
from typing import Any

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli.terminal import LONGEST_LINE, json_line, say, shortened, visible, visible_lines

LOG_FORMAT = "MBE_LOG_FORMAT"
"""The environment variable of `--log-format`."""
# Attributes of records that become keys: our own, and Prefect's.
_KEYS = ("found", "share", "seconds", "seconds_left", "steps", "exit_code", "flow_run_name", "task_run_name")


class JsonHandler(logging.StreamHandler[Any]):
    """A handler that writes a JSON object per record; for any `logging` configuration."""

    def __init__(self, stream: Any = None, **_settings: Any) -> None:
        super().__init__(stream)
        # Python prints warnings and uncaught exceptions itself, unless told otherwise.
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line."""
        values = {key: vars(record)[key] for key in _KEYS if key in vars(record)}
        error = record.exc_info[1] if record.exc_info else None
        return _line(record.getMessage(), record.levelname.lower(), record.created, error, values)


def _line(message: str, level: str, seconds: float, error: BaseException | None, values: dict[str, Any]) -> str:
    moment, state = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds"), run_state.state
    said = {"time": moment, "level": level, "step": state.step, "run": state.run}
    if error is not None:
        values = {**values, "traceback": "".join(traceback.format_exception(error))}
    return json_line({**said, "message": shortened(message, LONGEST_LINE), **values})


def is_json() -> bool:
    """Return whether lines on stderr are JSON."""
    return any(isinstance(handler, JsonHandler) for handler in logging.getLogger().handlers)


def choose(arguments: Sequence[str]) -> None:
    """Set the format from a command line and `MBE_LOG_FORMAT`. Called before parsing, whose errors are objects too."""
    given = [os.environ.get(LOG_FORMAT), *(after for before, after in pairwise(arguments) if before == "--log-format")]
    given += [each.partition("=")[2] for each in arguments if each.startswith("--log-format=")]
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, JsonHandler)]
    logging.captureWarnings(False)
    if given[-1] == "json":
        handler = JsonHandler(sys.stderr)
        handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.startswith("mbe_stage"))
        # On the root logger: other libraries log there too, and Dask then adds no handler of its own.
        root.addHandler(handler)


def complain(message: str, code: int, error: BaseException | None = None) -> None:
    """Print the line that ends a command, with the traceback of `error`, if that is given."""
    if is_json():
        line = _line(message.removeprefix("error: "), "error", time.time(), error, {"exit_code": code})
        print(visible(line), file=sys.stderr, flush=True)
        return
    if error is not None:
        print(visible_lines("".join(traceback.format_exception(error))), file=sys.stderr)
    say(message, sys.stderr)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("mbe_stage").critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(ended: threading.ExceptHookArgs) -> None:
    _log_uncaught(ended.exc_type, ended.exc_value or ended.exc_type(), ended.exc_traceback)
