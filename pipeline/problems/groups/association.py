"""Known cases in groups: their share, its p-value, and the association of other members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.groups.members import GroupMembers
from mbe_stage.pipeline.problems.both_sides import is_right_of
from mbe_stage.pipeline.problems.groups.known import Known, Labelled


@dataclass(frozen=True, slots=True, eq=False)
class KnownShares:
    """The known shares of each group.

    Attributes
    ----------
    n_known : (n,) int64
        Members that are known cases, of both sides.
    n_drawn : (n,) int64
        Counted members (`Labelled.is_drawn`).
    p_values : (n,) float64
        Probability that as many members, drawn at random from counted vertices, include at least as many known cases.
    """

    n_known: np.ndarray
    n_drawn: np.ndarray
    p_values: np.ndarray

    def columns(self) -> dict[str, pa.Array]:
        """Return columns of the table `groups`; they are null for groups without counts."""
        is_unsaid = self.n_drawn == 0
        return {
            "n_known": pa.array(self.n_known),
            "known_share": pa.array(self.n_known / np.maximum(self.n_drawn, 1), mask=is_unsaid),
            "known_p_value": pa.array(self.p_values, mask=is_unsaid),
        }


def known_shares(members: GroupMembers, labels: tuple[Labelled, Labelled]) -> KnownShares:
    """Count the known cases in each group, and compute the p-value of the count.

    The p-value is the upper tail of the hypergeometric distribution. If both sides have labels, it is the upper tail of
    the sum of two independent ones.
    """
    counts = [_counts(members, side, of_side) for side, of_side in enumerate(labels)]
    n_known, n_drawn = (sum(of_side[i] for of_side in counts) for i in (0, 1))
    sides = [
        (int(of_side.is_drawn.sum()), int(of_side.is_positive.sum()), *of_count)
        for of_side, of_count in zip(labels, counts, strict=True)
        if of_side.is_drawn.any()
    ]
    return KnownShares(np.asarray(n_known), np.asarray(n_drawn), _tails(sides, len(members)))


def associations(
    members: GroupMembers, is_muted: np.ndarray, shares: KnownShares, labels: tuple[Labelled, Labelled]
) -> pa.Array:
    """Return the association of each unlabelled vertex with known cases, left vertices first.

    It is the largest ``(k + b) / (m + 1)`` over the vertex's unmuted groups: `k` is the number of known cases among the
    `m` other counted members, and `b` the share of known cases among all counted vertices. Without a group it is `b`.

    Returns
    -------
    (n_left + n_right,) float64
        Null for labelled vertices; all null if no vertex has a label.
    """
    n_drawn, n_positive = (sum(int(getattr(of, name).sum()) for of in labels) for name in ("is_drawn", "is_positive"))
    if n_drawn == 0:
        return pa.nulls(sum(of.codes.size for of in labels), pa.float64())
    base = n_positive / n_drawn
    best = []
    for side, of_side in enumerate(labels):
        vertices, owners = members.side(side)
        is_meant = ~is_muted[owners]
        owners, vertices = owners[is_meant], vertices[is_meant]
        others = shares.n_drawn[owners] - of_side.is_drawn[vertices]
        largest = np.full(of_side.codes.size, -1.0)
        np.maximum.at(largest, vertices, (shares.n_known[owners] + base) / (others + 1))
        largest[largest < 0] = base
        best.append(largest)
    is_unknown = np.concatenate([of.is_unknown for of in labels])
    return pa.array(np.concatenate(best), mask=~is_unknown)


def labels_of(members: pa.Table, known: Known) -> pa.Array:
    """Return the column `label` of `group_members`: the class of each member, null without a label."""
    if known.labels is None:
        return pa.nulls(members.num_rows, pa.string())
    left, right = known.labels
    codes = np.concatenate([left.codes, np.where(right.is_unknown, -1, right.codes + len(left.classes))])
    codes = codes[members["vertex"].to_numpy() + is_right_of(members) * left.codes.size]
    classes = pa.concat_arrays([left.classes, right.classes]).cast(pa.string())
    return classes.take(pa.array(codes, mask=codes < 0))


def _counts(members: GroupMembers, side: int, labels: Labelled) -> tuple[np.ndarray, np.ndarray]:
    """Count each group's known cases and counted members on a side."""
    vertices, owners = members.side(side)
    known, drawn = (
        np.bincount(owners[flags[vertices]], minlength=len(members)) for flags in (labels.is_positive, labels.is_drawn)
    )
    return known, drawn


def _tails(sides: list[tuple[Any, ...]], n_groups: int) -> np.ndarray:
    """Return each group's p-value; `sides` has population, known, and group counts."""
    if not sides or not n_groups:
        return np.ones(n_groups)
    from scipy.stats import hypergeom

    if len(sides) == 1:
        ((population, positive, known, drawn),) = sides
        return hypergeom.sf(known - 1, population, positive, drawn)
    (left_all, left_positive, left_known, left_drawn), (right_all, right_positive, right_known, right_drawn) = sides
    tails = np.ones(n_groups)
    for group in range(n_groups):
        wanted = int(left_known[group] + right_known[group])
        of_left = np.arange(min(int(left_drawn[group]), left_positive) + 1)
        chances = hypergeom.pmf(of_left, left_all, left_positive, left_drawn[group])
        rest = hypergeom.sf(wanted - of_left - 1, right_all, right_positive, right_drawn[group])
        tails[group] = min(1.0, float(chances @ rest))
    return tails
