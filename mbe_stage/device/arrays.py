"""Arrays in device memory: passed to kernels, filled from the host, and zeroed beside other work."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.device import bytes_together, views_in

_MOST_TOGETHER = 1 << 20
# A GPU fills these bytes in the time that a second stream costs the host.
_WORTH_A_STREAM = 1 << 26


def upload(host: np.ndarray, device: cp.ndarray) -> None:
    """Copy an array to a device array of the same shape."""
    device.set(host)


def wait_for_device() -> None:
    """Wait until all enqueued work is done, without blocking other threads.

    Copying to memory that is not page-locked waits, too, but blocks other threads.
    """
    cp.cuda.get_current_stream().synchronize()


def copied_together(*arrays: np.ndarray) -> list[cp.ndarray]:
    """Copy arrays from the host; small ones by one copy, which takes as long as that of each would."""
    n_bytes = bytes_together(array.nbytes for array in arrays)
    if n_bytes > _MOST_TOGETHER:
        return [cp.asarray(array) for array in arrays]
    if _staging.copied is None:
        _staging.memory = np.frombuffer(cp.cuda.alloc_pinned_memory(_MOST_TOGETHER), np.uint8, _MOST_TOGETHER)
    else:
        _staging.copied.synchronize()
    for part, array in zip(views_in(_staging.memory, arrays), arrays, strict=True):
        part[:] = array
    copies, stream = cp.empty(n_bytes, cp.uint8), cp.cuda.get_current_stream()
    copies.set(_staging.memory[:n_bytes], stream)
    _staging.copied = stream.record()
    return views_in(copies, arrays)


class _Staging(threading.local):
    """Pinned memory of a thread, and the event behind the last copy from it. New memory takes longer to fill."""

    memory: np.ndarray
    copied: Any = None


_staging = _Staging()


@contextmanager
def zeroed_beside(*arrays: cp.ndarray) -> Iterator[None]:
    """Fill arrays with zeros beside the work enqueued inside, if they are large; later work finds them filled."""
    if sum(array.nbytes for array in arrays) < _WORTH_A_STREAM:
        for array in arrays:
            array.fill(0)
        yield
        return
    beside = _second_stream(cp.cuda.runtime.getDevice())
    # The memory may have been handed out before, to work that is not done yet.
    beside.wait_event(cp.cuda.get_current_stream().record())
    for array in arrays:
        array.data.memset_async(0, array.nbytes, beside)
    try:
        yield
    finally:
        cp.cuda.get_current_stream().wait_event(beside.record())


class WordsBeside:
    """Words that any thread may write while a kernel works on the array.

    Parameters
    ----------
    array : int32, one dimension
    words : mapping of int to int
        Value to write at each position.
    """

    def __init__(self, array: cp.ndarray, words: Mapping[int, int]) -> None:
        self._array = array
        # Allocated once: allocating such memory waits for kernels.
        self._memory = cp.cuda.alloc_pinned_memory(4 * len(words))
        np.frombuffer(self._memory, np.int32, len(words))[:] = list(words.values())
        self._places = [array.data.ptr + 4 * place for place in words]
        self._stream = cp.cuda.Stream(non_blocking=True)

    def write(self) -> None:
        """Write the words in their order, and wait until they are there."""
        runtime = cp.cuda.runtime
        with self._array.device:
            for k, place in enumerate(self._places):
                source = self._memory.ptr + 4 * k
                runtime.memcpyAsync(place, source, 4, runtime.memcpyHostToDevice, self._stream.ptr)
            self._stream.synchronize()


@functools.cache
def _second_stream(_device: int) -> cp.cuda.Stream:
    return cp.cuda.Stream(non_blocking=True)
