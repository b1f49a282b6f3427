"""Create the context of the GPU while libraries are imported: each takes half a second. Imports no GPU library."""

from __future__ import annotations

import ctypes
import threading


def begin_context() -> None:
    """Create the context of the first visible GPU, which a run keeps anyway, in a thread of its own.

    Without a driver or a GPU nothing happens: the engine that needs one says why.
    """
    threading.Thread(target=_create, name="gpu-context", daemon=True).start()


def _create() -> None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    context = ctypes.c_void_p()
    if driver.cuInit(0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
