"""How many of what a run of cliques holds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Counts"]


class Counts(BaseModel):
    """How many of what.

    Attributes
    ----------
    cliques : int
    members : int
        Summed over all cliques.
    sizes : int
        Distinct sizes.
    max_size : int
        Of the largest clique: the clique number, where the run is complete and asks for no largest size and no members.
    vertices, edges : int
        Of the graph that was searched: the input, or its projection.
    degeneracy : int
        Largest core number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cliques: int
    members: int
    sizes: int
    max_size: int
    vertices: int
    edges: int
    degeneracy: int
