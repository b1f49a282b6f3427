"""`--log-format json`: every line on stderr is a JSON object. The keys are in docs/how-to/monitor.md."""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any, Literal

import typer

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli import early_exit
from mbe_stage.pipeline.cli.terminal import LONGEST_LINE, json_line, say, shortened, visible_lines

OPTION, VARIABLE = "--log-format", "MBE_LOG_FORMAT"
LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option(
        OPTION,
        envvar=VARIABLE,
        show_envvar=True,
        help="Lines on stderr: text, or one JSON object each.",
        rich_help_panel="Output",
        show_default=False,
    ),
]
"""The option of every command, `mbe`'s and the flows'."""

# Attributes of records that become keys: our own, and Prefect's.
_FIELDS = (*("found", "share", "seconds", "seconds_left", "steps", "exit_code"), *("flow_run_name", "task_run_name"))


class JsonHandler(logging.StreamHandler[Any]):
    """A handler that writes one JSON object per record, for any `logging` configuration."""

    def __init__(self, stream: Any = None, **_settings: Any) -> None:
        super().__init__(stream)

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line."""
        values = {key: vars(record)[key] for key in _FIELDS if key in vars(record)}
        if record.exc_info and record.exc_info[0] is not None:
            values["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return line_of(record.getMessage(), record.levelname.lower(), record.created, **values)


def line_of(message: str, level: str, at: float | None = None, **values: Any) -> str:
    """Return a JSON object on one line.

    Parameters
    ----------
    at : float, optional
        The time, in seconds since 1970; by default now.
    **values
        Further keys.
    """
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    state = run_state.state
    said = {"time": moment.isoformat(timespec="milliseconds"), "level": level, "step": state.step, "run": state.run}
    return json_line({**said, "message": shortened(message, LONGEST_LINE), **values})


def is_json() -> bool:
    """Return whether lines on stderr are JSON."""
    return any(isinstance(handler, JsonHandler) for handler in logging.getLogger().handlers)


def choose(arguments: Sequence[str]) -> None:
    """Set the format of stderr from a command line and `MBE_LOG_FORMAT`, before options are parsed.

    An error in the options is then an object, too.
    """
    given = [os.environ.get(VARIABLE), *(after for before, after in pairwise(arguments) if before == OPTION)]
    given += [each.partition("=")[2] for each in arguments if each.startswith(f"{OPTION}=")]
    wants_json = given[-1] == "json"
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, JsonHandler)]
    if wants_json:
        # On the root logger, so that lines of other libraries are objects, too. Dask then adds no handler of its own.
        root.addHandler(JsonHandler(sys.stderr))
    logging.captureWarnings(wants_json)
    early_exit.as_line = _ending if wants_json else early_exit.plain


def complain(message: str, code: int, error: BaseException | None = None) -> None:
    """Print the line that ends a command, after the traceback of `error`, if that is given."""
    if is_json():
        values = {} if error is None else {"traceback": "".join(traceback.format_exception(error))}
        print(_ending(message, code, **values), file=sys.stderr, flush=True)
        return
    if error is not None:
        print(visible_lines("".join(traceback.format_exception(error))), file=sys.stderr)
    say(message, sys.stderr)


def _ending(message: str, code: int, **values: Any) -> str:
    return line_of(message.removeprefix("error: "), "error", exit_code=code, **values)
