"""Techniques of the search that can be switched off, to measure their worth. The counts stay the same."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the constant that the kernel is compiled with.
SHARING, DONATION, PAIRS, TRUNCATION = 1, 2, 4, 8
ALL_TECHNIQUES = SHARING | DONATION | PAIRS | TRUNCATION
WINDOWS = 16
"""The kernel for little memory: rows are counted a window at a time (`windowed_root_submatrix`)."""


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    sharing : bool
        Any warp may take children of a node too large for a frame (the second level of GBC's allocation by edges, at
        every depth). Without it a warp works alone on all nodes below its root.
    donation : bool
        A warp gives away the lowest entry of its stack if others are idle (GBC's stealing, the other way round).
    pairs : bool
        If two more vertices of a side are to be chosen, and the node does not fit a frame, all pairs of them are listed
        side by side. Without it a pivot is chosen there, too, and the rest follows one node after another.
    truncation : bool
        Of the rows of a node too large for a frame, only the words with remaining columns are read (the truncated
        bitmaps of GBC, section V-A); without it all words.
    layer_choice : bool
        `ordering.left_vertices_are_roots` chooses the roots' side; without it the left side.
    wedges : bool
        Bicliques of two rows are counted without building anything (`wedges`). Without it they are counted as triples
        if three of the other side are wanted, else searched like others.
    triples : bool
        Bicliques of three rows are counted on masks of the columns that each root shares with others (`triples`);
        without it they are searched like others.
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
        """Bits of the techniques that the kernel is compiled with."""
        return self._mask_of("sharing", "donation", "pairs", "truncation")
