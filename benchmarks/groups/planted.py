"""Known groups hidden in a graph: some new accounts that share unpopular targets, with as much camouflage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["Planted", "plant"]


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A graph and the group that was planted in it.

    Attributes
    ----------
    graph : BipartiteCSR
    accounts, targets : (k,) int64
        Ids of the group's left and right members, ascending.
    """

    graph: BipartiteCSR
    accounts: np.ndarray
    targets: np.ndarray


def plant(host: BipartiteCSR, k: int, density: float, seed: int) -> Planted:
    """Plant a k x k group.

    k new accounts; k targets drawn from the third of the right vertices with the lowest degrees; each of the k * k
    edges with the probability `density`; and for each account as many edges again, to other targets, drawn without
    replacement in proportion to their degree in the host.

    Parameters
    ----------
    host : BipartiteCSR
        Without right vertices that have no edge.
    k : int
    density : float
    seed : int

    Returns
    -------
    Planted
        Ids of left vertices are shuffled: new accounts do not stand at the end.

    Raises
    ------
    ValueError
        The lowest third has fewer than k vertices.
    """
    dice = np.random.default_rng([seed, k, round(1000 * density)])
    degrees = host.right_degrees
    # Which of those with the same degree belong to the lowest third is drawn too.
    lowest = np.lexsort((dice.random(degrees.size), degrees))[: degrees.size // 3]
    if lowest.size < k:
        raise ValueError(f"the lowest third of {degrees.size} right vertices has {lowest.size}: expected at least {k}")
    targets = np.sort(dice.choice(lowest, k, replace=False))
    chances = degrees.astype(np.float64)
    chances[targets] = 0.0
    chances /= chances.sum()
    n_left = host.n_left + k
    place = dice.permutation(n_left)
    left, right = (side.astype(np.int64) for side in host.edges())
    lefts, rights = [left], [right]
    for account in range(host.n_left, n_left):
        own = targets[dice.random(k) < density]
        camouflage = dice.choice(degrees.size, own.size, replace=False, p=chances)
        lefts.append(np.full(2 * own.size, account))
        rights.extend((own, camouflage))
    graph = BipartiteCSR.from_edges(place[np.concatenate(lefts)], np.concatenate(rights), n_left, host.n_right)
    return Planted(graph, np.sort(place[host.n_left :]), targets)
