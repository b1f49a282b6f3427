"""What the tier ``rapids`` needs compiled: kernels of engines, reading and tables; see `pipeline.compiling`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mbe_stage.bicliques.cuda import keys
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.device.jit import all_at_once, compile_steps_of
from mbe_stage.engines import engine_names, get_engine
from pipeline.backends.cudf.rehearsal import rehearsal
from pipeline.compiling import Part
from pipeline.config import Config
from pipeline.installed_publications import derived_of, derived_publications, every_publication, publication_of
from pipeline.plugin_sections import OURS
from pipeline.publication import DerivedPublication, Publication

__all__ = ["device_steps"]

_FRAMES, _ENGINE = "cudf", "cuda"
_READING = (keys.text_hash_thread_per_string, keys.integer_hash_thread_per_value)


def device_steps(part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:
    """What a part of a job needs compiled; parameters are those of `pipeline.compiling.host_steps`.

    Where some of that has to be compiled, it is everything too that any part of any job of ours needs.
    """
    if part is None or config is None:
        return _of_every_problem()
    needed = _distinct(_steps(part, config))
    # What other packages bring, beside what this run asks of them, is compiled where it is asked for.
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
