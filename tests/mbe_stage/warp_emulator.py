"""Runs the CUDA kernels in plain Python, 32 lanes in lockstep, without a GPU and without numba-cuda.

Each lane is a greenlet that runs until it meets the others: a warp operation returns once all lanes have called it in
the same place, by the same way; lanes that call different ones, or the same one in two branches, are an error (on a
GPU: a hang or nonsense). Warps take turns at those
places. What real hardware does between them (caches, memory order) is not emulated.

Use it in a process of its own: `install` replaces `numba.cuda`.
"""

from __future__ import annotations

import random
import sys
import time
import types as python_types
from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from greenlet import getcurrent, greenlet

_LANES = range(32)


class Diverged(AssertionError):
    """Lanes of a warp wait at different operations."""


class _Lane(greenlet):
    lane: int
    warp: int
    block: int
    n_warps: int
    n_blocks: int
    shared: list
    n_shared: int


class _Values(list):
    """What the lanes brought to where they met."""

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self._masks: dict[Any, np.uint32] = {}

    def mask_of(self, value: Any) -> np.uint32:
        """The lanes with this value, found out once for all lanes that ask."""
        if value not in self._masks:
            self._masks[value] = np.uint32(sum(1 << lane for lane in _LANES if self[lane] == value))
        return self._masks[value]


class _Atomic:
    """Atomics: greenlets only switch at warp operations, so plain code is atomic."""

    @staticmethod
    def _swap(array: Any, index: Any, make: Any) -> Any:
        old = array[index]
        array[index] = make(old)
        return old

    def add(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: old + array.dtype.type(value))

    def or_(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: old | array.dtype.type(value))

    def and_(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: old & array.dtype.type(value))

    def cas(self, array: Any, index: Any, expected: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: value if old == expected else old)

    def exch(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda _old: value)

    def max(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: max(old, value))

    def min(self, array: Any, index: Any, value: Any) -> Any:
        return self._swap(array, index, lambda old: min(old, value))


class _Shared:
    @staticmethod
    def array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """The same array for all lanes of a block, by order of the calls; it holds what others left there."""
        me = getcurrent()
        if len(me.shared) == me.n_shared:
            array = np.empty(shape, np.dtype(str(dtype)))
            array.view(np.uint8).fill(0xA5)
            me.shared.append(array)
        me.n_shared += 1
        return me.shared[me.n_shared - 1]


_INTRINSICS = {
    "global_nanoseconds": lambda: np.int64(time.monotonic_ns()),
    "held": lambda array: array,
    "load_fresh": lambda array, index: array[index],
    "onward": lambda position, step: np.int32(position + step),
}


class FakeCuda(python_types.ModuleType):
    """What the kernels use of `numba.cuda`."""

    def __init__(self) -> None:
        super().__init__("numba.cuda")
        self.atomic = _Atomic()
        self.shared = _Shared()
        self.extending = python_types.ModuleType("numba.cuda.extending")
        self.extending.intrinsic = lambda function: _INTRINSICS[function.__name__]

    @staticmethod
    def jit(function: Any = None, **_options: Any) -> Any:
        return function if function is not None else lambda f: f

    @property
    def laneid(self) -> int:
        return getcurrent().lane

    @property
    def threadIdx(self) -> Any:
        me = getcurrent()
        return python_types.SimpleNamespace(x=me.warp * 32 + me.lane)

    @property
    def blockIdx(self) -> Any:
        return python_types.SimpleNamespace(x=getcurrent().block)

    @property
    def gridDim(self) -> Any:
        return python_types.SimpleNamespace(x=getcurrent().n_blocks)

    @property
    def blockDim(self) -> Any:
        return python_types.SimpleNamespace(x=getcurrent().n_warps * 32)

    @staticmethod
    def _meet(name: str, value: Any) -> _Values:
        return getcurrent().parent.switch((name, value))

    def syncthreads(self) -> None:
        self._meet("syncthreads", None)

    def syncwarp(self) -> None:
        self._meet("syncwarp", None)

    def ballot_sync(self, _mask: int, predicate: Any) -> Any:
        return self._meet("ballot", bool(predicate)).mask_of(True)

    def match_any_sync(self, _mask: int, value: Any) -> Any:
        return self._meet("match_any", value).mask_of(value)

    def any_sync(self, _mask: int, predicate: Any) -> bool:
        return bool(self._meet("any", bool(predicate)).mask_of(True))

    def all_sync(self, _mask: int, predicate: Any) -> bool:
        return not self._meet("all", bool(predicate)).mask_of(False)

    def shfl_sync(self, _mask: int, value: Any, source: int) -> Any:
        return self._meet("shfl", value)[int(source) % 32]

    def shfl_xor_sync(self, _mask: int, value: Any, bits: int) -> Any:
        return self._meet("shfl_xor", value)[self.laneid ^ bits]

    def shfl_up_sync(self, _mask: int, value: Any, step: int) -> Any:
        lane = self.laneid
        return self._meet("shfl_up", value)[lane - step if lane >= step else lane]

    def lanemask_lt(self) -> Any:
        return np.uint32((1 << self.laneid) - 1)

    @staticmethod
    def popc(value: Any) -> int:
        return int(value).bit_count()

    @staticmethod
    def ffs(value: Any) -> int:
        value = int(value)
        return (value & -value).bit_length()

    @staticmethod
    def clz(value: Any) -> int:
        return value.dtype.itemsize * 8 - int(value).bit_length()

    def threadfence(self) -> None:
        """Memory order is not emulated."""

    def nanosleep(self, _nanoseconds: int) -> None:
        getcurrent().parent.switch(("sleep", None))


