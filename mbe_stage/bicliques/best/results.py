"""Standings of a search, as blocks, and the sink that keeps the newest one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.groups.members import GroupMembers
from mbe_stage.runtime.stoppable import within


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Bicliques in rank order.

    Attributes
    ----------
    scores : (n,) int64, or float64 for weights and surprise
    n_edges : (n,) int64
    keys : (n,) int64
    members : GroupMembers
    """

    scores: np.ndarray
    n_edges: np.ndarray
    keys: np.ndarray
    members: GroupMembers

    def __len__(self) -> int:
        return self.keys.size

    def taken(self, places: np.ndarray) -> Ranked:
        """Return the bicliques at these positions, in this order."""
        return Ranked(self.scores[places], self.n_edges[places], self.keys[places], self.members.take(places))

    def joined(self, other: Ranked, most: int) -> Ranked:
        """Return the best `most` of these and other bicliques, without duplicates."""
        scores, n_edges, keys = (
            np.concatenate([getattr(each, name) for each in (self, other)]) for name in ("scores", "n_edges", "keys")
        )
        order = np.lexsort((keys, -n_edges, -scores))
        is_new = np.diff(keys[order], prepend=~keys[order[:1]]) != 0
        joined = Ranked(scores, n_edges, keys, GroupMembers.joined([self.members, other.members]))
        return joined.taken(order[is_new][:most])

    def apart(self, overlap: float, most: int, is_over: np.ndarray) -> Ranked:
        """Return the best bicliques, at most `most`, that share at most `overlap` of their edges with better ones.

        Another thread sets `is_over`, (1,) bool, to get the ones chosen so far.
        """
        if overlap >= 1:
            return self.taken(np.arange(min(most, len(self))))
        chosen = dict[int, tuple[set[int], set[int]]]()
        for place, sides in enumerate(self.members):
            if is_over[0] or len(chosen) == most:
                break
            left, right = (set(ids.tolist()) for ids in sides)
            allowed = overlap * len(left) * len(right)
            if all(len(left & one) * len(right & other) <= allowed for one, other in chosen.values()):
                chosen[place] = left, right
        return self.taken(np.array(list(chosen), np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The state of a search, as a block (`mbe_stage.stream.Block`).

    Attributes
    ----------
    query : BestQuery
    ranked : Ranked
        The best bicliques so far, ignoring overlaps.
    bound : float
        No other biclique has a higher score. At least the best score; the lowest one of a complete search.
    is_complete : bool
    n_new : int
        Number of bicliques beyond those of earlier standings.
    apart : Ranked or None
        The best bicliques within the allowed overlap, once the search is complete.
    """

    query: BestQuery
    ranked: Ranked
    bound: float
    is_complete: bool = False
    n_new: int = 0
    apart: Ranked | None = None

    def __len__(self) -> int:
        return self.n_new

    def best(self, seconds: float = 1.0) -> Ranked:
        """Return the best so far within the allowed overlap; an incomplete search gets `seconds` to choose them."""
        asked = self.ranked.apart, self.query.overlap, self.query.k
        return within(seconds, *asked) if self.apart is None else self.apart

    @property
    def work_done(self) -> float:
        """The lowest score as a share of the bound, a rough guess."""
        lowest = self.ranked.scores[-1] if len(self.ranked) >= self.query.k else 0.0
        return 1.0 if self.is_complete else float(min(0.99, lowest / self.bound)) if self.bound > 0 else 0.0

    @property
    def status(self) -> str:
        """The best score and the bound, such as ``best 939, nothing above 1,020 possible``."""
        if not len(self.ranked):
            return ""
        best = self.ranked.scores[0]
        bound = f", nothing above {self.bound:,.10g} possible" if self.bound < math.inf else ""
        return f"best {best:,.10g}{bound}"


@dataclass(slots=True)
class BestSink:
    """Keeps the newest standing.

    Attributes
    ----------
    on_progress : callable or None
        Called with each standing.
    standing : Standing or None
    """

    on_progress: Callable[[Standing], object] | None = None
    standing: Standing | None = None
    detail: None = None

    def accept(self, block: Standing) -> None:
        """Keep a standing."""
        self.standing = block
        if self.on_progress is not None:
            self.on_progress(block)
