"""What can be left out, to see what it is worth. The counts are the same without."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["ALL_TECHNIQUES", "DONATION", "PAIRS", "SHARING", "TRUNCATION", "WINDOWS", "Techniques"]

# Bits of the constant that the kernel is compiled for.
SHARING, DONATION, PAIRS, TRUNCATION = 1, 2, 4, 8
ALL_TECHNIQUES = SHARING | DONATION | PAIRS | TRUNCATION
WINDOWS = 16
"""The kernel for little memory: rows are counted a window at a time (`windowed_root_piece`)."""


@dataclass(frozen=True, slots=True)
class Techniques:
    """What the CUDA engine makes use of.

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
    border : bool
        Columns are in the order of their heaviest rows, so that those of a root stand together where rows share them
        (what Border is after: GBC, section V-B); usually they are in ascending degree. Not made in little memory.
    """

    sharing: bool = True
    donation: bool = True
    pairs: bool = True
    truncation: bool = True
    layer_choice: bool = True
    wedges: bool = True
    triples: bool = True
    border: bool = False

    @property
    def kernel_mask(self) -> int:
        """The bits of those that the kernel is compiled for."""
        bits = (
            (self.sharing, SHARING),
            (self.donation, DONATION),
            (self.pairs, PAIRS),
            (self.truncation, TRUNCATION),
        )
        return sum(bit for is_used, bit in bits if is_used)

    @classmethod
    def flipped(cls, name: str) -> Techniques:
        """The usual ones, but one the other way round.

        Raises
        ------
        ValueError
            There is none of that name.
        """
        defaults = {field.name: field.default for field in fields(cls)}
        if name not in defaults:
            raise ValueError(f"technique is {name!r}: expected one of {', '.join(defaults)}")
        return cls(**{name: not defaults[name]})
