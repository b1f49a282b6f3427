"""Tells Prefect how far an enumeration is: a progress artifact and log lines with the rate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException

from mbe_stage.bicliques.enumerate import Progress

__all__ = ["PROGRESS_KEY", "ProgressReporter", "describe"]

PROGRESS_KEY = "enumeration-progress"


def describe(progress: Progress) -> str:
    """One line for people: found, rate, share of the work.

    Examples
    --------
    >>> describe(Progress(n_bicliques=3_000_000, work_done=0.25, seconds=2.0))
    '3,000,000 bicliques in 2 s (1,500,000 a second), 25 % of the work by a guess'
    """
    rate = progress.n_bicliques / progress.seconds if progress.seconds > 0 else 0.0
    return (
        f"{progress.n_bicliques:,} bicliques in {progress.seconds:.0f} s ({rate:,.0f} a second),"
        f" {100 * progress.work_done:.0f} % of the work by a guess"
    )


class ProgressReporter:
    """Called after every block; speaks at most once in `every_seconds`, since a report costs a request.

    A context: leaving it without an error reports the end, however short the run was.

    Parameters
    ----------
    log : logger
        The run's logger.
    every_seconds : float
    clock : callable
        Seconds, ascending.
    """

    def __init__(
        self,
        log: logging.Logger | logging.LoggerAdapter,
        every_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._every_seconds = every_seconds
        self._clock = clock
        self._last = clock()
        # The type says that it may be a coroutine: not here, outside any event loop.
        self._artifact = cast(
            UUID, create_progress_artifact(0.0, key=PROGRESS_KEY, description="share of the enumeration")
        )
        self._reachable = True
        self._latest: Progress | None = None

    def __enter__(self) -> ProgressReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._latest is not None:
            self._report(self._latest)

    def __call__(self, progress: Progress) -> None:
        """Report, unless the last report was a moment ago."""
        self._latest = progress
        if self._clock() - self._last >= self._every_seconds:
            self._report(progress)

    def _report(self, progress: Progress) -> None:
        self._last = self._clock()
        text = describe(progress)
        self._log.info(text)
        if not self._reachable:
            return
        try:
            update_progress_artifact(self._artifact, 100 * progress.work_done, description=text)
        except (httpx.HTTPError, PrefectException) as error:
            # Hours of enumeration must not be lost because a progress bar could not be moved; the log goes on.
            self._reachable = False
            self._log.warning("progress artifact no longer updated: %s", error)
