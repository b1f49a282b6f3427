"""A graph and its candidates. With time buckets there are two graphs, the second with buckets half a bucket later.

With `input.time_bucket`, events close together may fall into two buckets. So groups are searched in two graphs of the
same rows. The second is enumerated for the groups only, on the same tier, after the run's own bicliques are written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mbe_stage.bicliques.enumerate import Progress, enumerate_into
from mbe_stage.bicliques.results import Detail
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.query import to_query
from mbe_stage.stream import Listener, wants_outlook

log = logging.getLogger(__name__)

_MOST_IDS = 2**31
_LATER = "buckets shifted by half"


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """A graph and the results of its search.

    Attributes
    ----------
    collecting : Collecting
        Edges and graph in host memory.
    sink : CandidateSink or DeviceCandidateSink
        After `finish`.
    n_bicliques : int or None
        Number of bicliques, for a graph that was enumerated only for the groups.
    is_truncated : bool
        A limit stopped that enumeration.
    seconds : float
        Duration of that enumeration.
    """

    collecting: Collecting
    model: NullModel
    sink: Any
    candidates: Candidates
    n_bicliques: int | None = None
    is_truncated: bool = False
    seconds: float = 0.0


def refuse_one_graph_queries(collecting: Collecting) -> None:
    """Refuse queries that make sense for one graph only when groups are searched in two.

    Raises
    ------
    ConfigError
    """
    if collecting.edges.half_later is None:
        return
    if collecting.config.section("groups").rank_by == "evidence":
        raise ConfigError(
            f"{setting('groups.rank_by')} is evidence, which compares groups of one graph, but "
            f"{setting('input.time_bucket')} makes two; expected another ranking, such as surprise"
        )
    if collecting.config.query.containing_right:
        raise ConfigError(
            f"{setting('query.containing_right')} names a time bucket, but groups also use buckets that "
            f"begin half of {setting('input.time_bucket')} later; leave it out, or make no groups"
        )


def n_graphs(collecting: Collecting) -> int:
    """Number of graphs that are searched for the same groups."""
    return 1 if collecting.config.input.time_bucket is None else 2


def search_half_later(collecting: Collecting, place: Any) -> Searched:
    """Enumerate the graph of the later buckets, with its own candidates and null model.

    Parameters
    ----------
    collecting : Collecting
        That of the run; its edges have `half_later`.
    place : module
        ``mbe_stage.pipeline.problems.groups.<backend>.sink``.

    Raises
    ------
    ConfigError
        The two graphs together have more right vertices than ids.
    EngineUnavailable, MemoryBudgetExceeded
        As `mbe_stage.enumerate_into`.
    """
    begun = time.perf_counter()
    config, edges, backend = collecting.config, collecting.edges.half_later, collecting.backend
    n_right = len(collecting.edges.right_keys) + len(edges.right_keys)
    if n_right >= _MOST_IDS:
        raise ConfigError(
            f"{setting('input.time_bucket')} {config.input.time_bucket} makes {n_right:,} right vertices "
            f"with both offsets; expected fewer than {_MOST_IDS:,}; use longer buckets"
        )
    graph = edges.graph()
    log.info("groups: searching with %s: %d right vertices", _LATER, graph.n_right)
    model = place.null_model(graph, n_graphs(collecting))
    sink = place.sink_of(model, graph)
    named = _Named(sink, place, edges.key_hashes(), backend.is_on_device)
    engine = "cuda" if backend.is_on_device else config.execution.engine
    with backend.budget(config.execution.to_execution()) as execution:
        facts = enumerate_into(
            named,
            graph,
            to_query(config.query, edges),
            execution,
            "auto" if engine == "rapids" else engine,
            _saying_which(collecting.on_progress),
        )
    if facts.truncated is not None:
        log.warning("groups: the search with %s is incomplete: it %s", _LATER, facts.truncated)
    candidates = sink.finish()
    return Searched(
        collecting=place.on_host(replace(collecting, edges=edges, graph=graph)),
        model=model,
        sink=sink,
        candidates=candidates,
        n_bicliques=facts.n_bicliques,
        is_truncated=facts.truncated is not None,
        seconds=time.perf_counter() - begun,
    )


def _saying_which(on_progress: Callable[[Any], object] | None) -> Listener | None:
    """Return a progress listener that adds the name of this search."""
    if on_progress is None:
        return None

    def tell(progress: Progress) -> None:
        on_progress(replace(progress, search=_LATER))

    return Listener(tell, wants_outlook(on_progress))


class _Named:
    """A sink that adds the name of the search to blocks before it passes them on."""

    detail = Detail.MEMBERS

    def __init__(self, sink: Any, place: Any, hashes: tuple[Any, Any], on_device: bool) -> None:
        self._sink, self._place, self._hashes, self.on_device = sink, place, hashes, on_device

    def accept(self, block: Any) -> None:
        """Accept one block."""
        if len(block):
            self._sink.accept(block, self._place.biclique_keys(block, *self._hashes))
