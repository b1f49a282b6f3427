"""Create the GPU's context while libraries are imported: both take half a second. Imports no GPU library."""

from __future__ import annotations

import ctypes
import threading


def begin_context() -> None:
    """Create the context of the first visible GPU in a separate thread; a run needs it anyway.

    Without a driver or a GPU nothing happens; the engine reports the reason later.
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
