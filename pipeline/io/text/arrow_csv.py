"""Arrow's CSV parser, called so that no signal is lost."""

from __future__ import annotations

import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Semaphore
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.key_encoder import ColumnOfBatches
from mbe_stage.pipeline.execution import lack_of_memory

_LOOK_EVERY = 0.2
_BLOCKS_AHEAD = 4


def read_csv(
    stream: io.RawIOBase | io.BufferedReader, columns: Mapping[str, ColumnOfBatches], **options: Any
) -> tuple[pa.Table, _Paced]:
    """Call `pyarrow.csv.open_csv` in a thread while this one waits; an interruption closes the stream.

    `columns` receive the blocks, by name. Returns them, and the stream with its counts of lines and quotes.

    In the main thread Arrow replaces Python's signal handlers while it parses. A signal in that window is sometimes
    lost: about one in a hundred with a small file. In other threads Arrow leaves the handlers alone.
    """
    paced = _Paced(stream)
    with ThreadPoolExecutor(1, "parsing") as pool:
        try:
            reading = pool.submit(_read_csv, paced, columns, options)
            # The system may deliver a signal to another thread, which does not end this wait. So wake up regularly.
            while not wait([reading], _LOOK_EVERY).done:
                pass
            table = reading.result()
        except BaseException:
            # This makes the reading thread stop.
            paced.close()
            raise
    # Blocks of text were allocated in other threads, and the C library would keep most of their freed memory.
    lack_of_memory.give_back()
    return table, paced


def _read_csv(stream: _Paced, columns: Mapping[str, ColumnOfBatches], options: Mapping[str, Any]) -> pa.Table:
    with csv.open_csv(stream, **options) as reader:
        for batch in reader:
            stream.ahead.release()
            run_state.count_edges_read(batch.num_rows)
            for name, column in columns.items():
                column.add(batch.column(name))
    return pa.table({name: column.finish() for name, column in columns.items()})


class _Paced(io.RawIOBase):
    """A stream that Arrow reads a few blocks ahead of the batches; alone it would keep 32 blocks in memory.

    Attributes
    ----------
    n_quotes, n_lines : int
        Quotes and lines so far, including an unfinished last line.
    """

    def __init__(self, inner: io.RawIOBase | io.BufferedReader) -> None:
        self._inner, self.ahead = inner, Semaphore(_BLOCKS_AHEAD)
        self.n_quotes = self._n_feeds = 0
        self._last = b"\n"

    @property
    def n_lines(self) -> int:
        return self._n_feeds + (self._last != b"\n")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        # The timeout matters because blank blocks before the first row yield no batch.
        self.ahead.acquire(timeout=_LOOK_EVERY)
        data = self._inner.read(size) or b""
        if data:
            self.n_quotes += data.count(b'"')
            self._n_feeds += data.count(b"\n")
            self._last = data[-1:]
        return data

    def close(self) -> None:
        self._inner.close()
        super().close()
