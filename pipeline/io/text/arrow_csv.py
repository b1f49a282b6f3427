"""Arrow's CSV parser, called so that no signal is lost."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

_LOOK_EVERY = 0.2


def read_csv(stream: io.RawIOBase, **options: Any) -> pa.Table:
    """Call `pyarrow.csv.read_csv` in a thread while this one waits; an interruption closes the stream.

    In the main thread Arrow replaces Python's signal handlers while it parses. A signal in that window is sometimes
    lost: about one in a hundred with a small file. In other threads Arrow leaves the handlers alone.
    """
    with ThreadPoolExecutor(1, "parsing") as pool:
        try:
            reading = pool.submit(csv.read_csv, stream, **options)
            # The system may deliver a signal to another thread, which does not end this wait. So wake up regularly.
            while not wait([reading], _LOOK_EVERY).done:
                pass
            return reading.result()
        except BaseException:
            # This makes the reading thread stop.
            stream.close()
            raise
