"""Compilation for the tier ``rapids``: engines, reading and tables (see `pipeline.execution.compiling`)."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence

from mbe_stage.bicliques.cuda import keys
from mbe_stage.device.jit import all_at_once, compile_steps_of
from mbe_stage.engines import engine_names, get_engine
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.execution.compiling import Part
from mbe_stage.pipeline.problems.base import DerivedPublication, Publication
from mbe_stage.pipeline.problems.installed import derived_of, derived_publications, every_publication, publication_of
from mbe_stage.runtime import code_cache
from mbe_stage.runtime.compile_ahead import CompileStep

_done_here = False
_FRAMES, _ENGINE = "cudf", "cuda"
_READING = (keys.text_hash_thread_per_string, keys.integer_hash_thread_per_value)


def rehearsal() -> CompileStep:
    """Return a compile step, which runs once per version of the libraries, device and state of the sources."""
    return CompileStep(
        what="first use of CuPy and libcudf", is_loaded=_is_done, is_kept=_is_done, compile=_rehearse, seconds=12.0
    )


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

    from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
    from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts
    from mbe_stage.pipeline.backends.cudf.memory import device_pool
    from mbe_stage.pipeline.config.model import InputConfig
    from mbe_stage.pipeline.execution.ingest import ingest

    global _done_here
    # Enough rows that sums use whole blocks, as for real graphs: CuPy compiles them by size.
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


def device_steps(part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:
    """List what a part of a job needs compiled; parameters are those of `pipeline.execution.compiling.host_steps`.

    If any of that has to be compiled, include the needs of all parts of all built-in jobs.
    """
    if part is None or config is None:
        return _of_every_problem()
    needed = _distinct(_steps(part, config))
    # Other packages' code is only compiled when a run needs it.
    return all_at_once(needed, lambda: _distinct((*needed, *_everything(publication_of(OURS), ()))))


def _steps(part: Part, config: Config) -> Sequence[CompileStep]:
    if part == "read":
        return _reading()
    publication = publication_of(config.problem)
    query, engine = publication.query_shape(config), get_engine(config.problem, _ENGINE)
    if part == "count":
        counting = engine.compile_steps(query, publication.count_sink().detail)
        return (*counting, *publication.graph_steps(config))
    return (
        *publication.graph_steps(config),
        *engine.compile_steps(query, publication.detail(config)),
        *compile_steps_of(*_READING),
        *publication.device_compile_steps(config),
        *_of_outputs(derived_of(config), config),
    )


def _of_every_problem() -> Sequence[CompileStep]:
    here = [each for each in every_publication() if _FRAMES in each.frames and _ENGINE in engine_names(each.problem)]
    return _distinct(step for each in here for step in _everything(each, derived_publications(each.problem)))


def _everything(publication: Publication, derived: Sequence[DerivedPublication]) -> Sequence[CompileStep]:
    return (
        *_reading(),
        *get_engine(publication.problem, _ENGINE).compile_steps(),
        *publication.graph_steps(None),
        *publication.device_compile_steps(None),
        *_of_outputs([output for output in derived if _FRAMES in output.frames], None),
    )


def _of_outputs(derived: Sequence[DerivedPublication], config: Config | None) -> Sequence[CompileStep]:
    return tuple(
        step
        for output in derived
        for steps in (output.compile_steps(config), output.device_compile_steps(config))
        for step in steps
    )


def _reading() -> Sequence[CompileStep]:
    return (rehearsal(), *compile_steps_of(*_READING))


def _distinct(steps: Iterable[CompileStep]) -> Sequence[CompileStep]:
    return tuple({step.what: step for step in steps}.values())
