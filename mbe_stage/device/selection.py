"""List this machine's devices, and make a thread use one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Literal

import cupy as cp
from numba import cuda

from mbe_stage.errors import EngineUnavailable, InvalidArgument


def device_numbers(asked: Literal["all"] | Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the requested devices.

    Raises
    ------
    InvalidArgument
        A device does not exist.
    EngineUnavailable
        The devices have different compute capabilities, but code is compiled for one.
    """
    n = cp.cuda.runtime.getDeviceCount()
    numbers = tuple(range(n)) if asked == "all" else tuple(asked)
    for number in numbers:
        if not 0 <= number < n:
            raise InvalidArgument(
                f"devices has {number}: expected numbers below {n}, of the GPUs that this process sees; see nvidia-smi "
                "and CUDA_VISIBLE_DEVICES"
            )
    kinds = {tuple(cuda.gpus[number].compute_capability): number for number in numbers}
    if len(kinds) > 1:
        told = ", ".join(f"GPU {number} has {major}.{minor}" for (major, minor), number in sorted(kinds.items()))
        raise EngineUnavailable(
            f"devices are of several compute capabilities ({told}): expected one; name those of one kind"
        )
    return numbers


def current_number() -> int:
    """Return the number of this thread's device."""
    return int(cp.cuda.runtime.getDevice())


@contextmanager
def selected(number: int) -> Iterator[None]:
    """Make this thread use a device, in Numba and in CuPy."""
    with cuda.gpus[number], cp.cuda.Device(number):
        yield


def free_bytes(number: int) -> int:
    """Return the free memory of a device, including memory that CuPy keeps for reuse."""
    with cp.cuda.Device(number):
        return int(cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes())


@cache
def name_of(number: int) -> str:
    """Return the product name of a device; cached, because asking takes a millisecond."""
    return cp.cuda.runtime.getDeviceProperties(number)["name"].decode()
