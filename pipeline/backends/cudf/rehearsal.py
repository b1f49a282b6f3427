"""Toy edges through reading and naming, so that the kernels that CuPy and libcudf compile at first use are there.

There are dozens of them, and together they take a dozen seconds. The libraries keep them in caches of their own (CuPy's
is ``CUPY_CACHE_DIR``, by default below the home directory). This happens beside the compiling of our own kernels, in a
process that nothing else is asked of (`pipeline.backends.cudf.compiling`).
"""

from __future__ import annotations

import hashlib
import tempfile

from mbe_stage import code_cache
from mbe_stage.compile_ahead import CompileStep

__all__ = ["rehearsal"]


def rehearsal() -> CompileStep:
    """As a step of compiling; done once for each version of the libraries, device and state of the sources."""
    return CompileStep(
        what="first use of CuPy and libcudf", is_loaded=_is_done, is_kept=_is_done, compile=_rehearse, seconds=12.0
    )


_done_here = False


def _is_done() -> bool:
    return _done_here or code_cache.is_kept(_name())


def _name() -> str:
    import cupy
    from numba import cuda

    made_for = repr((cupy.__version__, cuda.get_current_device().compute_capability))
    return f"rehearsal-{hashlib.sha256(made_for.encode()).hexdigest()[:20]}.done"


def _rehearse() -> None:
    import cupy as cp
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pipeline.backends.cudf.backend import CudfBackend
    from pipeline.backends.cudf.graph_facts import graph_facts
    from pipeline.backends.cudf.memory import device_pool
    from pipeline.config import InputConfig
    from pipeline.ingest import ingest

    global _done_here
    # So many that sums are taken by whole blocks, as those of any real graph: CuPy compiles them by size.
    left, right = np.random.default_rng(1).integers(0, (9_000, 4_000), (30_000, 2)).T
    with device_pool() as pool:
        for kind in (pa.int64(), pa.string()):
            edges = pa.table({"left": pa.array(left).cast(kind), "right": pa.array(right).cast(kind)})
            with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
                pq.write_table(edges, file.name)
                clean = ingest(InputConfig(path=file.name), backend=CudfBackend(pool))
            graph_facts(clean.graph(), most_steps=1 << 30, memory_bytes=1 << 28)
        cp.cuda.get_current_stream().synchronize()
    _done_here = True
    code_cache.keep_or_warn(_name(), b"")
