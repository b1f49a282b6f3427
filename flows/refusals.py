"""Prefect's log lines of a refusal, without the traceback: the pipeline's message says it all."""

from __future__ import annotations

import logging

from prefect.exceptions import FailedRun

from mbe_stage.errors import StageError

__all__ = ["log_in_one_line"]

_LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


def log_in_one_line() -> None:
    """Have Prefect log each `StageError` of a run in one line, for as long as the process lives.

    Prefect raises `FailedRun` in its place if it has only the message left.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if not (record.exc_info and isinstance(record.exc_info[1], StageError | FailedRun)):
        return True
    record.exc_info = None
    # The flow run's state is logged by itself, with the message.
    return "exited with unexpected exception" not in record.getMessage()
