"""Compiled functions in a thread, so that the caller can pause, report and stop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

# Seconds between pauses.
_MOMENT = 0.1


def stoppable(function: Callable[..., Any], *arguments: Any) -> Generator[None, None, Any]:
    """Return the result of a compiled function; yield now and then until it is there.

    Closing sets the function's last argument, a (1,) bool array, and waits until it has seen that.
    """
    is_over = np.zeros(1, np.bool_)
    with ThreadPoolExecutor(1, "stoppable") as pool:
        try:
            work = pool.submit(function, *arguments, is_over)
            while not wait([work], _MOMENT).done:
                yield
        finally:
            is_over[0] = True
    return work.result()
