"""Techniques of the search that can be switched off to measure their effect. The cliques stay the same."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the compile-time mask, in the order of the fields.
SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS, SUB_WARPS, SHRINKING = (1 << k for k in range(7))


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques of the CUDA engine.

    Attributes
    ----------
    sharing : bool
        Any warp may take children of a node too large for a frame (second-level subtrees of Almasri et al., at every
        depth). Without it, a warp works alone on all nodes below its root.
    donation : bool
        A warp gives away the lowest entry of its stack if other warps are idle (the worker list of Almasri et al.).
    excluded_pivots : bool
        Excluded vertices may be pivots, as in Tomita, Tanaka and Takahashi, TCS 363, 2006; otherwise only candidates
        may.
    joins : bool
        Candidates adjacent to all others join at once.
    small_ends : bool
        Nodes with at most six candidates are finished at once, with sets of candidates as bits of a word.
    sub_warps : bool
        Roots with at most six candidates and few neighbours are finished four at a time, by eight lanes each.
    shrinking : bool
        Below a node, the rows of excluded vertices not adjacent to all joined vertices are dropped, if they are at
        least half of all.
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
        """Mask of the active techniques, a compile-time constant of the kernel."""
        return self._mask_of(*self.__slots__)


ALL_TECHNIQUES = Techniques().kernel_mask
