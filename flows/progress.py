"""Progress of an enumeration in Prefect: an artifact, and log lines with the rate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException

from mbe_stage.bicliques.enumerate import Progress
from mbe_stage.pipeline.run_state import counts
from mbe_stage.pipeline.wording import found_text, left_text, percent_text

__all__ = ["PROGRESS_KEY", "ProgressReporter", "describe", "shown_share"]

PROGRESS_KEY = "enumeration-progress"


def describe(progress: Progress, counted: str = "bicliques") -> str:
    """Return one line: the search (if there are several), results found and expected, rate, share, time left.

    Examples
    --------
    >>> describe(Progress(n_found=3_000_000, work_done=0.25, seconds=2.0))
    '3,000,000 bicliques in 2 s (1,500,000 a second), 25 % of the work by a guess'
    >>> from mbe_stage.forecast import Outlook
    >>> outlook = Outlook(11_000_000, 12_034_567, 13_000_000)
    >>> describe(Progress(3_000_000, 0.9, 60.0, expected=outlook, share=0.25, seconds_left=180.0))
    '3,000,000 of about 12,000,000 bicliques in 60 s (50,000 a second), 25 %, 3 min left'
    """
    if progress.search:
        return f"{progress.search}: {describe(replace(progress, search=''), counted)}"
    rate = progress.n_found / progress.seconds if progress.seconds > 0 else 0.0
    pace = f"in {progress.seconds:.0f} s ({rate:,.0f} a second)"
    if progress.work_done == 1.0:
        return f"{progress.n_found:,} {counted} {pace}, all"
    if progress.status:
        return f"{progress.status}, {progress.seconds:.0f} s"
    if progress.has_stopped:
        return f"{progress.n_found:,} {counted} {pace}, stopped, finishing"
    text = f"{found_text(progress.n_found, counted, progress.expected, progress.share)} {pace}"
    if progress.expected is None:
        return f"{text}, {percent_text(progress.work_done, 0)} of the work by a guess"
    if progress.share is None:
        return f"{text}, share unknown"
    text += f", {percent_text(progress.share, 0)}"
    return text if progress.seconds_left is None else f"{text}, {left_text(progress.seconds_left)}"


def shown_share(progress: Progress) -> float | None:
    """Return the share for a progress bar: known, or guessed by the engine; None if the samples leave it open."""
    if progress.share is not None:
        return progress.share
    return progress.work_done if progress.expected is None else None


class ProgressReporter:
    """Reports progress at most once per `every_seconds`, because each report costs a request. Call it per block.

    Use it as a context manager: leaving it without an error reports the end, however short the run was.

    Parameters
    ----------
    log : logger
        The run's logger.
    counted : str
        Plural noun for the results.
    clock : callable
        Returns ascending seconds.
    """

    def __init__(
        self,
        log: logging.Logger | logging.LoggerAdapter[Any],
        counted: str = "bicliques",
        every_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._counted = counted
        self._every_seconds = every_seconds
        self._clock = clock
        self._last = clock()
        # Typed as a possible coroutine; it is none outside an event loop.
        self._artifact = cast(
            UUID, create_progress_artifact(0.0, key=PROGRESS_KEY, description="share of the enumeration")
        )
        self._reachable = True
        self._latest: Progress | None = None
        self._shown = 0.0

    def __enter__(self) -> ProgressReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._latest is not None:
            self._report(self._latest)

    def __call__(self, progress: Progress) -> None:
        """Report if a report is due; if another search begins, report the end of the one before."""
        if self._latest is not None and self._latest.search != progress.search:
            self._report(self._latest)
        self._latest = progress
        if self._clock() - self._last >= self._every_seconds:
            self._report(progress)

    def _report(self, progress: Progress) -> None:
        self._last = self._clock()
        text = describe(progress, self._counted)
        self._log.info(text, extra={**counts(), "seconds": progress.seconds})
        # If the share is no longer known, the bar stays and the text says so.
        share = shown_share(progress)
        self._shown = self._shown if share is None else share
        if not self._reachable:
            return
        try:
            update_progress_artifact(self._artifact, 100 * self._shown, description=text)
        except (httpx.HTTPError, PrefectException) as error:
            # A failing progress bar must not end hours of enumeration; log lines continue.
            self._reachable = False
            self._log.warning("progress artifact no longer updated: %s", error)
