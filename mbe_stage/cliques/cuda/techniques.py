"""What can be left out, to see what it is worth. The cliques are the same without."""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["ALL_TECHNIQUES", "DONATION", "EXCLUDED_PIVOTS", "JOINS", "SHARING", "SMALL_ENDS", "Techniques"]

# Bits of the constant that the kernel is compiled for.
SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS = (1 << k for k in range(5))
ALL_TECHNIQUES = (1 << 5) - 1


@dataclass(frozen=True, slots=True)
class Techniques:
    """What the CUDA engine makes use of.

    Attributes
    ----------
    sharing : bool
        Children of a node that does not fit a frame are taken by any warp (second-level subtrees of Almasri et al.,
        at every level). Without it a warp works alone on what is below its root.
    donation : bool
        A warp gives away the shallowest level of its stack where others are idle (their worker list).
    excluded_pivots : bool
        Excluded vertices may be pivots, as in Tomita, Tanaka and Takahashi, TCS 363, 2006; without it candidates alone.
    joins : bool
        What is adjacent to all other candidates joins at once.
    small_ends : bool
        Nodes of at most six candidates are ended at once, the sets of candidates as bits of a word.
    """

    sharing: bool = True
    donation: bool = True
    excluded_pivots: bool = True
    joins: bool = True
    small_ends: bool = True

    @property
    def kernel_mask(self) -> int:
        """The bits of those that the kernel is compiled for."""
        bits = (SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS)
        return sum(bit for bit, field in zip(bits, fields(self), strict=True) if getattr(self, field.name))

    @classmethod
    def without(cls, name: str) -> Techniques:
        """All but one.

        Raises
        ------
        ValueError
            There is none of that name.
        """
        names = [field.name for field in fields(cls)]
        if name not in names:
            raise ValueError(f"technique is {name!r}: expected one of {', '.join(names)}")
        return cls(**{name: False})
