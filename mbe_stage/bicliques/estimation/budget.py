"""How much an estimate may cost: seconds for people, steps for tests that must not depend on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Budget"]

# What a visit costs beside the steps of the tree walk: copies, and a call into compiled code.
_STEPS_OF_A_VISIT = 6000


class Budget:
    """Counts down.

    Parameters
    ----------
    seconds : float or None
        From now on; None is no limit.
    steps : int or None
        Elementary steps of the tree walk, plus a fixed number a visit; None is no limit.
    goes_on : callable, optional
        Asked before each visit, and may wait; by False all is spent.
    """

    def __init__(self, seconds: float | None, steps: int | None, goes_on: Callable[[], bool] | None = None) -> None:
        self._seconds, self._steps, self._goes_on = seconds, steps, goes_on
        self._start = time.perf_counter()
        self._n_steps = 0

    def spend(self, n_steps: int) -> None:
        """Book a visit."""
        self._n_steps += n_steps + _STEPS_OF_A_VISIT

    @property
    def spent(self) -> float:
        """Share that is gone: 1 when nothing is left."""
        of_seconds = 0.0 if self._seconds is None else (time.perf_counter() - self._start) / max(self._seconds, 1e-9)
        return max(of_seconds, 0.0 if self._steps is None else self._n_steps / self._steps)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= 1.0 or (self._goes_on is not None and not self._goes_on())
