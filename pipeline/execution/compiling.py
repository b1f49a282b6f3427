"""Compile what the parts of a job need before they start, as a separate, visible step.

An engine lists its own needs (`compile_steps` in its module). The publications list what publishing a problem and its
derived outputs needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from mbe_stage.bicliques import keys
from mbe_stage.engines import engine_names, get_engine
from mbe_stage.graphs import csr, numbering, pairs, texts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.installed import derived_of, derived_publications, every_publication, publication_of
from mbe_stage.problem import problem_named
from mbe_stage.runtime.compile_ahead import CompileProgress, CompileStep
from mbe_stage.sampling import SAMPLED_ENGINE, sampler_of

Part = Literal["read", "count", "publish"]
"""Parts of a job: reading and naming the edges; enumerating them to count, or to publish tables."""

OnCompile = Callable[[CompileProgress], None]
"""Receives the progress of compilation."""


def read_steps() -> Sequence[CompileStep]:
    """List what reading, cleaning and building the graph need compiled."""
    modules = keys, numbering, texts, pairs, csr
    return tuple(step for module in modules for step in module.compile_steps())


def host_steps(
    engine: str,
    part: Part | None = None,
    config: Config | None = None,
    *,
    but_with: str | None = None,
    samples: bool = True,
) -> Sequence[CompileStep]:
    """List what a part of a job needs compiled if tables are in host memory.

    Parameters
    ----------
    engine : str
        The engine that enumerates.
    part : str, optional
        Every part by default.
    config : Config, optional
        The job's configuration; by default any job, of any problem that has the engine.
    but_with : str, optional
        Skip problems that write with this backend.
    samples : bool
        True if sampling is needed to estimate the number of results during the search.
    """
    if config is None:
        publications = [each for each in every_publication() if but_with not in each.frames]
        problems = [each.problem for each in publications if engine in engine_names(each.problem)]
    else:
        problems = [config.problem]
    parts = get_args(Part) if part is None else (part,)
    every = (step for problem in problems for each in parts for step in _steps(problem, engine, each, config, samples))
    return tuple({step.what: step for step in every}.values())


def _steps(problem: str, engine: str, part: Part, config: Config | None, samples: bool) -> Sequence[CompileStep]:
    if part == "read":
        return read_steps()
    publication = publication_of(problem)
    shape = None if config is None else publication.query_shape(config)
    sampler = sampler_of(problem_named(problem)) if samples and engine == SAMPLED_ENGINE else None
    sampling = () if sampler is None else sampler.compile_steps()
    sampling = (*sampling, *publication.graph_steps(config))
    if part == "count":
        return (*get_engine(problem, engine).compile_steps(shape, publication.count_sink().detail), *sampling)
    derived = derived_publications(problem) if config is None else derived_of(config)
    return (
        *get_engine(problem, engine).compile_steps(shape, publication.detail(config)),
        *sampling,
        *publication.compile_steps(config),
        *(step for output in derived for step in output.compile_steps(config)),
    )
