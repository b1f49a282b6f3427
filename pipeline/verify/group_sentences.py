"""The sentence of each group, put together anew from its figures and from what the columns of the keys are called.

A vertex is called as the column of its side, or the columns that its key is made of, and is "left" or "right" where
they have no names, or just these. Of several vertices the name is a plural, where it has only ASCII letters, digits,
spaces, ``_`` and ``-``, and two small letters at its end: "-y" behind a consonant becomes "-ies", "-ss", "-x", "-z",
"-ch" and "-sh" take "es", another "-s" stays, and all others take "s".
"""

from __future__ import annotations

import string

from pipeline.manifest import Manifest
from pipeline.terminal import shortened
from pipeline.verify.group_tables import Groups

__all__ = ["Called", "called", "sentence"]

Called = tuple[str, str]
"""What one left and one right vertex is called; empty where nothing tells."""

_IN_WORDS = {"1h": "1 hour", "1d": "1 day", "3d": "3 days", "7d": "7 days"}
_PLAIN = frozenset(string.ascii_letters + string.digits + " _-")
_SMALL = frozenset(string.ascii_lowercase)
_CHARACTERS = 40


def called(manifest: Manifest) -> Called:
    """The names of both sides, by the columns that the run was made of."""
    names = []
    for of_side in (("left",), ("right", "timestamp") if manifest.config.input.time_bucket is not None else ("right",)):
        parts = [
            column.name or "" for setting in of_side for column in manifest.input.columns if column.setting == setting
        ]
        is_told = all(parts) and parts not in (["left"], ["right"])
        names.append(shortened(" · ".join(parts), _CHARACTERS) if is_told else "")
    return names[0], names[1]


def sentence(groups: Groups, row: int, n_edges: int, by_chance: float, share: float, names: Called) -> str:
    """Of one group.

    Parameters
    ----------
    groups : Groups
    row : int
    n_edges : int
        That it has.
    by_chance : float
        Edges that the degrees of its members make likely.
    share : float
        Its edges, by all that its left members have.
    names : pair of str
    """
    n_left, n_right = (groups.table[name][row].as_py() for name in ("n_left", "n_right"))
    possible = n_left * n_right
    within = "all" if n_edges == possible else format(n_edges, ",")
    edges = "edge" if possible == 1 else "edges"
    chance = "fewer than 0.1" if by_chance < 0.1 else format(by_chance, ",.0f" if by_chance >= 10 else ".1f")
    left, right = (_of_several(name) if n > 1 else name for name, n in zip(names, (n_left, n_right), strict=True))
    owner = left or "left members"
    own = owner + ("'" if owner[-1] == "s" else "'s")
    if not left:
        left = "left members" if right else "left"
    return (
        f"{n_left:,} {left} x {n_right:,} {right or 'right members'}, {within} of {possible:,} possible {edges}; by "
        f"their degrees {chance} would be expected; {_hundredths(100 * share)} of the {own} edges are among them"
    ) + _in_time(groups, row)


def _of_several(name: str) -> str:
    if not set(name) <= _PLAIN or len(name) < 2 or not set(name[-2:]) <= _SMALL:
        return name
    if name[-1] == "y" and name[-2] not in set("aeiou"):
        return name[:-1] + "ies"
    if name[-1] in "xz" or name[-2:] in ("ss", "ch", "sh"):
        return name + "es"
    return name if name[-1] == "s" else name + "s"


def _in_time(groups: Groups, row: int) -> str:
    share, window = (groups.table[name][row].as_py() for name in ("busiest_share", "busiest_window"))
    return "" if share is None else f"; {_hundredths(100 * share)} within {_IN_WORDS[window]}"


def _hundredths(percent: float) -> str:
    if 99.9 < percent < 100:
        return "over 99.9 %"
    return "under 0.1 %" if percent < 0.1 else format(percent, ".1f" if percent < 10 else ".0f") + " %"
