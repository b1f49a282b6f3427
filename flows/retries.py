"""Which failures another attempt may cure."""

from __future__ import annotations

import errno
from typing import Any

from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import DeviceMemoryExhausted

__all__ = ["gpu_may_be_free", "may_pass", "worth_retrying"]

# What the operating system will say again however often it is asked: a person has to change something first.
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


def may_pass(error: object) -> bool:
    """Whether a failure is trouble of the machine that may be over in a minute: a disk, a mount, a network.

    The pipeline's own refusals (a wrong column, an unknown key) never are, except where such trouble is their cause.

    Examples
    --------
    >>> may_pass(TimeoutError(errno.ETIMEDOUT, "the mount does not answer")), may_pass(ValueError("a wrong column"))
    (True, False)
    """
    if not isinstance(error, StageError):
        return isinstance(error, OSError) and error.errno not in _LASTING
    cause = error.__cause__ or error.__context__
    # Readers of damaged files raise OSError too, but with no error number of the operating system.
    return isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _LASTING


def worth_retrying(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001
    """`retry_condition_fn` of the tasks that touch files; Prefect fixes the signature."""
    return may_pass(state.result(raise_on_failure=False))


def gpu_may_be_free(task: Task[..., Any], task_run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001
    """`retry_condition_fn` of the task that enumerates: only the memory of a GPU that others filled comes back."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, DeviceMemoryExhausted) and error.may_pass
