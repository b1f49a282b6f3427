"""Name of the processor, for the CPU engines of all problems."""

from __future__ import annotations

import platform

from mbe_stage.options import Execution

__all__ = ["device", "unavailable_reason"]


def unavailable_reason() -> str | None:
    """None: Numba is a base dependency and compiles for every processor it installs on."""
    return None


def device(execution: Execution) -> str:
    """The processor and the number of threads."""
    n = execution.worker_count
    return f"cpu, {platform.machine()}, {n} thread{'' if n == 1 else 's'}"
