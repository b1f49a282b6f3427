"""The largest bicliques without near copies: large ones come in families that differ in a member or two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.top import Biclique, BicliqueIds, SideName, largest_ids, with_keys

__all__ = ["MOST", "Distinct", "affordable", "largest_distinct"]

# So many of the largest are looked through at first for each one that is wanted, then `_MORE` times as many: few are
# found in few parts of the table, and often they are enough.
_LOOKED_THROUGH, _MORE = 2, 8
# In the table of a result of so many members the largest are found at once.
_FEW_MEMBERS = 10_000_000
MOST = 20_000
"""Never more than this, or than are wanted: a family may be all of a graph."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """Some of the largest bicliques.

    Attributes
    ----------
    bicliques : list of Biclique
        Largest first.
    n_copies : int
        Near copies of these that were left out, as far as was looked.
    """

    bicliques: list[Biclique]
    n_copies: int


def largest_distinct(
    run_path: str | Path,
    limit: int,
    by: Literal["edges", "left", "right"] = "edges",
    *,
    side: SideName | None = None,
    vertex: int | None = None,
    min_left: int = 1,
    min_right: int = 1,
    most: int = MOST,
) -> Distinct:
    """The largest bicliques of a run, but those that nearly repeat a larger one.

    A near copy has at least as many left members in common with a larger one that is listed as the two have apart (a
    Jaccard of at least 0.5).

    Parameters
    ----------
    run_path, limit, by, side, vertex, min_left, min_right
        As for `pipeline.top.largest_bicliques`, and so are the errors.
    most : int
        So many of the largest are looked through: where there are fewer distinct ones among them, fewer are given.
    """
    asked: Any = {"side": side, "vertex": vertex, "min_left": min_left, "min_right": min_right}
    most = max(most, limit)
    n = min(most, _LOOKED_THROUGH * limit)
    while True:
        # By ids: most of them are not shown, and their keys would take a hundred bytes each.
        candidates = largest_ids(run_path, n, by, **asked)
        chosen, n_copies = _distinct(candidates, limit)
        if len(chosen) == limit or len(candidates) < n or n == most:
            return Distinct(with_keys(run_path, chosen), n_copies)
        n = min(most, n * _MORE)


def affordable(n_members: int, limit: int) -> int:
    """How many of the largest a page looks through that is made with every run: of a large result those of one pass.

    Parameters
    ----------
    n_members : int
        Of all bicliques of the run.
    limit : int
        How many are shown.
    """
    return MOST if n_members <= _FEW_MEMBERS else _LOOKED_THROUGH * limit


def _distinct(candidates: Iterable[BicliqueIds], limit: int) -> tuple[list[BicliqueIds], int]:
    """The first of some bicliques, the best first, each unless it nearly repeats one before it; and how many do."""
    chosen: list[BicliqueIds] = []
    # Of each left member the chosen ones that hold it.
    holders: dict[int, list[int]] = defaultdict(list)
    n_copies = 0
    for candidate in candidates:
        if len(chosen) == limit:
            break
        left = candidate.left.tolist()
        shared = Counter(place for member in left for place in holders.get(member, ()))
        if any(2 * common >= len(left) + len(chosen[place].left) - common for place, common in shared.items()):
            n_copies += 1
            continue
        for member in left:
            holders[member].append(len(chosen))
        chosen.append(candidate)
    return chosen, n_copies
