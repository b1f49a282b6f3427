"""Conditions for retries, and one-line logs of refusals without Prefect's traceback."""

from __future__ import annotations

import errno
import logging
from typing import Any

from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import FailedRun
from prefect.tasks import Task

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import DeviceMemoryExhausted

__all__ = ["gpu_may_be_free", "log_in_one_line", "may_pass", "worth_retrying"]

# Errors that stay until a person changes something.
_LASTING = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOLCK,
        errno.ENOTDIR,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
    }
)
_LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


def may_pass(error: object) -> bool:
    """True for failures that may pass within a minute: a disk, a mount, a network.

    Refusals of the pipeline (a wrong column, an unknown key) do not pass, unless such a failure is their cause.

    Examples
    --------
    >>> may_pass(TimeoutError(errno.ETIMEDOUT, "the mount does not answer")), may_pass(ValueError("a wrong column"))
    (True, False)
    """
    if not isinstance(error, StageError):
        return isinstance(error, OSError) and error.errno not in _LASTING
    cause = error.__cause__ or error.__context__
    # Readers of damaged files raise OSError too, but without an error number.
    return isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _LASTING


def worth_retrying(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001
    """`retry_condition_fn` of tasks that access files; Prefect defines the signature."""
    return may_pass(state.result(raise_on_failure=False))


def gpu_may_be_free(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001
    """`retry_condition_fn` of the enumeration: retry only if other programs filled the GPU."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, DeviceMemoryExhausted) and error.may_pass


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
