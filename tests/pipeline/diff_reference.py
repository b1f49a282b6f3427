"""Plain-Python comparison of two runs over all pairs: the specification of `pipeline.views.diff`."""

from __future__ import annotations

from fractions import Fraction

from tests.pipeline.diff_support import Group

__all__ = ["relation", "similarity", "statuses"]


def similarity(old: Group, new: Group) -> Fraction:
    """Return the Jaccard index of the members; a left and a right vertex always differ."""
    first, second = ({("left", v) for v in left} | {("right", v) for v in right} for left, right in (old, new))
    return Fraction(len(first & second), len(first | second))


def n_apart(old: Group, new: Group) -> int:
    """Return the number of members that only one of the two groups has."""
    return sum(len(first ^ second) for first, second in zip(old, new, strict=True))


def relation(old: Group, new: Group) -> str | None:
    meets = all(a & b for a, b in zip(old, new, strict=True))
    grown = meets and any(a <= b for a, b in zip(old, new, strict=True))
    shrunk = meets and any(a >= b for a, b in zip(old, new, strict=True))
    more = sum(map(len, new)) - sum(map(len, old))
    if grown and (not shrunk or more > 0):
        return "grown"
    if shrunk and (not grown or more < 0):
        return "shrunk"
    return "changed" if similarity(old, new) >= Fraction(1, 2) else None


def statuses(
    old: dict[int, Group], new: dict[int, Group], least: Fraction = Fraction(0)
) -> tuple[dict[int, tuple], set[int]]:
    """Return (status, partner, Jaccard) of each new key, and the keys that are gone.

    Pairs that differ by more than one member count only if their Jaccard index is at least `least`.
    """
    gone = {key: group for key, group in old.items() if key not in new}
    fresh = {key: group for key, group in new.items() if key not in old}
    pairs = [
        (-similarity(before, after), (key ^ old_key) % 2**64, key, old_key, kind)
        for key, after in fresh.items()
        for old_key, before in gone.items()
        if (kind := relation(before, after)) is not None
        and (similarity(before, after) >= least or n_apart(before, after) == 1)
    ]
    found: dict[int, tuple] = {}
    for jaccard, _, key, old_key, kind in sorted(pairs):
        if key not in found and old_key in gone:
            found[key] = kind, old_key, -jaccard
            del gone[old_key]
    return {key: found.get(key, ("new", None, None)) for key in fresh}, set(gone)
