"""Copy arrays between devices, beside the work of both.

The driver chooses the path. Memory from its pools is not accessible to other devices; between two H100 it is copied at
35 GB/s, while NVLink has 450 GB/s.
"""

from __future__ import annotations

import functools

import cupy as cp


def copied_from(*pairs: tuple[cp.ndarray, cp.ndarray]) -> None:
    """Fill arrays of the current device from arrays of any device; the copies are complete on return.

    The sources must be complete, because they are copied beside the work enqueued on their device. On the default
    stream, a copy between two devices would wait for all work enqueued on both.

    Parameters
    ----------
    pairs : (array, array)
        Target and source, contiguous, of equal size and type.
    """
    runtime, here = cp.cuda.runtime, cp.cuda.runtime.getDevice()
    beside = _second_stream(here)
    # Work enqueued earlier may still use this memory under another array.
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
            # The only copy that works for memory from the driver's pools.
            runtime.memcpyPeerAsync(places[0], here, places[1], there, array.nbytes, beside.ptr)
    finally:
        beside.synchronize()


def brought_here(*arrays: cp.ndarray) -> tuple[cp.ndarray, ...]:
    """Copy arrays from other devices into the memory of the current one, from device to device.

    The sources must be complete. The copies are allocated on the current stream, which uses them: memory of another
    stream could be reused as soon as it is released.
    """
    here = cp.cuda.runtime.getDevice()
    ours = tuple(array if array.device.id == here else cp.empty(array.shape, array.dtype) for array in arrays)
    if others := [(ours[k], array) for k, array in enumerate(arrays) if ours[k] is not array]:
        copied_from(*others)
    return ours


@functools.cache
def _let_reach(device: int, other: int) -> None:
    """Let the current device access the memory of another one if possible; otherwise copies go through the host."""
    runtime = cp.cuda.runtime
    if not runtime.deviceCanAccessPeer(device, other):
        return
    try:
        runtime.deviceEnablePeerAccess(other)
    except runtime.CUDARuntimeError as error:
        # CuPy or another library in this process may have enabled it already.
        if error.status != runtime.errorPeerAccessAlreadyEnabled:
            raise


@functools.cache
def _second_stream(_device: int) -> cp.cuda.Stream:
    return cp.cuda.Stream(non_blocking=True)
