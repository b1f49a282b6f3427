"""Two runs compared in plain Python sets, every pair looked at: what `pipeline.views.diff` must equal."""

from __future__ import annotations

from fractions import Fraction

from tests.pipeline.diff_support import Group

__all__ = ["relation", "similarity", "statuses"]


def similarity(old: Group, new: Group) -> Fraction:
    """Jaccard of the two sets of members, a vertex of either side being one of its own."""
    first, second = ({("left", v) for v in left} | {("right", v) for v in right} for left, right in (old, new))
    return Fraction(len(first & second), len(first | second))


def n_apart(old: Group, new: Group) -> int:
    """Members that only one of the two has."""
    return sum(len(first ^ second) for first, second in zip(old, new, strict=True))


def relation(old: Group, new: Group) -> str | None:
    """What the new group is to the old one."""
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
    """Of each new key its status, partner and Jaccard, and the keys that are gone.

    Pairs that differ by more than one member count only with a Jaccard of at least `least`.
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
