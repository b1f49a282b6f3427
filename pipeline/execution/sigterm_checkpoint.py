"""SIGTERM while a run keeps what it finds: a last checkpoint is waited for, and then the signal does what it does else.

Whoever stops a service sends SIGTERM, and SIGKILL after a while. Without this a run would end at once, and what was
found since the last checkpoint would be searched again.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mbe_stage.pipeline.execution.signals import EndedBySignal, PatientHandler

__all__ = ["Grace", "grace_at_sigterm"]

log = logging.getLogger(__name__)

# The signal is sent again where no block comes for so long behind the time of grace, and nobody could be asked.
_SECONDS_MORE = 2.0
# systemd tells every process of a service, and a runner of Prefect's tells the process of a flow once more.
_SAME_SECONDS = 5.0


@dataclass(slots=True)
class Grace:
    """Whether the run was told to end, and for how long that is put off."""

    seconds: float
    is_asked: bool = False
    _is_told: bool = field(default=False, repr=False)

    def ended(self) -> str | None:
        """As of `mbe_stage.run_limits.Course`."""
        if not self.is_asked:
            return None
        # Not in the handler: it may have interrupted who logs, and who logs may wait for himself.
        if not self._is_told:
            self._is_told = True
            log.warning("told to end: a last checkpoint is waited for, %g s at most", self.seconds)
        return "told to end (SIGTERM)"

    def patience(self) -> float | None:
        """As of `mbe_stage.run_limits.Course`."""
        return self.seconds if self.is_asked else None


@contextmanager
def grace_at_sigterm(seconds: float) -> Iterator[Grace]:
    """Put SIGTERM off for so long, while the context lasts; one that comes seconds later, or Ctrl-C, is not put off.

    Whoever is in the context ends it soon after `Grace.ended` says so; then the handler that is in place is called,
    unless `Grace.is_asked` was taken back. Those that can put it off are the command's and that of a flow, which stay
    in place: Prefect looks whether its own is. Any other handler does what it does, and nothing changes in threads
    other than the main one.

    Parameters
    ----------
    seconds : float
        0 puts nothing off.

    Raises
    ------
    BaseException
        Behind the context: what the handler raises.
    """
    grace, handler = Grace(seconds), signal.getsignal(signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or seconds == 0 or not isinstance(handler, PatientHandler):
        yield grace
        return
    with _put_off(grace, handler):
        yield grace
    if grace.is_asked:
        handler.call_postponed(signal.SIGTERM)
        # Where the handler only takes note, the run must not go on as though it were complete.
        raise EndedBySignal(signal.SIGTERM)


@contextmanager
def _put_off(grace: Grace, handler: PatientHandler) -> Iterator[None]:
    main = threading.main_thread().ident or 0
    again = threading.Timer(grace.seconds + _SECONDS_MORE, lambda: signal.pthread_kill(main, signal.SIGTERM))
    again.daemon = True

    def note() -> None:
        grace.is_asked = True
        again.start()

    handler.postpone(signal.SIGTERM, note, min(_SAME_SECONDS, grace.seconds))
    try:
        yield
    finally:
        again.cancel()
        handler.postpone_no_more(signal.SIGTERM)
