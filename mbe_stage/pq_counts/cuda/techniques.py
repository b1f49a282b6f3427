"""Techniques of the search, each of which can be left out to see what it is worth. The counts are the same without."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that the kernel is compiled for.
SHARING, DONATION, PAIRS, TRUNCATION = 1, 2, 4, 8
ALL_TECHNIQUES = SHARING | DONATION | PAIRS | TRUNCATION
WINDOWS = 16
"""The kernel for little memory: rows are counted a window at a time (`windowed_root_piece`)."""


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    sharing : bool
        Children of a node that does not fit a frame are taken by any warp (the second level of GBC's allocation by
        edges, at every level). Without it a warp works alone on what is below its root.
    donation : bool
        A warp gives away the shallowest level of its stack where others are idle (GBC's stealing, the other way round).
    pairs : bool
        Where two more vertices of a side are to be chosen, and the node does not fit a frame, all pairs of them are
        listed side by side; without it a pivot is chosen there too, and what is left behind it one node after another.
    truncation : bool
        Of the rows of a node that does not fit a frame only those words are read in which columns are left (the
        truncated bitmaps of GBC, section V-A); without it all.
    layer_choice : bool
        The roots' side is the one that `ordering.left_vertices_are_roots` says; without it the left one.
    wedges : bool
        Bicliques of two rows are counted without building anything (`wedges`); without it they are counted as triples
        where three of the other side are asked for, else searched as others.
    triples : bool
        Bicliques of three rows are counted on masks of what each root shares with others (`triples`); without it they
        are searched as others.
    """

    sharing: bool = True
    donation: bool = True
    pairs: bool = True
    truncation: bool = True
    layer_choice: bool = True
    wedges: bool = True
    triples: bool = True

    @property
    def kernel_mask(self) -> int:
        """The bits of the techniques that the kernel is compiled for."""
        return self._mask_of("sharing", "donation", "pairs", "truncation")
