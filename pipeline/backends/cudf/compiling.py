"""Compilation for the tier ``rapids``: engines, reading and tables (see `pipeline.execution.compiling`)."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

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

if TYPE_CHECKING:
    from mbe_stage.pipeline.backends.cudf.memory import DevicePool

_done_here: set[Callable[..., None]] = set()
_FRAMES, _ENGINE = "cudf", "cuda"
_READING = (keys.text_hash_thread_per_string, keys.integer_hash_thread_per_value)


def rehearsals() -> tuple[CompileStep, ...]:
    """Return compile steps, which run once per version of the libraries, device and state of the sources."""
    return tuple(
        CompileStep(
            what=f"first use of {libraries}",
            is_loaded=partial(_is_done, run),
            is_kept=partial(_is_done, run),
            compile=partial(_rehearse, run),
            seconds=seconds,
        )
        for run, libraries, seconds in ((_read, "CuPy and libcudf", 12.0), (_count_two_hops, "CuPy and cuGraph", 9.0))
    )


def _is_done(run: Callable[[DevicePool], None]) -> bool:
    return run in _done_here or code_cache.is_kept(_name(run))


def _name(run: Callable[[DevicePool], None]) -> str:
    import cupy
    from numba import cuda

    made_for = repr((run.__name__, cupy.__version__, cuda.get_current_device().compute_capability))
    return f"rehearsal-{hashlib.sha256(made_for.encode()).hexdigest()[:20]}.done"


def _rehearse(run: Callable[[DevicePool], None]) -> None:
    import cupy as cp

    from mbe_stage.pipeline.backends.cudf.memory import device_pool

    with device_pool() as pool:
        run(pool)
        cp.cuda.get_current_stream().synchronize()
    _done_here.add(run)
    code_cache.keep_or_warn(_name(run), b"")


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of 9,000 left and 4,000 right ids, so many that sums use whole blocks: CuPy compiles by size."""
    places = np.arange(30_000)
    return places % 9_000, places // 7 % 4_000


def _read(pool: DevicePool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
    from mbe_stage.pipeline.config.model import InputConfig
    from mbe_stage.pipeline.execution.ingest import ingest

    left, right = _pairs()
    for kind in (pa.int64(), pa.string()):
        edges = pa.table({"left": pa.array(left).cast(kind), "right": pa.array(right).cast(kind)})
        with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
            pq.write_table(edges, file.name)
            ingest(InputConfig(path=file.name), backend=CudfBackend(pool))


def _count_two_hops(_pool: DevicePool) -> None:
    import cupy as cp

    from mbe_stage.device.graph import graph_from_edges
    from mbe_stage.pipeline.backends.cudf.graph_facts import graph_facts

    left, right = map(cp.asarray, _pairs())
    graph_facts(graph_from_edges(left, right, 9_000, 4_000), most_steps=1 << 30, memory_bytes=1 << 28)


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
    return (*rehearsals(), *compile_steps_of(*_READING))


def _distinct(steps: Iterable[CompileStep]) -> Sequence[CompileStep]:
    return tuple({step.what: step for step in steps}.values())
