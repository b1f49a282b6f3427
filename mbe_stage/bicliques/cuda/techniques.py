"""Switches for the search's techniques, to measure what each is worth. They do not change the results."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that a kernel is compiled with.
MERGING, CLOSED_SETS, DOMINATED, WORDS, SPLITTING = (1 << bit for bit in range(5))
ALL_TECHNIQUES = MERGING | CLOSED_SETS | DOMINATED | WORDS | SPLITTING


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    merging : bool
        Columns with the same candidates are merged into one.
    closed_sets : bool
        A subtree over at most ten columns is finished at once, as a closed-set bitmap.
    dominated : bool
        Candidates inside an excluded row are dropped when a bitset frame is made; without it every child is visited.
    words : bool
        A node over at most 32 columns keeps a word for each row. Without it all nodes are lists, without closed-set
        bitmaps.
    splitting : bool
        Any warp may take children of a subgraph, and bitset frames are shared with idle warps. Without it a warp works
        alone on everything below its root.
    ordering : bool
        Rows in ascending degree; without it in the order of the user's ids.
    prefixes : bool
        Columns of skewed graphs are sorted, and widest roots are made from ranges of them; only with merging, words
        and ordering.
    """

    merging: bool = True
    closed_sets: bool = True
    dominated: bool = True
    words: bool = True
    splitting: bool = True
    ordering: bool = True
    prefixes: bool = True

    @property
    def kernel_mask(self) -> int:
        """Bits of the techniques that the kernel is compiled with."""
        return self._mask_of("merging", "closed_sets", "dominated", "words", "splitting")
