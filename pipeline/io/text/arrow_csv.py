"""Arrow's CSV parser, called so that no signal is lost."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Semaphore
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.key_encoder import ColumnOfBatches

_LOOK_EVERY = 0.2
_BLOCKS_AHEAD = 4


def read_csv(stream: io.RawIOBase, columns: Mapping[str, ColumnOfBatches] | None = None, **options: Any) -> pa.Table:
    """Call `pyarrow.csv.open_csv` in a thread while this one waits; an interruption closes the stream.

    In the main thread Arrow replaces Python's signal handlers while it parses. A signal in that window is sometimes
    lost: about one in a hundred with a small file. In other threads Arrow leaves the handlers alone.

    Parameters
    ----------
    columns : mapping
        By name, what takes a column block by block; without it Arrow reads all.
    """
    with ThreadPoolExecutor(1, "parsing") as pool:
        try:
            reading = pool.submit(_read_csv, stream, columns or {}, options)
            # The system may deliver a signal to another thread, which does not end this wait. So wake up regularly.
            while not wait([reading], _LOOK_EVERY).done:
                pass
            table = reading.result()
        except BaseException:
            # This makes the reading thread stop.
            stream.close()
            raise
    # Blocks of text were allocated in other threads. Of their freed memory the C library would keep most.
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    return table


def _read_csv(stream: io.RawIOBase, columns: Mapping[str, ColumnOfBatches], options: Mapping[str, Any]) -> pa.Table:
    if not columns:
        return csv.read_csv(stream, **options)
    paced = _Paced(stream)
    with csv.open_csv(paced, **options) as reader:
        for batch in reader:
            paced.ahead.release()
            run_state.count_edges_read(batch.num_rows)
            for name, column in columns.items():
                column.add(batch.column(name))
    return pa.table({name: column.finish() for name, column in columns.items()})


class _Paced(io.RawIOBase):
    """A stream that Arrow reads a few blocks ahead of the batches; alone it would keep 32 blocks in memory."""

    def __init__(self, inner: io.RawIOBase) -> None:
        self._inner, self.ahead = inner, Semaphore(_BLOCKS_AHEAD)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes | None:
        # Not for ever: blank blocks before the first row have no batch.
        self.ahead.acquire(timeout=_LOOK_EVERY)
        return self._inner.read(size)
