"""Settings of command-line processes; the library leaves them to its caller."""

from __future__ import annotations

import importlib
import sys

_FOR_SEVERAL = "raft_dask"
_is_ours = False


def claim() -> None:
    """Mark the process as running a single command; the command line's entry point calls this."""
    global _is_ours
    _is_ours = True


def is_ours() -> bool:
    """Return whether the process ends with the command that it runs."""
    return _is_ours


def import_pylibcugraph_alone() -> None:
    """Import pylibcugraph as if raft-dask were not installed, which saves 0.8 s of importing Dask, UCX and NCCL.

    Only for a process of the command: afterwards pylibcugraph cannot use several GPUs there.
    """
    if _FOR_SEVERAL in sys.modules or "pylibcugraph" in sys.modules:
        return
    # A module that is None here raises ImportError, which pylibcugraph handles.
    sys.modules[_FOR_SEVERAL] = None  # type: ignore[assignment]
    try:
        importlib.import_module("pylibcugraph")
    finally:
        del sys.modules[_FOR_SEVERAL]
