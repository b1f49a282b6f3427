"""How many of what a run of (p, q)-counts holds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Counts"]


class Counts(BaseModel):
    """How many of what.

    Attributes
    ----------
    counts : int
        Rows of `pq_counts`.
    above_zero : int
        Of these.
    largest : str
        The largest count, all its digits.
    largest_p, largest_q : int
        Whose it is; of several, the smallest p, and of these the smallest q.
    most_left_degree, most_right_degree : int
        The most neighbours of a left and of a right vertex: from there on all counts are 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    counts: int
    above_zero: int
    largest: str
    largest_p: int
    largest_q: int
    most_left_degree: int
    most_right_degree: int
