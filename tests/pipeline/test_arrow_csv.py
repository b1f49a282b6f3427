"""Signals during Arrow's parsing are delivered, and an interrupted reader reads no further."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from mbe_stage.pipeline.backends.arrow.key_encoder import KeyEncoder, PlainColumn
from mbe_stage.pipeline.io.text.arrow_csv import read_csv

LINES = b"1,2\n" + b"1,2\n" * 1500


class Ended(KeyboardInterrupt):
    """Raised by the signal handler."""


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGINT, end)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting(io.RawIOBase):
    """A stream of `n_pieces` pieces that sends SIGINT at its first read."""

    def __init__(self, n_pieces: int) -> None:
        self._rest = [LINES] * n_pieces
        self.n_reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if self.closed:
            raise ValueError("closed")
        self.n_reads += 1
        if self.n_reads == 1:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            time.sleep(0.01)
        piece = self._rest.pop() if self._rest else b""
        buffer[: len(piece)] = piece
        return len(piece)


def test_no_signal_is_lost() -> None:
    """Parsing in the main thread would lose two or three of these."""
    n_heard = 0
    for _ in range(300):
        try:
            read_csv(Interrupting(1), {"1": PlainColumn(pa.int64())})
            # The handler runs between two instructions.
            time.sleep(0.001)
        except Ended:
            n_heard += 1
    assert n_heard == 300


def test_an_interrupted_reader_reads_no_further() -> None:
    stream = Interrupting(100_000)
    with pytest.raises(Ended):
        read_csv(stream, {"1": PlainColumn(pa.int64())})
    assert stream.closed
    assert stream.n_reads < 1000


def test_blocks_are_read_only_a_few_ahead_of_the_batches() -> None:
    """This includes blank blocks, which have no batch."""
    n_ahead = []

    class Pieces(io.RawIOBase):
        n_reads = 0

        def readable(self) -> bool:
            return True

        def read(self, _size: int = -1) -> bytes:
            self.n_reads += 1
            return b"\n" * 100 if self.n_reads < 3 else LINES if self.n_reads < 60 else b""

    stream = Pieces()

    class Slow(KeyEncoder):
        n_batches = 0

        def add(self, batch: pa.Array) -> None:
            super().add(batch)
            self.n_batches += 1
            time.sleep(0.002)
            n_ahead.append(stream.n_reads - self.n_batches)

    read, _ = read_csv(stream, {"a": Slow()}, read_options=csv.ReadOptions(column_names=["a", "b"], block_size=1 << 16))
    assert read.num_rows == 57 * 1501
    assert 0 < max(n_ahead) <= 8
