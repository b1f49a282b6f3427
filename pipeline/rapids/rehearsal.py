"""Toy edges through reading and naming, so that the kernels that CuPy and libcudf compile at first use are there.

There are dozens of them, and together they take a dozen seconds. The libraries keep them in caches of their own (CuPy's
is ``CUPY_CACHE_DIR``, by default below the home directory). This happens beside the compiling of our own kernels, in a
process that nothing else is asked of (`pipeline.rapids.compiling`).
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from mbe_stage import code_cache
from mbe_stage.compile_ahead import CompileStep

__all__ = ["rehearsal"]


def rehearsal() -> CompileStep:
    """As a step of compiling; done once for each version of the libraries, device and state of the sources."""
    return CompileStep(
        what="first use of CuPy and libcudf", is_loaded=_is_done, is_kept=_is_done, compile=_rehearse, seconds=12.0
    )


def _is_done() -> bool:
    return code_cache.is_kept(_name())


def _name() -> str:
    from numba import cuda

    versions = [version(name) for name in ("pylibcugraph", "cupy")]
    made_for = repr((versions, cuda.get_current_device().compute_capability))
    return f"rehearsal-{hashlib.sha256(made_for.encode()).hexdigest()[:20]}.done"


def _rehearse() -> None:
    import cudf
    import cupy as cp

    from pipeline.config import InputConfig
    from pipeline.rapids.graph_facts import graph_facts
    from pipeline.rapids.ingest import ingest

    left, right = [0, 0, 1, 1, 2], [0, 1, 0, 1, 1]
    for as_key in (int, "key {}".format):
        frame = cudf.DataFrame({"left": list(map(as_key, left)), "right": list(map(as_key, right))})
        edges = ingest(InputConfig(), frame)
        graph_facts(edges.graph(), most_steps=1 << 30, memory_bytes=1 << 28)
    cp.cuda.get_current_stream().synchronize()
    code_cache.keep_or_warn(_name(), b"")
