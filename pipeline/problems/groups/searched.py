"""A graph and its candidates; with time buckets or several keys there are further graphs of the same rows.

With `input.time_bucket`, events close together may fall into two buckets. So groups are searched in two graphs, the
second with buckets half a bucket later. Keys that are tried (`tried_keys`) make more. Further graphs are enumerated for
the groups only, on the same tier, after the run's own bicliques are written.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mbe_stage.bicliques.enumerate import Progress, enumerate_into
from mbe_stage.bicliques.results import Detail
from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.growth import Grown
from mbe_stage.groups.null_model import NullModel
from mbe_stage.groups.selection import grown_above_chance, grown_partners, seed_rows
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.groups.tried_keys import TriedKey, edges_of_key, n_tries
from mbe_stage.pipeline.problems.query import to_query
from mbe_stage.stream import Listener, wants_outlook

log = logging.getLogger(__name__)

N_OFFSETS = 2
"""Number of graphs with the time buckets of the input."""
_MOST_IDS = 2**31
_LATER = "buckets shifted by half"
MOST_SECONDS, SHARE_OF_COPIES = 120.0, 0.3
"""The time limit of tried keys and random copies together, and the copies' share of it."""
_LEAST_SECONDS = 0.01
# Limit on the rows of all graphs in memory; a row takes 100 bytes.
_MOST_KEPT = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """A graph and the results of its search.

    Attributes
    ----------
    made : callable
        Returns the `Collecting` with edges and graph in host memory; large graphs of tried keys are rebuilt.
    n_right : int
    sink : CandidateSink or DeviceCandidateSink
        The sink after `finish`.
    grown : GrownGroups
    n_bicliques : int or None
        Number of bicliques, for a graph that was enumerated only for the groups.
    is_truncated : bool
        A limit stopped that enumeration.
    seconds : float
        Duration of that enumeration.
    key : TriedKey or None
        None for the run's own right keys, or these with buckets shifted by half.
    half_later : bool or None
        True if the buckets are shifted by half; None without buckets.
    items : (n_right,) int32 or None
        For a tried key, the right vertex of the run that each right vertex narrows.
    """

    made: Callable[[], Collecting]
    n_right: int
    model: NullModel
    sink: Any
    candidates: Candidates
    grown: GrownGroups
    n_bicliques: int | None = None
    is_truncated: bool = False
    seconds: float = 0.0
    key: TriedKey | None = None
    half_later: bool | None = None
    items: np.ndarray | None = None

    @property
    def collecting(self) -> Collecting:
        """Edges and graph in host memory."""
        return self.made()

    @classmethod
    def of(
        cls, collecting: Collecting, model: NullModel, sink: Any, partners: Grown | None, seconds: float
    ) -> Searched:
        """Return a graph in host memory after its search; grow its candidates for at most `seconds`."""
        candidates, query = sink.finish(), collecting.config.query
        grown = grown_above_chance(
            collecting.graph,
            candidates,
            seed_rows(len(candidates), sink.left_best, sink.right_best),
            model,
            min_left=query.min_left,
            min_right=query.min_right,
            threads=collecting.config.execution.threads,
            most_seconds=seconds,
            partners=partners,
        )
        return cls(lambda: collecting, collecting.graph.n_right, model, sink, candidates, grown)


def partners_of(collecting: Collecting, model: NullModel, seconds: float) -> Grown | None:
    """Grow vertices with their best partners for at most `seconds`; None if the query requires certain members.

    Parameters
    ----------
    collecting : Collecting
        Edges and graph in host memory.
    """
    query = collecting.config.query
    if query.containing_left or query.containing_right:
        return None
    return grown_partners(
        collecting.graph,
        model,
        min_left=query.min_left,
        min_right=query.min_right,
        threads=collecting.config.execution.threads,
        most_seconds=seconds,
    )


def seconds_of_graph(config: Config, *, has_keys: bool = False) -> float:
    """Return the share of the time limit that the run's own graph has, a third each for partners, search and growth.

    Buckets shifted by half have another half, and tried keys another third.
    """
    limit = config.execution.time_limit_seconds
    if limit is None:
        return math.inf
    if config.input.time_bucket is not None:
        return limit / 2
    return limit * 2 / 3 if has_keys else limit


def seconds_of_keys(config: Config) -> float:
    """Return the most seconds for tried keys and random copies."""
    limit = config.execution.time_limit_seconds
    return MOST_SECONDS if limit is None else min(MOST_SECONDS, limit / 3)


def refuse_one_graph_queries(collecting: Collecting) -> None:
    """Refuse queries that make sense for one graph only when groups are searched in two.

    Raises
    ------
    ConfigError
    """
    if collecting.edges.half_later is not None and collecting.config.query.containing_right:
        raise ConfigError(
            f"{setting('query.containing_right')} names a time bucket, but groups also use buckets that "
            f"begin half of {setting('input.time_bucket')} later; leave it out, or make no groups"
        )


