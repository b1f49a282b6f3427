"""Whether the CUDA engine can run here. Asked on every machine, so nothing of a GPU is imported before it is needed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from mbe_stage.device.numba_private import driver_errors

if TYPE_CHECKING:
    from mbe_stage.options import Execution

_OLDEST_CAPABILITY = (7, 5)
"""Below it the compiler of CUDA 13 (NVVM) refuses."""

_INSTALL = "pip install 'mbe-stage[cuda]'"
_REINSTALL = "pip install --force-reinstall 'mbe-stage[cuda]'"
_NO_GPU = "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"

_BROKEN_INSTALL = (ImportError, AttributeError, OSError, ValueError, TypeError, RuntimeError, SystemError)
"""What importing a package ends with where parts of it are missing, or were built for other versions."""


def unavailable_reason() -> str | None:
    """None, or what is missing: numba-cuda, CuPy, a driver that works with them, a GPU that is new enough.

    Whatever these libraries raise where they cannot work becomes a sentence, so that `auto` can go on without a GPU.
    """
    for module, package in (("numba_cuda", "numba-cuda"), ("cupy", "CuPy")):
        if importlib.util.find_spec(module) is None:
            return f"{package} is not installed: {_INSTALL}"
    # CuPy takes longer to import: it is asked only where there is a GPU, and where a run would import it anyway.
    return _numba_reason() or _cupy_reason()


def _numba_reason() -> str | None:
    """What keeps numba-cuda from working here; the first to initialise the driver."""
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
    # RuntimeError: a function that an older driver does not have, or a context that another library has set up.
    except errors as error:
        return _cannot_start(error)
    if capability < _OLDEST_CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, _OLDEST_CAPABILITY))
        return f"the GPU has compute capability {have}: {need} or newer is needed"
    return None


def _cupy_reason() -> str | None:
    """What keeps CuPy from working with the driver that numba-cuda could use."""
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
    """The message in one line. CuPy wraps what it could not import into a page of advice."""
    return " ".join(str(error.__cause__ or error).split()) or type(error).__name__


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    """The GPU's name."""
    from numba import cuda

    name = cuda.get_current_device().name
    return f"cuda, {name.decode() if isinstance(name, bytes) else name}"
