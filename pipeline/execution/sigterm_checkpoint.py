"""A last checkpoint at SIGTERM: the signal takes effect after the checkpoint, or after the grace period.

A service manager sends SIGTERM and, after a while, SIGKILL. Without the grace period a run would end at once, and the
search since the last checkpoint would be repeated.
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

# If no block comes for this long after the grace period, the search could not be asked to stop. The signal is sent
# again.
_SECONDS_MORE = 2.0
# systemd signals every process of a service, and a Prefect runner signals the process of a flow once more.
_SAME_SECONDS = 5.0


@dataclass(slots=True)
class Grace:
    """The state of a request to end the run, and the grace period."""

    seconds: float
    is_requested: bool = False
    _is_told: bool = field(default=False, repr=False)

    def ended(self) -> str | None:
        """Return the reason to end; see `mbe_stage.run_limits.RunLimits`."""
        if not self.is_requested:
            return None
        # Not in the handler: it may have interrupted a logging call, and would deadlock.
        if not self._is_told:
            self._is_told = True
            log.warning("received SIGTERM: saving a last checkpoint, which may take up to %g s", self.seconds)
        return "stopped by SIGTERM"

    def patience(self) -> float | None:
        """Return the seconds to wait; see `mbe_stage.run_limits.RunLimits`."""
        return self.seconds if self.is_requested else None


@contextmanager
def grace_at_sigterm(seconds: float) -> Iterator[Grace]:
    """Postpone SIGTERM by the grace period within the context, but not a later SIGTERM or Ctrl-C.

    The context must end soon after `Grace.ended` returns a reason. Then the installed handler is called, unless
    `Grace.is_requested` was reset. Only the handlers of the command and of a flow can postpone. They stay installed,
    because Prefect checks that its own is. Other handlers act as usual, and threads other than the main one are not
    affected.

    Parameters
    ----------
    seconds : float
        0 postpones nothing.

    Raises
    ------
    BaseException
        After the context: the exception that the handler raises.
    """
    grace, handler = Grace(seconds), signal.getsignal(signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or seconds == 0 or not isinstance(handler, PatientHandler):
        yield grace
        return
    with _put_off(grace, handler):
        yield grace
    if grace.is_requested:
        handler.call_postponed(signal.SIGTERM)
        # If the handler only records the signal, the run must not continue as if it were complete.
        raise EndedBySignal(signal.SIGTERM)


@contextmanager
def _put_off(grace: Grace, handler: PatientHandler) -> Iterator[None]:
    main = threading.main_thread().ident or 0
    again = threading.Timer(grace.seconds + _SECONDS_MORE, lambda: signal.pthread_kill(main, signal.SIGTERM))
    again.daemon = True

    def note() -> None:
        grace.is_requested = True
        again.start()

    handler.postpone(signal.SIGTERM, note, min(_SAME_SECONDS, grace.seconds))
    try:
        yield
    finally:
        again.cancel()
        handler.postpone_no_more(signal.SIGTERM)
