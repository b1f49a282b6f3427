"""Why a group is one, in a sentence."""

from __future__ import annotations

from pipeline.wording import percent_text, plural

__all__ = ["explanation"]

# Of the events: a smaller share is no reason.
_WORTH_TELLING = 0.5


def explanation(
    n_left: int,
    n_right: int,
    n_edges: int,
    expected_edges: float,
    left_edge_share: float,
    within: tuple[float, str] | None = None,
) -> str:
    """The sentence of a group.

    Parameters
    ----------
    n_left, n_right, n_edges : int
    expected_edges : float
        By the members' degrees.
    left_edge_share : float
        The group's edges, by all that its left members have.
    within : (float, str), optional
        The largest share of its events within a window, and the window's width; left out below one half.

    Examples
    --------
    >>> print(explanation(109, 23, 825, 14.3, 0.94, (0.8, "3 days")))
    109 left x 23 right members, 825 of 2,507 possible edges; by their degrees 14 would be expected; 94 % of the left \
members' edges are among them; 80 % within 3 days
    >>> print(explanation(1, 3, 3, 0.02, 1.0))
    1 left x 3 right members, all of 3 possible edges; by their degrees fewer than 0.1 would be expected; 100 % of the \
left members' edges are among them
    """
    possible = n_left * n_right
    edges = "all" if n_edges == possible else f"{n_edges:,}"
    return (
        f"{n_left:,} left x {n_right:,} right members, {edges} of {plural(possible, 'possible edge')}; "
        f"by their degrees {_number(expected_edges)} would be expected; "
        f"{percent_text(left_edge_share)} of the left members' edges are among them"
        + ("" if within is None or within[0] < _WORTH_TELLING else f"; {percent_text(within[0])} within {within[1]}")
    )


def _number(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.1 else "fewer than 0.1"
