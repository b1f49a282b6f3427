"""Arrays in device memory: copy from the host, fill with zeros beside other work, and write single words."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import cupy as cp
import numpy as np

# A GPU fills this many bytes in the time that the host needs to use a second stream.
_WORTH_A_STREAM = 1 << 26


def upload(host: np.ndarray, device: cp.ndarray) -> None:
    """Copy an array to a device array of the same shape."""
    device.set(host)


def wait_for_device() -> None:
    """Wait until all enqueued work is done, without blocking other threads.

    Copying to memory that is not page-locked also waits, but blocks other threads.
    """
    cp.cuda.get_current_stream().synchronize()


def sent(*arrays: np.ndarray) -> list[cp.ndarray]:
    """Copy arrays from the host. Page-locked memory is not needed: small copies return at once."""
    copies = [cp.empty(array.shape, array.dtype) for array in arrays]
    for copy, array in zip(copies, arrays, strict=True):
        copy.set(array)
    return copies


@contextmanager
def zeroed_beside(*arrays: cp.ndarray) -> Iterator[None]:
    """Fill arrays with zeros; large ones beside the work enqueued inside. Later work finds them filled."""
    if sum(array.nbytes for array in arrays) < _WORTH_A_STREAM:
        for array in arrays:
            array.fill(0)
        yield
        return
    beside = _second_stream(cp.cuda.runtime.getDevice())
    # Work enqueued earlier may still use this memory under another array.
    beside.wait_event(cp.cuda.get_current_stream().record())
    for array in arrays:
        array.data.memset_async(0, array.nbytes, beside)
    try:
        yield
    finally:
        cp.cuda.get_current_stream().wait_event(beside.record())


class WordsBeside:
    """Words that any thread may write while a kernel uses the array.

    Parameters
    ----------
    array : int32, one dimension
    words : mapping of int to int
        Value to write at each position.
    """

    def __init__(self, array: cp.ndarray, words: Mapping[int, int]) -> None:
        self._array = array
        # Allocated once, because allocating pinned memory waits for kernels.
        self._memory = cp.cuda.alloc_pinned_memory(4 * len(words))
        np.frombuffer(self._memory, np.int32, len(words))[:] = list(words.values())
        self._places = [array.data.ptr + 4 * place for place in words]
        self._stream = cp.cuda.Stream(non_blocking=True)

    def write(self) -> None:
        """Write the words in order, and wait until they are written."""
        runtime = cp.cuda.runtime
        with self._array.device:
            for k, place in enumerate(self._places):
                source = self._memory.ptr + 4 * k
                runtime.memcpyAsync(place, source, 4, runtime.memcpyHostToDevice, self._stream.ptr)
            self._stream.synchronize()


@functools.cache
def _second_stream(_device: int) -> cp.cuda.Stream:
    return cp.cuda.Stream(non_blocking=True)
