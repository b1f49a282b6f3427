"""Why a group is one, in a sentence, with the nouns that the user's columns give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.clean.facts import InputColumn
from pipeline.terminal import shortened
from pipeline.wording import plural

__all__ = ["Names", "explanation", "names_of"]

Names = tuple[str | None, str | None]
"""What a vertex of the left and of the right side is called; None for the side's own name."""

# Characters of a name.
_LONGEST = 40
# What a plural can be made of: plain words that end in small letters.
_SINGULAR = re.compile(r"[A-Za-z0-9_ -]*[a-z]{2}")
# What ends in one of these takes another syllable.
_HISSING = ("ss", "x", "z", "ch", "sh")
_OWN = {True: "'", False: "'s"}


def names_of(columns: Sequence[InputColumn], has_buckets: bool) -> Names:
    """The names of the columns of the keys, where all of a side have one: of several each, and that of the times.

    Parameters
    ----------
    columns : sequence of InputColumn
    has_buckets : bool
        Whether times are a part of the right key.

    Examples
    --------
    >>> named = {"left": "account", "right": "item", "timestamp": "time"}
    >>> columns = [InputColumn(setting, place, name) for place, (setting, name) in enumerate(named.items())]
    >>> names_of(columns, False), names_of(columns, True)
    (('account', 'item'), ('account', 'item · time'))
    >>> names_of([InputColumn("left", 0, None), InputColumn("right", 1, "right")], False)
    (None, None)
    """
    of_right = ("right", "timestamp") if has_buckets else ("right",)
    left, right = (
        [column.name for setting in settings for column in columns if column.setting == setting]
        for settings in (("left",), of_right)
    )
    return _name(left), _name(right)


def explanation(
    n_left: int,
    n_right: int,
    n_edges: int,
    expected_edges: float,
    left_edge_share: float,
    within: tuple[float, str] | None = None,
    names: Names = (None, None),
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
        The largest share of its events within a window, and the window's width.
    names : pair of str or None
        As `names_of` gives them.

    Examples
    --------
    >>> print(explanation(109, 23, 825, 14.3, 0.94, (0.8, "3 days"), ("account", "target")))
    109 accounts x 23 targets, 825 of 2,507 possible edges; by their degrees 14 would be expected; 94 % of the \
accounts' edges are among them; 80 % within 3 days
    >>> print(explanation(1, 3, 3, 0.02, 1.0))
    1 left x 3 right members, all of 3 possible edges; by their degrees fewer than 0.1 would be expected; 100 % of the \
left members' edges are among them
    """
    possible = n_left * n_right
    edges = "all" if n_edges == possible else f"{n_edges:,}"
    left, right = _noun(names[0], n_left), _noun(names[1], n_right)
    owners = left or "left members"
    return (
        f"{n_left:,} {left or ('left members' if right else 'left')} x {n_right:,} {right or 'right members'}, "
        f"{edges} of {plural(possible, 'possible edge')}; "
        f"by their degrees {_number(expected_edges)} would be expected; "
        f"{_percent(left_edge_share)} of the {owners}{_OWN[owners.endswith('s')]} edges are among them"
        + ("" if within is None else f"; {_percent(within[0])} within {within[1]}")
    )


def _name(columns: Sequence[str | None]) -> str | None:
    named = [name for name in columns if name]
    # Columns that are called as the sides say nothing.
    if not named or len(named) < len(columns) or named in (["left"], ["right"]):
        return None
    return shortened(" · ".join(named), _LONGEST)


def _noun(name: str | None, n: int) -> str | None:
    """What `n` vertices are called; English, as far as a rule knows it, and the bare name where it does not.

    Examples
    --------
    >>> [_noun(name, 2) for name in ("account", "city", "day", "address", "user_id", "news")]
    ['accounts', 'cities', 'days', 'addresses', 'user_ids', 'news']
    >>> [_noun(name, 2) for name in ("item · rating", "u", "Konto-Nr.", "ID", None)]
    ['item · rating', 'u', 'Konto-Nr.', 'ID', None]
    """
    if name is None or n == 1 or _SINGULAR.fullmatch(name) is None:
        return name
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(_HISSING) else name if name.endswith("s") else f"{name}s"


def _number(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.1 else "fewer than 0.1"


def _percent(share: float) -> str:
    """A share that never claims 0 % or 100 % when it is not."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "under 0.1 %"
    if 99.9 < percent < 100:
        return "over 99.9 %"
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"
