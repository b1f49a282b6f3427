"""Call a function repeatedly from a separate thread, while other work continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(action: Callable[[], object], every: float) -> Iterator[None]:
    """Call `action` now and every `every` seconds until the context ends, then wait for the last call."""
    is_over = threading.Event()

    def repeat() -> None:
        while True:
            action()
            if is_over.wait(every):
                return

    thread = threading.Thread(target=repeat, name="repeating", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
