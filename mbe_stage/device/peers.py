"""Arrays that go from one device to another, beside what both are at.

Which way the driver takes is its own affair. Memory that it hands out from its pools other devices have no access to:
between two H100 it is copied at 35 GB/s, where NVLink has 450.
"""

from __future__ import annotations

import functools

import cupy as cp


def copied_from(*pairs: tuple[cp.ndarray, cp.ndarray]) -> None:
    """Fill arrays of the current device from others, maybe of another device; done when this returns.

    What fills them is copied beside what is enqueued on its device, and has to be there already: on the default stream
    a copy between two devices waits until both have done all that was enqueued before.

    Parameters
    ----------
    pairs : (array, array)
        What is filled, and from what: of one size and type, contiguous.
    """
    runtime, here = cp.cuda.runtime, cp.cuda.runtime.getDevice()
    beside = _second_stream(here)
    # The memory may have been handed out before, to work that is not done yet.
    beside.wait_event(cp.cuda.get_current_stream().record())
    try:
        for array, source in pairs:
            if not array.size:
                continue
            there = source.device.id
            places = array.data.ptr, source.data.ptr
            if here == there:
                runtime.memcpyAsync(*places, array.nbytes, runtime.memcpyDeviceToDevice, beside.ptr)
                continue
            _let_reach(here, there)
            # The one copy that is right for memory of the driver's pools, to which other devices have no access.
            runtime.memcpyPeerAsync(places[0], here, places[1], there, array.nbytes, beside.ptr)
    finally:
        beside.synchronize()


def brought_here(*arrays: cp.ndarray) -> tuple[cp.ndarray, ...]:
    """The arrays in the memory of the current device: copies of those of another one, from device to device.

    What is copied has to be there already. The copies are of the current stream, on which they are worked with: memory
    of another one would be handed out again as soon as they are let go of.
    """
    here = cp.cuda.runtime.getDevice()
    ours = tuple(array if array.device.id == here else cp.empty(array.shape, array.dtype) for array in arrays)
    if others := [(ours[k], array) for k, array in enumerate(arrays) if ours[k] is not array]:
        copied_from(*others)
    return ours


@functools.cache
def _let_reach(device: int, other: int) -> None:
    """Let the current device reach the memory of another one, where it can: else copies go through the host."""
    runtime = cp.cuda.runtime
    if not runtime.deviceCanAccessPeer(device, other):
        return
    try:
        runtime.deviceEnablePeerAccess(other)
    except runtime.CUDARuntimeError as error:
        # CuPy, or whoever else is in this process, may have done so before.
        if error.status != runtime.errorPeerAccessAlreadyEnabled:
            raise


@functools.cache
def _second_stream(_device: int) -> cp.cuda.Stream:
    return cp.cuda.Stream(non_blocking=True)
