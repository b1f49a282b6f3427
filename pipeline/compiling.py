"""What the parts of a job need compiled, and compiling it before they begin: a step of its own, in view.

What an engine needs, it says itself (`compile_steps` in its module); what the pipeline needs beside it stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from mbe_stage.bicliques import keys, participation
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import Detail
from mbe_stage.compile_ahead import CompileProgress, CompileStep
from mbe_stage.engines import get_engine
from mbe_stage.graphs import two_hop
from pipeline.config import Config

__all__ = ["OnCompile", "Part", "host_steps", "sizes_of"]

Part = Literal["read", "count", "publish"]
"""Parts of a job: reading and naming the edges; enumerating them to count, or to publish tables."""

OnCompile = Callable[[CompileProgress], None]
"""Told how compiling goes on."""


def host_steps(engine: str, part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:
    """What a part of a job needs compiled where tables are in host memory.

    Parameters
    ----------
    engine : str
        What enumerates.
    part : str, optional
        Every part by default.
    config : Config, optional
        What the job asks for; by default anything.
    """
    if part is None:
        every = {step.what: step for each in get_args(Part) for step in host_steps(engine, each, config)}
        return tuple(every.values())
    if part == "read":
        return keys.compile_steps()
    query = None if config is None else sizes_of(config)
    if part == "count":
        return get_engine("bicliques", engine).compile_steps(query, Detail.COUNT)
    with_members = config is None or config.output.members
    with_two_hop = config is None or config.output.two_hop_steps > 0
    return (
        *get_engine("bicliques", engine).compile_steps(query, Detail.MEMBERS),
        *keys.compile_steps(),
        *participation.compile_steps(with_members),
        *(two_hop.compile_steps() if with_two_hop else ()),
    )


def sizes_of(config: Config) -> BicliqueQuery:
    """The query; whom it wants as members makes no difference here, only whether there are any."""
    query = config.query
    return BicliqueQuery(
        *(query.min_left, query.min_right, query.max_left, query.max_right, query.min_edges),
        containing_left=(0,) if query.containing_left else (),
        containing_right=(0,) if query.containing_right else (),
    )
