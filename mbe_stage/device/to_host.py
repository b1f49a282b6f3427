"""Copy results to the host: into reusable pinned memory if it is free, else into ordinary memory by several threads.

The bus fills pinned memory directly, but allocating it takes longer than filling it. So a few pieces are reused; a
piece is free again when its arrays are no longer referenced. A consumer that keeps its arrays gets ordinary memory. Its
pages are allocated at the first write, which takes longer than the bus, so several threads write them.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.device import bytes_together, views_in
from mbe_stage.device.arrays import wait_for_device
from mbe_stage.options import Execution

_PIECE_BYTES = 32 << 20
_MOST_PIECES = 4
# Bytes copied before pinned memory is allocated, which takes tens of milliseconds; smaller results end sooner.
_BYTES_WITHOUT = 64 << 20
# Up to this size, starting a copy takes as long as the copy, so all arrays are awaited together.
_SMALL_BYTES = 1 << 20
# Ordinary memory is filled through pinned memory, and threads copy the bytes on in steps. The bus is asked once per
# array and awaited once per piece, not once per step. Each call needs Python's lock again, and with many threads that
# takes as long as a step.
_STEP_BYTES = 2 << 20
_MOST_THREADS = 32


class _Pinned:
    """Pieces of pinned memory of this process, and threads that fill ordinary memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: deque[Any] = deque()
        self._n_pieces = self._n_bytes = 0
        self._small = threading.local()
        self._staged: deque[np.ndarray] = deque()
        self._threads = ThreadPoolExecutor(min(_MOST_THREADS, Execution().worker_count), "to-host")

    def piece(self) -> np.ndarray | None:
        """Return a piece of bytes, or None if all are used; it is free again when this array and its views are."""
        try:
            memory = self._free.popleft()
        except IndexError:
            with self._lock:
                if self._n_pieces == _MOST_PIECES:
                    return None
                self._n_pieces += 1
            memory = cp.cuda.alloc_pinned_memory(_PIECE_BYTES)
        array = np.frombuffer(memory, np.uint8, _PIECE_BYTES)
        # Called by the thread that drops the last array, so it must not need the lock.
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array

    def is_worth(self, n_bytes: int) -> bool:
        """True once enough has been copied to justify allocating pinned memory."""
        self._n_bytes += n_bytes
        return self._n_bytes > _BYTES_WITHOUT

    def of_this_thread(self) -> np.ndarray:
        """Return this thread's memory for small results, which are copied out of it at once."""
        if not hasattr(self._small, "memory"):
            self._small.memory = _pinned(_SMALL_BYTES)
        return self._small.memory

    def fill(self, targets: list[np.ndarray], sources: tuple[cp.ndarray, ...]) -> None:
        """Copy arrays into ordinary memory, one piece at a time."""
        try:
            staged = self._staged.popleft()
        except IndexError:
            staged = _pinned(_PIECE_BYTES)
        for parts in _in_pieces(targets, sources):
            ends = np.cumsum([to.size for to, _ in parts])
            places = np.split(staged, ends)[:-1]
            for place, (_, source) in zip(places, parts, strict=True):
                cp.asnumpy(source, out=place, blocking=False)
            wait_for_device()
            copying = [
                self._threads.submit(np.copyto, to[step : step + _STEP_BYTES], place[step : step + _STEP_BYTES])
                for place, (to, _) in zip(places, parts, strict=True)
                for step in range(0, to.size, _STEP_BYTES)
            ]
            for copied in copying:
                copied.result()
        self._staged.append(staged)


def _pinned(n_bytes: int) -> np.ndarray:
    return np.frombuffer(cp.cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)


def _in_pieces(
    targets: list[np.ndarray], sources: tuple[cp.ndarray, ...]
) -> Iterator[list[tuple[np.ndarray, cp.ndarray]]]:
    """Yield the bytes of arrays, cut into parts that together fill a piece."""
    parts, room = [], _PIECE_BYTES
    for target, source in zip(targets, sources, strict=True):
        to, bytes_of_source, begin = target.view(np.uint8), source.view(np.uint8), 0
        while begin < to.size:
            end = min(to.size, begin + room)
            parts.append((to[begin:end], bytes_of_source[begin:end]))
            room -= end - begin
            begin = end
            if not room:
                yield parts
                parts, room = [], _PIECE_BYTES
    if parts:
        yield parts


_PINNED = _Pinned()


def to_host(*arrays: cp.ndarray) -> list[np.ndarray]:
    """Copy flat arrays to the host; the caller may keep them.

    The first 64 MiB of a process, and results of up to 1 MiB, come in ordinary memory. Other results of up to 32 MiB
    come in pinned memory, if some of its 128 MiB are free because the caller has dropped earlier results.
    """
    n_bytes = bytes_together(array.nbytes for array in arrays)
    is_worth = _PINNED.is_worth(n_bytes)
    if n_bytes <= _SMALL_BYTES:
        return [copy.copy() for copy in _copied(arrays, _PINNED.of_this_thread())]
    if not is_worth:
        return [cp.asnumpy(array) for array in arrays]
    piece = _PINNED.piece() if n_bytes <= _PIECE_BYTES else None
    if piece is not None:
        return _copied(arrays, piece)
    copies = views_in(np.empty(n_bytes, np.uint8), arrays)
    _PINNED.fill(copies, arrays)
    return copies


def _copied(arrays: tuple[cp.ndarray, ...], pinned: np.ndarray) -> list[np.ndarray]:
    """Copy arrays to pinned memory."""
    copies = views_in(pinned, arrays)
    for copy, array in zip(copies, arrays, strict=True):
        cp.asnumpy(array, out=copy, blocking=False)
    wait_for_device()
    return copies
