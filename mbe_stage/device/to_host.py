"""Copy results to the host: into pinned memory if it comes back, else into ordinary memory by several threads.

The bus fills pinned memory directly, but allocating some takes longer than filling it. So a few pieces are used again
and again: a piece comes back when nobody has its arrays any more. A consumer that keeps them gets ordinary memory. Its
pages are made when they are first written, which takes longer than the bus, so several threads write them.
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
# Smaller results are over before so much pinned memory is allocated: tens of milliseconds.
_BYTES_WITHOUT = 64 << 20
# A result of this size takes as long to ask for as to copy: its arrays are waited for together.
_SMALL_BYTES = 1 << 20
# Ordinary memory is filled by way of pinned memory, whose bytes threads copy on in steps. The bus is asked once for an
# array and waited for once a piece, not once a step: each time this thread needs Python's lock again, and where many
# threads want it that takes as long as a step.
_STEP_BYTES = 2 << 20
_MOST_THREADS = 32


class _Pinned:
    """Pieces of pinned memory of this process, and the threads that fill ordinary memory."""

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
        # Called from whatever thread drops the last array, so without a lock.
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array

    def is_worth(self, n_bytes: int) -> bool:
        """True if enough has been copied by now for pinned memory to be allocated."""
        self._n_bytes += n_bytes
        return self._n_bytes > _BYTES_WITHOUT

    def of_this_thread(self) -> np.ndarray:
        """Return memory for small results, which are copied on from there at once."""
        if not hasattr(self._small, "memory"):
            self._small.memory = _pinned(_SMALL_BYTES)
        return self._small.memory

    def fill(self, targets: list[np.ndarray], sources: tuple[cp.ndarray, ...]) -> None:
        """Copy arrays into ordinary memory, as much at a time as a piece holds."""
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
    """Yield the bytes of arrays, cut into parts that fill a piece together."""
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
    """Copy arrays of one dimension to the host; what the caller keeps stays valid.

    The first 64 MiB of a process, and results of up to 1 MiB, come in ordinary memory. Other results of up to 32 MiB
    come in pinned memory if some of its 128 MiB are free: the caller has dropped what it got earlier.
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
