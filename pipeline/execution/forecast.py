"""The forecast of `mbe inspect` for problems that know more about a search than a trial shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.subgraphs import live_degrees, peel_to_core
from mbe_stage.options import Execution
from mbe_stage.pipeline.config.model import Config


@dataclass(frozen=True, slots=True)
class CoreSize:
    """The graph's core, with `min_right` neighbours for each left vertex and `min_left` for each right vertex."""

    min_left: int
    min_right: int
    n_left: int
    n_right: int
    n_edges: int


def core_sizes(graph: BipartiteCSR, sizes: Sequence[tuple[int, int]]) -> tuple[CoreSize, ...]:
    """Return the size of each core that contains all bicliques with at least that many left and right vertices.

    Vertices with too few neighbours are removed until there is none. Both minimum sizes ascend, so each core lies in
    the previous one.
    """
    alive = np.ones(graph.n_left, np.bool_), np.ones(graph.n_right, np.bool_)
    degrees, cores = live_degrees(graph, *alive), []
    for min_left, min_right in sizes:
        n_edges = peel_to_core(graph, *alive, min_left, min_right, degrees)
        n_left, n_right = (int(np.count_nonzero(side)) for side in alive)
        cores.append(CoreSize(min_left, min_right, n_left, n_right, n_edges))
    return tuple(cores)


@dataclass(frozen=True, slots=True)
class Trying:
    """A trial to run.

    Attributes
    ----------
    graph, query
        Objects of the problem's own types.
    seconds : float
        Time limit.
    key_types : (pa.DataType, pa.DataType)
        Types of the left and right keys.
    seed : int
        Seed of random draws.
    """

    graph: Any
    query: Any
    seconds: float
    engine: str
    execution: Execution
    config: Config
    key_types: tuple[Any, Any]
    cores: Sequence[CoreSize]
    seed: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """The forecast.

    Attributes
    ----------
    trial, estimate
        Dataclasses of plain values, for ``--json``; `estimate` is None if the problem has none.
    lines : sequence of (str, str)
        Label and text, for the terminal.
    suggestions : sequence of str
        Settings or commands to try first.
    """

    trial: Any
    estimate: Any
    lines: Sequence[tuple[str, str]]
    suggestions: Sequence[str]
