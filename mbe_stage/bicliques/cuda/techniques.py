"""Switches for the search's techniques, to measure what each is worth. They do not change the results."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that a kernel is compiled with, in the order of the fields. The last two are the host's.
MERGING, CLOSED_SETS, DOMINATED, WORDS, SPLITTING, UPPER_BITS, AHEAD, SETTLING, BITMAPS = (1 << bit for bit in range(9))
ALL_TECHNIQUES = (1 << 9) - 1


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
    upper_bits : bool
        Keys of merged columns are hashed by the upper bits of a product, which depend on all of the key.
    ahead : bool
        List children keep four tiles of loads in flight, in kernels that only count.
    settling : bool
        Counts within sizes keep no superset below a node whose right side is large enough.
    bitmaps : bool
        Subgraphs have a bitmap of rows for each column, in kernels that only count.
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
    upper_bits: bool = True
    ahead: bool = True
    settling: bool = True
    bitmaps: bool = True
    ordering: bool = True
    prefixes: bool = True

    @property
    def kernel_mask(self) -> int:
        """Bits of the techniques that the kernel is compiled with."""
        return self._mask_of(*self.__slots__) & ALL_TECHNIQUES
