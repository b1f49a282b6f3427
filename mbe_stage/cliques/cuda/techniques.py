"""What can be left out, to see what it is worth. The cliques are the same without."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

__all__ = ["ALL_TECHNIQUES", "DONATION", "EDGE_ROOTS", "EXCLUDED_PIVOTS", "JOINS", "PARTIAL", "SHARING", "SHRINKING"]
__all__ += ["SMALL_ENDS", "SUB_WARPS", "Techniques"]

# Bits of the constant that the kernel is compiled for, in the order of the fields.
_BITS = SHARING, DONATION, EXCLUDED_PIVOTS, JOINS, SMALL_ENDS, SUB_WARPS, SHRINKING, PARTIAL, EDGE_ROOTS = tuple(
    1 << k for k in range(9)
)


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
    sub_warps : bool
        Roots of at most six candidates and few neighbours are ended four at a time, each by eight lanes.
    shrinking : bool
        Rows of excluded vertices that are no longer adjacent to what joined are left out below a node where half are.
    partial : bool
        A root with more than `MemoryPlan.partial_ratio` times as many excluded vertices as candidates has a matrix of
        candidates alone (the partial induced subgraphs of Almasri et al., chosen for each root); its lists are looked
        through at each clique.
    edge_roots : bool
        A root with at least `MemoryPlan.edge_width` candidates is not a matrix; each of its edges is a root (RDMCE).
    """

    sharing: bool = True
    donation: bool = True
    excluded_pivots: bool = True
    joins: bool = True
    small_ends: bool = True
    sub_warps: bool = True
    shrinking: bool = True
    partial: bool = False
    edge_roots: bool = False

    @property
    def kernel_mask(self) -> int:
        """The bits of those that the kernel is compiled for."""
        return sum(bit for bit, field in zip(_BITS, fields(self), strict=True) if getattr(self, field.name))

    @classmethod
    def switched(cls, name: str) -> Techniques:
        """The usual ones but for one: without it, or with it where it is not among the usual ones.

        Raises
        ------
        ValueError
            There is none of that name.
        """
        names = [field.name for field in fields(cls)]
        if name not in names:
            raise ValueError(f"technique is {name!r}: expected one of {', '.join(names)}")
        return replace(cls(), **{name: not getattr(cls(), name)})


ALL_TECHNIQUES = Techniques().kernel_mask
"""Those that are used where nothing else is asked for."""
