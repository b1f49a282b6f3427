"""Log refusals of the pipeline in one line, without Prefect's traceback."""

from __future__ import annotations

import logging

from prefect.exceptions import FailedRun

from mbe_stage.errors import StageError

__all__ = ["log_in_one_line"]

_LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


def log_in_one_line() -> None:
    """Make Prefect log each `StageError` in one line, for the life of the process.

    Prefect raises `FailedRun` instead if only the message is left.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if not (record.exc_info and isinstance(record.exc_info[1], StageError | FailedRun)):
        return True
    record.exc_info = None
    # The flow run's state is logged separately, with the message.
    return "exited with unexpected exception" not in record.getMessage()
