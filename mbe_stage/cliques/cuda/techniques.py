"""Techniques of the search, each of which can be left out to see what it is worth. The cliques are the same without."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that the kernel is compiled for, in the order of the fields.
SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS, SUB_WARPS, SHRINKING = (1 << k for k in range(7))


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    sharing : bool
        Children of a node that does not fit a frame are taken by any warp (second-level subtrees of Almasri et al.,
        at every level). Without it a warp works alone on what is below its root.
    donation : bool
        A warp gives away the shallowest level of its stack if others are idle (their worker list).
    excluded_pivots : bool
        Excluded vertices may be pivots, as in Tomita, Tanaka and Takahashi, TCS 363, 2006; without it candidates alone.
    joins : bool
        Candidates that are adjacent to all others join at once.
    small_ends : bool
        Nodes of at most six candidates are ended at once, the sets of candidates as bits of a word.
    sub_warps : bool
        Roots of at most six candidates and few neighbours are ended four at a time, each by eight lanes.
    shrinking : bool
        Rows of excluded vertices that are no longer adjacent to what joined are left out below a node where half are.
    """

    sharing: bool = True
    donation: bool = True
    excluded_pivots: bool = True
    joins: bool = True
    small_ends: bool = True
    sub_warps: bool = True
    shrinking: bool = True

    @property
    def kernel_mask(self) -> int:
        """The bits of the techniques that the kernel is compiled for."""
        return self._mask_of(*(field.name for field in fields(self)))


ALL_TECHNIQUES = Techniques().kernel_mask