def install() -> FakeCuda:
    """Put the emulator in the place of `numba.cuda`; before any kernel module is imported."""
    fake = FakeCuda()
    sys.modules["numba.cuda"] = fake
    sys.modules["numba.cuda.extending"] = fake.extending
    numba.cuda = fake
    return fake


def launch(kernel: Any, n_blocks: int, warps_per_block: int, arguments: tuple, seed: int = 0) -> None:
    """Run a kernel; `seed` decides which warp goes on when."""
    chance = random.Random(seed)
    blocks = [_Block(kernel, block, n_blocks, warps_per_block, arguments) for block in range(n_blocks)]
    while running := [block for block in blocks if block.warps]:
        block = chance.choice(running)
        ready = [warp for warp in block.warps if warp not in block.waiting]
        chosen = chance.choice(ready)
        for _ in range(chance.randrange(1, 200)):
            outcome = chosen.step()
            if outcome == _DONE:
                block.warps.remove(chosen)
            elif outcome == _AT_BARRIER:
                block.waiting.append(chosen)
            if outcome != _RUNNING:
                block.release_if_all_wait()
                break


_RUNNING, _DONE, _AT_BARRIER = range(3)


class _Block:
    """The warps of a block that have not ended, and those of them that wait at `syncthreads`."""

    def __init__(self, kernel: Any, block: int, n_blocks: int, n_warps: int, arguments: tuple) -> None:
        shared: list = []
        self.warps: list[_Warp] = []
        self.waiting: list[_Warp] = []
        for warp in range(n_warps):
            lanes = []
            for lane in _LANES:
                one = _Lane(lambda: kernel(*arguments))
                one.lane, one.warp, one.block, one.shared, one.n_shared = lane, warp, block, shared, 0
                one.n_warps, one.n_blocks = n_warps, n_blocks
                lanes.append(one)
            self.warps.append(_Warp(lanes))

    def release_if_all_wait(self) -> None:
        if len(self.waiting) == len(self.warps):
            self.waiting.clear()


class _Warp:
    """32 lanes: what each is answered when it goes on, and what it waits for."""

    def __init__(self, lanes: list[_Lane]) -> None:
        self.lanes = lanes
        self.answers: list[tuple | None] = [None] * 32
        self.waiting: dict[int, tuple] = {}
        self._n_meetings = 0

    def step(self) -> int:
        """Let the lanes run to where they meet."""
        lanes, answers, waiting = self.lanes, self.answers, self.waiting
        for lane in _LANES:
            if lane not in waiting and not lanes[lane].dead:
                answer = answers[lane]
                request = lanes[lane].switch() if answer is None else lanes[lane].switch(answer[0])
                if lanes[lane].dead:
                    continue
                waiting[lane] = request
        if not waiting:
            return _DONE
        sleeping = [lane for lane, (name, _) in waiting.items() if name == "sleep"]
        if sleeping:
            for lane in sleeping:
                del waiting[lane]
                answers[lane] = (None,)
            return _RUNNING
        names = {name for name, _ in waiting.values()}
        self._n_meetings += 1
        # All 32 at every meeting would cost half as much again: every lane has its turn.
        looked_at = (0, 31, self._n_meetings % 31)
        if len(waiting) != 32 or len(names) != 1 or len({self._way(lane) for lane in looked_at}) != 1:
            raise Diverged(f"lanes wait at different places: {self._places()}")
        values = _Values(waiting[lane][1] for lane in _LANES)
        for lane in _LANES:
            answers[lane] = (values,)
        waiting.clear()
        return _AT_BARRIER if names == {"syncthreads"} else _RUNNING

    def _way(self, lane: int) -> int:
        """One number for the calls that led a lane from the kernel to where it waits, each by its place."""
        way, frame = 0, self.lanes[lane].gr_frame
        while frame is not None:
            way = hash((way, id(frame.f_code), frame.f_lasti))
            frame = frame.f_back
        return way

    def _places(self) -> dict:
        where: dict = {}
        for lane, (name, _) in self.waiting.items():
            frame = self.lanes[lane].gr_frame.f_back
            while "warp.py" in frame.f_code.co_filename:
                frame = frame.f_back
            where.setdefault((name, f"{frame.f_code.co_filename}:{frame.f_lineno}"), []).append(lane)
        return where
