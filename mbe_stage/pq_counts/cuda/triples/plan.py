"""Choose the roots with triples, their order, and the device memory of their masks."""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp

from mbe_stage.pq_counts.cuda.triples.kernels import count_partners_block_per_root
from mbe_stage.pq_counts.cuda.triples.layout import MOST_PARTNERS, Needs, RootNeeds, Triples
from mbe_stage.pq_counts.cuda.wedge_session import Ranked, run_quantum, wedges_of
from mbe_stage.pq_counts.cuda.wedges import Wedges, wedge_blocks

_FEW_WORDS, _MOST_WORDS, _UNEVEN = 1 << 24, 1 << 30, 4
"""Limits for the heaviest root, in words of masks that its block compares: always allowed (about twenty milliseconds),
and never allowed (some seconds). Between them, `_UNEVEN` limits it in multiples of an average block's words."""
_WORDS_IN_BRIEF = 1 << 39
"""Number of words that all blocks compare in two seconds."""
_FEWEST_BLOCKS = 4
"""At least one in this many resident blocks needs room for its area; with fewer blocks, a search of nodes is as
fast."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRoots:
    """Roots with at least two partners.

    Attributes
    ----------
    order : (n,) int32
        Roots in descending cost.
    partners : (n_rows,) int32
    scratch_words : int
        Words of a block's area in device memory.
    n_blocks : int
    """

    order: cp.ndarray
    partners: cp.ndarray
    scratch_words: int
    n_blocks: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the areas of all blocks."""
        return 4 * self.scratch_words * self.n_blocks

    def triples(self, wedges: Wedges) -> Triples:
        """Return the kernel's arguments; allocates the areas.

        Parameters
        ----------
        wedges : Wedges
        """
        return Triples(*wedges, self.partners, cp.empty(max(1, self.scratch_words * self.n_blocks), cp.uint32))


def planned_roots(ranked: Ranked, room: int, *, in_brief: bool) -> PlannedRoots | None:
    """Count the partners of all rows, and plan the search below rows with at least two.

    Return None if there is room for the areas of few blocks only, or if other blocks would wait long for the heaviest
    root.

    Parameters
    ----------
    ranked : Ranked
    room : int
        Bytes for areas of blocks.
    in_brief : bool
        True to return None also if the search would take more than a few seconds.
    """
    lists, ranks, window_settings = ranked
    roots = RootNeeds(cp.zeros(ranks.size, cp.int32), cp.zeros(ranks.size, cp.int64), cp.zeros(len(Needs), cp.int64))
    kernel, shared, n_taken = count_partners_block_per_root, wedges_of(window_settings, ranks), 0
    while n_taken < lists.order.size:
        n_taken, _ = run_quantum(kernel, wedge_blocks(), lists, (shared, roots), n_taken)
    needs = cp.asnumpy(roots.needs).tolist()
    heaviest, scratch_words = needs[Needs.WORDS], needs[Needs.SCRATCH]
    is_uneven = heaviest > _FEW_WORDS and heaviest * wedge_blocks() > _UNEVEN * needs[Needs.WORDS_IN_ALL]
    n_blocks = min(wedge_blocks(), room // max(1, 4 * scratch_words))
    is_long = heaviest > _MOST_WORDS or (in_brief and needs[Needs.WORDS_IN_ALL] > _WORDS_IN_BRIEF)
    is_slow = is_long or is_uneven or n_blocks * _FEWEST_BLOCKS < wedge_blocks()
    if is_slow or needs[Needs.PARTNERS] > MOST_PARTNERS:
        return None
    # Roots with fewer than two partners come last, and are left out.
    order = cp.argsort(roots.costs)[::-1][: needs[Needs.ROOTS]].astype(cp.int32)
    return PlannedRoots(cp.ascontiguousarray(order), roots.partners, scratch_words, n_blocks)
