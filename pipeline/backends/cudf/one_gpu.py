"""pylibcugraph without what it imports for several GPUs."""

from __future__ import annotations

import importlib
import sys

__all__ = ["import_pylibcugraph_alone"]

_FOR_SEVERAL = "raft_dask"


def import_pylibcugraph_alone() -> None:
    """Import pylibcugraph as where raft-dask is not installed: with it come Dask, UCX and NCCL, 0.8 s of imports.

    Only for a process that is ours from start to end: in one that has imported it like this, nobody can ask
    pylibcugraph for several GPUs.
    """
    if _FOR_SEVERAL in sys.modules or "pylibcugraph" in sys.modules:
        return
    # What is None there is refused with an ImportError, for which pylibcugraph is prepared.
    sys.modules[_FOR_SEVERAL] = None  # type: ignore[assignment]
    try:
        importlib.import_module("pylibcugraph")
    finally:
        del sys.modules[_FOR_SEVERAL]
