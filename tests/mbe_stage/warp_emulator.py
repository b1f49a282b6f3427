"""Run the CUDA kernels in plain Python, 32 lanes in lockstep, without a GPU and without numba-cuda.

Each lane is a greenlet that runs until it meets the others: a warp operation returns once all lanes have called it at
the same place by the same call path. Lanes that call different operations, or one in two branches, are an error (on a
GPU: a hang or garbage). At those places warps take turns and the clock advances. Hardware effects between them (caches,
memory order) are not emulated.

Use it in a separate process: `install` replaces `numba.cuda`.
"""

from __future__ import annotations

import functools
import gc
import itertools
import operator
import random
import sys
import threading
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from greenlet import getcurrent, greenlet

_LANES = range(32)


class Diverged(AssertionError):
    """Lanes of a warp wait at different operations."""


class _Lane(greenlet):
    __slots__ = ("call", "lane", "n_shared", "of", "shared", "thread")
    call: functools.partial | None
    lane: int
    thread: Any
    of: _Warp
    shared: list
    n_shared: int


class _Idle(threading.local):
    """Lanes of this thread that have ended: making and starting others takes longer than a small kernel."""

    def __init__(self) -> None:
        self.lanes: list[_Lane] = []


_idle = _Idle()


def _run_kernels() -> None:
    """Run a lane's kernel, and the next ones that it is given."""
    me = getcurrent()
    while True:
        me.call()
        me.call = None
        me.parent.switch()


class Met(list):
    """The values that lanes brought to a meeting; `common` is what the first of them computed for all."""

    common: Any = None


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
        """Return the same array for all lanes of a block, by order of the calls; its content is left over."""
        me = getcurrent()
        if len(me.shared) == me.n_shared:
            array = np.empty(shape, np.dtype(str(dtype)))
            array.view(np.uint8).fill(0xA5)
            me.shared.append(array)
        me.n_shared += 1
        return me.shared[me.n_shared - 1]


class _Clock:
    """The same at every run: it counts the warps' work, not real time."""

    nanoseconds = 0
    STEP = 20_000


_INTRINSICS = {
    "global_nanoseconds": lambda: np.int64(_Clock.nanoseconds),
    "held": lambda array: array,
    "load_fresh": lambda array, index: array[index],
    "onward": lambda position, step: np.int32(position + step),
}
_BITS = [1 << lane for lane in _LANES]
_BELOW = [np.uint32((1 << lane) - 1) for lane in _LANES]
_EVERYBODY = 0xFFFFFFFF


def meet(name: str, value: Any) -> Met:
    """Wait for all lanes of the warp and return what each brought."""
    me = getcurrent()
    warp, lane = me.of, me.lane
    warp.names[lane], warp.values[lane] = name, value
    # Straight to the next lane; the launch comes last.
    warp.turn.pop().switch()
    return warp.met


def of_all(name: str, kind: Any, made: Callable[[Met], Any]) -> Callable[[Any], Any]:
    """Return a function with one result for all lanes."""

    def function(value: Any) -> Any:
        met = meet(name, kind(value))
        if met.common is None:
            met.common = made(met)
        return met.common

    return function


_INTRINSICS |= {
    "or.b32": of_all("or", np.uint32, functools.partial(functools.reduce, operator.or_)),
    "add.s32": of_all("sum", np.int32, lambda met: sum(met, np.int32(0))),
    "max.s32": of_all("max", np.int32, max),
    "min.s32": of_all("min", np.int32, min),
}


def _mask(met: Met) -> int:
    if met.common is None:
        met.common = sum(itertools.compress(_BITS, met))
    return met.common


class FakeCuda(python_types.ModuleType):
    """The part of `numba.cuda` that the kernels use."""

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
        return getcurrent().thread

    @property
    def blockIdx(self) -> Any:
        return getcurrent().of.block_index

    @property
    def gridDim(self) -> Any:
        return getcurrent().of.grid

    @property
    def blockDim(self) -> Any:
        return getcurrent().of.block_size

    def syncthreads(self) -> None:
        meet("syncthreads", None)

    def syncwarp(self) -> None:
        meet("syncwarp", None)

    def ballot_sync(self, _mask_of_lanes: int, predicate: Any) -> Any:
        return np.uint32(_mask(meet("ballot", bool(predicate))))

    def match_any_sync(self, _mask_of_lanes: int, value: Any) -> Any:
        met = meet("match_any", value)
        if met.common is None:
            met.common = {}
            for bit, brought in zip(_BITS, met, strict=True):
                met.common[brought] = met.common.get(brought, 0) | bit
        return np.uint32(met.common[value])

    def any_sync(self, _mask_of_lanes: int, predicate: Any) -> bool:
        return _mask(meet("any", bool(predicate))) != 0

    def all_sync(self, _mask_of_lanes: int, predicate: Any) -> bool:
        return _mask(meet("all", bool(predicate))) == _EVERYBODY

    def shfl_sync(self, _mask_of_lanes: int, value: Any, source: int) -> Any:
        return meet("shfl", value)[int(source) % 32]

    def shfl_xor_sync(self, _mask_of_lanes: int, value: Any, bits: int) -> Any:
        return meet("shfl_xor", value)[self.laneid ^ bits]

    def shfl_up_sync(self, _mask_of_lanes: int, value: Any, step: int) -> Any:
        lane = self.laneid
        return meet("shfl_up", value)[lane - step if lane >= step else lane]

    def lanemask_lt(self) -> Any:
        return _BELOW[getcurrent().lane]

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
        me = getcurrent()
        me.of.asleep.append(me.lane)
        me.of.turn.pop().switch()


