"""How many of what a run of bicliques holds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Counts"]


class Counts(BaseModel):
    """How many of what; `max_*` are the largest single biclique's figures, each by itself.

    Attributes
    ----------
    bicliques : int
    left_members, right_members : int
        Summed over all bicliques.
    sizes : int
        Distinct sizes ``(n_left, n_right)``.
    max_left, max_right, max_edges : int
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bicliques: int
    left_members: int
    right_members: int
    sizes: int
    max_left: int
    max_right: int
    max_edges: int
