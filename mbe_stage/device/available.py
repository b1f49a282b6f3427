"""Check if the CUDA engine can run here. Every machine runs this, so GPU libraries are imported only when needed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import TYPE_CHECKING

from mbe_stage.device.numba_private import driver_errors

if TYPE_CHECKING:
    from mbe_stage.options import Execution

_OLDEST_CAPABILITY = (7, 5)
"""Lowest compute capability; the compiler of CUDA 13 (NVVM) refuses older ones."""

_working: set[int] = set()
"""Devices that passed the checks in this process. Checking again takes as long as a small graph's kernels."""

_INSTALL = "pip install 'mbe-stage[cuda]'"
_REINSTALL = "pip install --force-reinstall 'mbe-stage[cuda]'"
_NO_GPU = "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"

_BROKEN_INSTALL = (ImportError, AttributeError, OSError, ValueError, TypeError, RuntimeError, SystemError)
"""Errors of importing a package with missing parts, or built for other versions."""


def unavailable_reason() -> str | None:
    """Return None, or the missing requirement: numba-cuda, CuPy, a driver that works with them, or a recent GPU.

    Errors of these libraries become a sentence, so that `auto` can continue without a GPU.
    """
    if _working and sys.modules["cupy"].cuda.runtime.getDevice() in _working:
        return None
    for module, package in (("numba_cuda", "numba-cuda"), ("cupy", "CuPy")):
        if not _is_installed(module):
            return f"{package} is not installed: {_INSTALL}"
    # CuPy takes longer to import, so it is checked only if there is a GPU; a run imports it anyway then.
    reason = _numba_reason() or _cupy_reason()
    if reason is None:
        _working.add(sys.modules["cupy"].cuda.runtime.getDevice())
    return reason


@functools.cache
def _is_installed(module: str) -> bool:
    """True if a module is installed. Cached, because searching for a missing one takes as long as a small graph."""
    return importlib.util.find_spec(module) is not None


def _numba_reason() -> str | None:
    """Return the reason why numba-cuda does not work here, or None. It initialises the driver first."""
    try:
        from numba import cuda

        errors: tuple[type[Exception], ...] = (RuntimeError, *driver_errors())
    except _BROKEN_INSTALL as error:
        return f"numba-cuda cannot be imported ({_detail(error)}): {_REINSTALL}"
    try:
        if len(cuda.gpus) == 0:
            return _NO_GPU
        capability = tuple(cuda.get_current_device().compute_capability)
    except cuda.CudaSupportError as error:
        detail = _detail(error)
        if "CUDA_ERROR_NO_DEVICE" in detail:
            return _NO_GPU
        return f"the NVIDIA driver cannot be used ({detail}): install a driver, or one new enough for CUDA 13"
    # RuntimeError: an older driver lacks a function, or another library has set up the context.
    except errors as error:
        return _cannot_start(error)
    if capability < _OLDEST_CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, _OLDEST_CAPABILITY))
        return f"the GPU has compute capability {have}: {need} or newer is needed"
    return None


def _cupy_reason() -> str | None:
    """Return the reason why CuPy does not work with the driver that numba-cuda can use, or None."""
    try:
        from cupy.cuda import runtime
    except _BROKEN_INSTALL as error:
        return f"CuPy cannot be imported ({_detail(error)}): {_REINSTALL}"
    try:
        driver, needed = runtime.driverGetVersion() // 1000, runtime.runtimeGetVersion() // 1000
        if driver < needed:
            return (
                f"the NVIDIA driver is one of CUDA {driver}, CuPy is built for CUDA {needed}: install a driver that is "
                f"new enough for CUDA {needed}"
            )
        if runtime.getDeviceCount() == 0:
            return _NO_GPU
    except runtime.CUDARuntimeError as error:
        return _cannot_start(error)
    return None


def _cannot_start(error: BaseException) -> str:
    return (
        f"CUDA does not start on the GPU ({_detail(error)}): check with nvidia-smi that the GPU is well, not full and "
        "not held by another program, and that the driver is new enough for CUDA 13"
    )


def _detail(error: BaseException) -> str:
    """Return the message in one line. CuPy wraps failed imports in long advice, so prefer the cause."""
    return " ".join(str(error.__cause__ or error).split()) or type(error).__name__


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    """Return the GPU's name."""
    import cupy as cp

    return _name_of(cp.cuda.runtime.getDevice())


@functools.cache
def _name_of(_device: int) -> str:
    from numba import cuda

    name = cuda.get_current_device().name
    return f"cuda, {name.decode() if isinstance(name, bytes) else name}"
