"""The pipeline's errors, and the exit code of each.

::

    StageError (mbe_stage)
    └── PipelineError                 exit code
        ├── InputError                2     a file, line, column or value cannot be used
        ├── ConfigError               2     a configuration key or value is wrong
        ├── PublishError              3     the output cannot be written (disk full, no permission, not a run directory)
        │   └── RunIsBeingWritten     3     another process is writing the run to resume
        └── VerificationError         1     a published run does not hold what it should

`InvalidArgument` of the stage also ends in 2. `EngineUnavailable`, `ClusterLost`, `DeviceLost` and
`MemoryBudgetExceeded` (including `DeviceMemoryExhausted`) end in 4, Ctrl-C in 130, SIGTERM in 143, SIGHUP in 129.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mbe_stage.errors import (
    ClusterLost,
    DeviceLost,
    EngineUnavailable,
    InvalidArgument,
    MemoryBudgetExceeded,
    StageError,
)
from mbe_stage.pipeline.cli.early_exit import ENDINGS
from mbe_stage.pipeline.execution.signals import signal_of

__all__ = [
    "EXIT_CODES",
    "INTERRUPTED",
    "ConfigError",
    "DeviceMemoryExhausted",
    "InputError",
    "PipelineError",
    "PublishError",
    "RunIsBeingWritten",
    "VerificationError",
    "exit_code",
    "interruption",
    "with_settings",
]

INTERRUPTED = 130


class PipelineError(StageError):
    """Base of the pipeline's own errors."""


class InputError(PipelineError):
    """Input that cannot be used.

    The message is one line: the place (file, and line or column), what was found, what was expected, and the remedy.

    Attributes
    ----------
    settings : tuple of dict
        The remedy for programs: each entry is one solution, as configuration keys and their values. Empty if no setting
        helps. With several entries only the user knows the right one.

    Examples
    --------
    >>> print(InputError.at("edges.csv", found="no column 'user'", expected="left, right", remedy="name it: --left"))
    edges.csv: no column 'user'; expected left, right; name it: --left
    """

    settings: tuple[dict[str, object], ...] = ()

    @classmethod
    def at(
        cls,
        source: object,
        *,
        found: str,
        expected: str = "an explicit setting",
        remedy: str,
        line: int | None = None,
        column: str | None = None,
        settings: Sequence[dict[str, object]] = (),
    ) -> InputError:
        """Build the message from its parts, in their order; without `expected` it is a question to the user."""
        where = str(source)
        if line is not None:
            where += f", line {line}"
        if column is not None:
            where += f", column {column!r}"
        error = cls(f"{where}: {found}; expected {expected}; {remedy}")
        error.settings = tuple(settings)
        return error


def with_settings(error: Any, *settings: dict[str, object]) -> Any:
    """Return the same error, with these settings as its remedy if it is an `InputError`."""
    if isinstance(error, InputError):
        error.settings = settings
    return error


class ConfigError(PipelineError):
    """A configuration file, key or value that cannot be used."""


class PublishError(PipelineError):
    """The output cannot be written or read as a run directory; published runs are unchanged."""


class RunIsBeingWritten(PublishError):
    """Another process is resuming an unfinished run, or has taken it.

    Parameters
    ----------
    staging_dir : path
        The staging directory of that run.
    """

    def __init__(self, staging_dir: object) -> None:
        super().__init__(
            f"{staging_dir}: is being written by another process; expected an unfinished run without a writer; "
            "wait for it, "
            "or start over without --resume"
        )


class VerificationError(PipelineError):
    """A published run does not hold what it should; the message names the first offender."""


class DeviceMemoryExhausted(MemoryBudgetExceeded):
    """GPU memory ran out during a run; the message names the budget to change.

    Attributes
    ----------
    may_pass : bool
        True if another program held the memory: then another attempt may succeed.
    """

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


EXIT_CODES: dict[type[StageError], int] = {
    VerificationError: 1,
    InputError: 2,
    ConfigError: 2,
    InvalidArgument: 2,
    PublishError: 3,
    EngineUnavailable: 4,
    ClusterLost: 4,
    DeviceLost: 4,
    MemoryBudgetExceeded: 4,
}


def exit_code(error: StageError) -> int:
    """Return the exit code of this error."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def interruption(interrupt: KeyboardInterrupt) -> str:
    """Return one line about a signal in a command that publishes, with the note of a publication if there is one."""
    notes = "; ".join(getattr(interrupt, "__notes__", ()))
    return f"{ENDINGS[signal_of(interrupt)]}: {notes or 'nothing was published'}"
