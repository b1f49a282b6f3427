"""P-values from random copies of the rows: the best group of each copy, found by the same search.

A copy exchanges the left ends of edges, with all their rows. So the item, the attributes and the time of a row stay
together, and so do the rows of an edge.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mbe_stage.groups.null_model import UNIT
from mbe_stage.groups.rewiring import rewired
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.clean.cleaning import with_right
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.groups.chosen import GROWN_COVER, SHORT_LIST
from mbe_stage.pipeline.problems.groups.searched import SHARE_OF_COPIES, Searched, search_graph, seconds_of_keys
from mbe_stage.pipeline.problems.groups.tried_keys import edges_of_key

log = logging.getLogger(__name__)

BY_DEFAULT = 5


def n_copies(config: Config) -> int:
    """Return the number of copies to make."""
    stated: int | None = config.section("groups").chance_copies
    return BY_DEFAULT if stated is None else stated


def search_copies(
    searches: Sequence[Searched], backend: Any, place: Any, n: int, n_graphs: int
) -> list[dict[str, float]]:
    """Search random copies while there is time; a copy whose search does not finish does not count.

    Parameters
    ----------
    searches : sequence of Searched
        The run's graph, and the graphs of later buckets or of tried keys. Each copy is searched through all of them.
    backend
        The backend of the run.
    place : module
        See `searched.search_keys`.
    n : int
        Number of copies.
    n_graphs : int
        Number of graphs searched for the same groups.

    Returns
    -------
    list of dict
        One per copy: ``best_surprise`` in nats, 0 without a group; ``swaps`` per row, and ``acceptance``.
    """
    collecting = replace(searches[0].collecting, backend=backend)
    end = time.perf_counter() + seconds_of_keys(collecting.config) * SHARE_OF_COPIES
    copies = []
    for seed in range(n):
        log.info("groups: searching random copy %d of %d", seed + 1, n)
        if time.perf_counter() >= end or (found := _copy(collecting, searches, place, seed, end, n_graphs)) is None:
            log.warning("groups: there was time for %d of %d random copies", seed, n)
            break
        copies.append(found)
    return copies


def chance_p_values(surprise: np.ndarray, copies: Sequence[dict[str, float]]) -> np.ndarray:
    """Return, per surprise in nats, ``(1 + copies at least as good) / (copies + 1)``."""
    best = np.sort([copy["best_surprise"] for copy in copies])
    return (1 + best.size - np.searchsorted(best, surprise, side="left")) / (best.size + 1)


def _copy(
    collecting: Collecting, searches: Sequence[Searched], place: Any, seed: int, end: float, n_graphs: int
) -> dict[str, float] | None:
    """Search one copy; None if the time ran out."""
    edges, n_right = collecting.edges, collecting.graph.n_right
    left, swaps, acceptance = rewired(edges.left_ids, edges.right_ids, n_right, seed)
    plain = with_right(replace(edges, events=None), left, (edges.right_ids, edges.right_keys), ARROW)
    copied = plain
    if (events := edges.events) is not None:
        codes = edges.left_ids.astype(np.int64) * n_right + edges.right_ids
        places = np.searchsorted(codes, events.left.astype(np.int64) * n_right + events.right)
        copied = replace(plain, events=replace(events, left=left[places]))
    found_scores = [np.empty(0, np.int64)]
    for one in searches:
        host = plain
        if one.key is not None:
            host, _ = edges_of_key(copied, one.key, half_later=bool(one.half_later))
        elif one.half_later:
            later = one.collecting.edges
            right = later.events.right, later.right_keys
            host = with_right(replace(later, events=None), copied.events.left, right, ARROW)
        quiet, copied_edges = replace(collecting, on_progress=None), collecting.backend.from_host(host)
        seconds = end - time.perf_counter()
        found = search_graph(quiet, copied_edges, place, f"random copy {seed + 1}", seconds, n_graphs)
        if found.is_truncated:
            return None
        kind = collecting.config.section("groups").kind
        found_scores += [] if kind == GROWN_COVER else [found.candidates.surprise]
        found_scores += [] if kind == SHORT_LIST else [found.grown.scores]
    every = np.concatenate(found_scores)
    best = int(every.max()) / UNIT if every.size else 0.0
    return {"best_surprise": best, "swaps": swaps, "acceptance": acceptance}
