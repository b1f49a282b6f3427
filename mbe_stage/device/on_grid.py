"""Kernels on a grid of any size, without Numba's remark that a small one does not fill the GPU."""

from __future__ import annotations

import threading
import warnings
from typing import Any

__all__ = ["on_grid"]

# Filters are the process's; two threads at once could restore each other's.
_filters = threading.Lock()


def on_grid(kernel: Any, n_blocks: int, n_threads: int) -> Any:
    """`kernel[n_blocks, n_threads]`, to be called with the kernel's arguments.

    A small graph has a small grid. Everybody else's warnings stay.
    """
    with _filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Grid size .* under-utilization")
        return kernel[n_blocks, n_threads]