def install() -> FakeCuda:
    """Replace `numba.cuda` by the emulator; call it before importing kernel modules."""
    # Lanes keep many objects alive. Garbage collection often finds little, and took a tenth of the time.
    gc.set_threshold(50_000, 20, 20)
    fake = FakeCuda()
    sys.modules["numba.cuda"] = fake
    sys.modules["numba.cuda.extending"] = fake.extending
    numba.cuda = fake
    return fake


def launch(kernel: Any, n_blocks: int, warps_per_block: int, arguments: tuple, seed: int = 0) -> None:
    """Run a kernel; `seed` decides the order of the warps."""
    chance = random.Random(seed)
    blocks = [_Block(kernel, block, n_blocks, warps_per_block, arguments) for block in range(n_blocks)]
    while running := [block for block in blocks if block.warps]:
        block = chance.choice(running)
        ready = [warp for warp in block.warps if warp not in block.waiting]
        chosen = chance.choice(ready)
        for left in reversed(range(chance.randrange(1, 200))):
            outcome = chosen.step()
            if outcome == _ASLEEP:
                # For the rest of its turn: idle warps would take much of the emulator's time.
                _Clock.nanoseconds += left * _Clock.STEP
                break
            if outcome == _DONE:
                block.warps.remove(chosen)
                _idle.lanes += chosen.lanes
            elif outcome == _AT_BARRIER:
                block.waiting.append(chosen)
            if outcome != _RUNNING:
                block.release_if_all_wait()
                break


_RUNNING, _DONE, _AT_BARRIER, _ASLEEP = range(4)


class _Block:
    """The running warps of a block, and those that wait at `syncthreads`."""

    def __init__(self, kernel: Any, block: int, n_blocks: int, n_warps: int, arguments: tuple) -> None:
        shared: list = []
        call, idle = functools.partial(kernel, *arguments), _idle.lanes
        self.waiting: list[_Warp] = []
        self.warps = [_Warp(block, n_blocks, n_warps) for _ in range(n_warps)]
        for number, warp in enumerate(self.warps):
            for lane in _LANES:
                one = idle.pop() if idle else _Lane(_run_kernels)
                one.call, one.lane, one.of, one.shared, one.n_shared = call, lane, warp, shared, 0
                one.thread = python_types.SimpleNamespace(x=number * 32 + lane)
                warp.lanes.append(one)

    def release_if_all_wait(self) -> None:
        if len(self.waiting) == len(self.warps):
            self.waiting.clear()


def _same_path(one: _Lane, other: _Lane) -> bool:
    """Return True if the call paths of two lanes, from the kernel to where they wait, are the same."""
    first, second = one.gr_frame, other.gr_frame
    while first is not None and second is not None:
        if first.f_lasti != second.f_lasti or first.f_code is not second.f_code:
            return False
        first, second = first.f_back, second.f_back
    return first is second


class _Warp:
    """32 lanes, what each of them waits for, and the next one to run."""

    def __init__(self, block: int, n_blocks: int, n_warps: int) -> None:
        self.lanes: list[_Lane] = []
        self.block_index = python_types.SimpleNamespace(x=block)
        self.grid = python_types.SimpleNamespace(x=n_blocks)
        self.block_size = python_types.SimpleNamespace(x=n_warps * 32)
        self.names: list[str | None] = [None] * 32
        self.values: list[Any] = [None] * 32
        self.met = Met()
        self.asleep: list[int] = []
        # From the end: the lanes to resume, then the launch.
        self.turn: list[greenlet] = []
        self._next: Sequence[int] = _LANES
        self._n_meetings = 0

    def step(self) -> int:
        """Run the lanes to their next meeting."""
        lanes, names = self.lanes, self.names
        turn = self.turn = [getcurrent(), *map(lanes.__getitem__, reversed(self._next))]
        while turn:
            # A lane that ends comes back here, as does the last one.
            turn.pop().switch()
        _Clock.nanoseconds += _Clock.STEP
        if self.asleep:
            self._next, self.asleep = self.asleep, []
            return _ASLEEP
        name = names[0]
        if name is None and not any(names):
            return _DONE
        self._n_meetings += 1
        # Checking all 32 at every meeting would cost half as much again: lanes take turns.
        others = (31, self._n_meetings % 31)
        if names.count(name) != 32 or not all(_same_path(lanes[0], lanes[lane]) for lane in others):
            raise Diverged(f"lanes wait at different places: {self._places()}")
        self.met = Met(self.values)
        self.names = [None] * 32
        self._next = _LANES
        return _AT_BARRIER if name == "syncthreads" else _RUNNING

    def _places(self) -> dict:
        where: dict = {}
        for lane, name in enumerate(self.names):
            if name is None:
                continue
            frame = self.lanes[lane].gr_frame
            while frame.f_back is not None and "warp" in frame.f_code.co_filename.rpartition("/")[2]:
                frame = frame.f_back
            where.setdefault((name, f"{frame.f_code.co_filename}:{frame.f_lineno}"), []).append(lane)
        return where