def search_half_later(collecting: Collecting, place: Any) -> Searched:
    """Enumerate the graph of the later buckets, with its own candidates and null model.

    Parameters
    ----------
    collecting : Collecting
        The collecting of the run; its edges have `half_later`.
    place : module
        ``mbe_stage.pipeline.problems.groups.<backend>.sink``.

    Raises
    ------
    ConfigError
        The two graphs together have more right vertices than ids.
    EngineUnavailable, MemoryBudgetExceeded
        See `mbe_stage.enumerate_into`.
    """
    config, edges = collecting.config, collecting.edges.half_later
    n_right = len(collecting.edges.right_keys) + len(edges.right_keys)
    if n_right >= _MOST_IDS:
        raise ConfigError(
            f"{setting('input.time_bucket')} {config.input.time_bucket} makes {n_right:,} right vertices "
            f"with both offsets; expected fewer than {_MOST_IDS:,}; use longer buckets"
        )
    log.info("groups: searching with %s: %d right vertices", _LATER, len(edges.right_keys))
    found = search_graph(collecting, edges, place, _LATER, seconds_of_graph(config), N_OFFSETS)
    return replace(found, half_later=True)


def search_graph(collecting: Collecting, edges: Any, place: Any, name: str, seconds: float, n_graphs: int) -> Searched:
    """Search one of `n_graphs` graphs for groups, for at most `seconds` and at least 0.01 seconds."""
    begun, seconds = time.perf_counter(), max(seconds, _LEAST_SECONDS)
    end = begun + seconds
    config, backend, graph = collecting.config, collecting.backend, edges.graph()
    model = place.null_model(graph, n_graphs)
    sink = place.sink_of(model, graph)
    on_host = place.on_host(replace(collecting, edges=edges, graph=graph))
    partners = partners_of(on_host, model, seconds / 3)
    named = _Named(sink, place, edges.key_hashes(), backend.is_on_device)
    engine = "cuda" if backend.is_on_device else config.execution.engine
    for_search = max(end - time.perf_counter() - seconds / 3, _LEAST_SECONDS) if math.isfinite(seconds) else None
    with backend.budget(config.execution.to_execution()) as execution:
        facts = enumerate_into(
            named,
            graph,
            to_query(config.query, edges),
            replace(execution, time_limit_seconds=for_search),
            "auto" if engine == "rapids" else engine,
            _saying_which(collecting.on_progress, name),
        )
    if facts.truncated is not None:
        log.warning("groups: the search with %s is incomplete: it %s", name, facts.truncated)
    found = Searched.of(on_host, model, sink, partners, end - time.perf_counter())
    return replace(
        found,
        n_bicliques=facts.n_bicliques,
        is_truncated=facts.truncated is not None,
        seconds=time.perf_counter() - begun,
    )


def search_keys(
    collecting: Collecting, keys: Sequence[TriedKey], place: Any
) -> tuple[list[Searched], list[dict[str, Any]]]:
    """Enumerate the graphs of the tried keys while there is time.

    Parameters
    ----------
    collecting : Collecting
        The collecting of the run, in host memory.
    keys : sequence of TriedKey
        The tried keys of its input (`keys_of`).
    place : module
        See `search_half_later`.

    Returns
    -------
    searches : list of Searched
    facts : list of dict
        Rows of `pipeline.problems.groups.schemas.GROUP_KEYS`, for all graphs.
    """
    config = collecting.config
    n_graphs = n_tries(keys)
    end = time.perf_counter() + seconds_of_keys(config) * (1 - SHARE_OF_COPIES)
    searches, facts, n_right = list[Searched](), list[dict[str, Any]](), collecting.graph.n_right
    are_kept = len(keys) and collecting.edges.events.left.size * n_graphs <= _MOST_KEPT
    for key, half_later in ((each, shifted) for each in keys for shifted in each.offsets):
        stated = half_later if key.bucket is not None else None
        facts.append({"key": key.name, "half_later": stated, "status": "not tried"})
        if time.perf_counter() >= end:
            continue
        host, items = edges_of_key(collecting.edges, key, half_later=half_later)
        if n_right + len(host.right_keys) >= _MOST_IDS:
            continue
        n_right += len(host.right_keys)
        name = f"the key {key.name}" + (f", {_LATER}" if half_later else "")
        log.info("groups: searching with %s: %d right vertices", name, len(host.right_keys))
        edges = collecting.backend.from_host(host)
        found = search_graph(collecting, edges, place, name, end - time.perf_counter(), n_graphs)
        made = found.made if are_kept else partial(_made_again, collecting, key, half_later)
        searches.append(replace(found, made=made, key=key, half_later=stated, items=items))
        facts[-1] |= {
            "status": "truncated" if found.is_truncated else "searched",
            "n_right": found.n_right,
            "n_edges": host.facts.n_edges,
            "n_bicliques": found.n_bicliques,
        }
    if untried := dict.fromkeys(row["key"] for row in facts if row["status"] != "searched"):
        log.warning("groups: the time for trying keys was too short for %s", ", ".join(untried))
    return searches, facts


def _made_again(collecting: Collecting, key: TriedKey, half_later: bool) -> Collecting:
    edges, _ = edges_of_key(collecting.edges, key, half_later=half_later)
    return replace(collecting, edges=edges, graph=edges.graph())


def _saying_which(on_progress: Callable[[Any], object] | None, name: str) -> Listener | None:
    """Return a progress listener that adds the name of this search."""
    if on_progress is None:
        return None

    def tell(progress: Progress) -> None:
        on_progress(replace(progress, search=f"with {name}" if name != _LATER else name))

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
