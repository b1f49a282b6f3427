"""The specification of halos (`halo`), in plain Python numbers and sets; it shares no code with the implementation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mbe_stage.groups.reference import Null, weights_of
from mbe_stage.groups.reference_selection import Group, units

ROUNDS = (15, 30, 60)
LEAST_DENSITY, MOST_DENSITY = 0.15, 0.95


def halo(
    null: Null, neighbours: tuple[Mapping[int, Iterable[int]], Mapping[int, Iterable[int]]], group: Group
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the vertices of a group's halo on the left and on the right, best first, with their gains in units.

    Parameters
    ----------
    neighbours : (mapping, mapping)
        The neighbours of each left and of each right vertex with edges.
    """
    near: tuple[dict[int, int], dict[int, int]] = {}, {}
    for most in ROUNDS:
        for side in (0, 1):
            own, others = ({*group[i], *near[i]} for i in (side, 1 - side))
            edges = [(vertex, other) for other in others for vertex in neighbours[1 - side].get(other, ())]
            ends = np.array(edges, np.int64).T
            weights = weights_of(null.log_expected(*(ends if side == 0 else ends[::-1]))).tolist()
            share = sum(vertex in own for vertex, _ in edges) / (len(own) * len(others))
            share = min(max(share, LEAST_DENSITY), MOST_DENSITY)
            present, missing = units(share), units(1 - share)
            members = set(group[side])
            gains = {vertex: len(others) * missing for vertex, _ in edges if vertex not in members}
            for (vertex, _), weight in zip(edges, weights, strict=True):
                if vertex in gains:
                    gains[vertex] += weight + present - missing
            best = sorted(gains, key=lambda vertex: (-gains[vertex], vertex))[:most]
            near[side].clear()
            near[side].update((vertex, gains[vertex]) for vertex in best)
    return near
