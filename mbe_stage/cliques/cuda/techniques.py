"""Techniques of the search that can be switched off, to measure their worth. The cliques stay the same."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that the kernel is compiled with, in the order of the fields.
SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS, SUB_WARPS, SHRINKING = (1 << k for k in range(7))


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    sharing : bool
        Any warp may take children of a node too large for a frame (second-level subtrees of Almasri et al., at every
        depth). Without it a warp works alone on all nodes below its root.
    donation : bool
        A warp gives away the lowest entry of its stack if others are idle (their worker list).
    excluded_pivots : bool
        Excluded vertices may be pivots, as in Tomita, Tanaka and Takahashi, TCS 363, 2006; without it only candidates.
    joins : bool
        Candidates that are adjacent to all others join at once.
    small_ends : bool
        Nodes of at most six candidates are finished at once, with sets of candidates as bits of a word.
    sub_warps : bool
        Roots of at most six candidates and few neighbours are finished four at a time, by eight lanes each.
    shrinking : bool
        Below a node, rows of excluded vertices no longer adjacent to the joined ones are dropped if they are half of
        all.
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
        """Bits of the techniques that the kernel is compiled with."""
        return self._mask_of(*self.__slots__)


ALL_TECHNIQUES = Techniques().kernel_mask
