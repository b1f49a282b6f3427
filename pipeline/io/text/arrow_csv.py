"""Arrow's CSV parser, called so that no signal is lost."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

__all__ = ["read_csv"]

_LOOK_EVERY = 0.2


def read_csv(stream: io.RawIOBase, **options: Any) -> pa.Table:
    """As `pyarrow.csv.read_csv`, in a thread of its own while this one waits; an interruption closes the stream.

    In the main thread Arrow puts handlers of its own in the place of Python's as long as it parses, and now and then
    neither hears a signal that comes then: one in some hundred with a small file. Elsewhere it leaves them alone.
    """
    with ThreadPoolExecutor(1, "parsing") as pool:
        try:
            reading = pool.submit(csv.read_csv, stream, **options)
            # A signal that the system gives to another thread ends no wait of this one, which has to hear it.
            while not wait([reading], _LOOK_EVERY).done:
                pass
            return reading.result()
        except BaseException:
            # Whoever still reads from it reads no further.
            stream.close()
            raise
