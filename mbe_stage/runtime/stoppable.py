"""Run a function in a thread, so that the caller can pause, report and stop it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Timer
from typing import Any, TypeVar

import numpy as np

# Seconds between pauses.
_MOMENT = 0.1
_Pause = TypeVar("_Pause")


def stoppable(
    pause: Callable[[], _Pause], function: Callable[..., Any], *arguments: Any
) -> Generator[_Pause, None, Any]:
    """Return the result of a function; until it is ready, yield the result of `pause` from time to time.

    Closing the generator sets the function's last argument, a (1,) bool array, and waits for the function to end.
    """
    is_over = np.zeros(1, np.bool_)
    with ThreadPoolExecutor(1, "stoppable") as pool:
        try:
            work = pool.submit(function, *arguments, is_over)
            while not wait([work], _MOMENT).done:
                yield pause()
        finally:
            is_over[0] = True
    return work.result()


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of such a function; its last argument is set after `seconds`."""
    is_over = np.zeros(1, np.bool_)
    timer = Timer(seconds, is_over.fill, [True])
    timer.start()
    try:
        return function(*arguments, is_over)
    finally:
        timer.cancel()
