"""Techniques of the search that can be switched off to measure their effect. The counts stay the same."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.device.techniques import TechniqueSwitches

# Bits of the kernel's constant `techniques`.
SHARING, DONATION, PAIRS, TRUNCATION = 1, 2, 4, 8
ALL_TECHNIQUES = SHARING | DONATION | PAIRS | TRUNCATION
WINDOWS = 16
"""Bit of the kernel for little memory: rows are counted a window at a time (`windowed_root_submatrix`)."""


@dataclass(frozen=True, slots=True)
class Techniques(TechniqueSwitches):
    """Techniques that the CUDA engine uses.

    Attributes
    ----------
    sharing : bool
        Any warp may take children of a node that is too large for a frame (like the second level of GBC's allocation by
        edges, but at every depth). Without it, a warp works alone on all nodes below its root.
    donation : bool
        A warp gives away the lowest entry of its stack if others are idle (GBC's stealing, the other way round).
    pairs : bool
        If two more vertices of a side are to be chosen, and the node does not fit a frame, several warps list all pairs
        in parallel. Without it, such nodes also have a pivot, and are visited one after another.
    truncation : bool
        Only words with remaining columns are read from the rows of a node that is too large for a frame (the truncated
        bitmaps of GBC, section V-A). Without it, all words are read.
    layer_choice : bool
        `ordering.left_vertices_are_roots` chooses the roots' side. Without it, roots are left vertices.
    wedges : bool
        Bicliques of two rows are counted without building nodes (`wedges`). Without it, they are counted as triples if
        three vertices of the other side are wanted, otherwise searched like others.
    triples : bool
        Bicliques of three rows are counted on masks of the columns that each root shares with others (`triples`).
        Without it, they are searched like others.
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
