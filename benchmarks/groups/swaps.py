"""Random graphs with the same degrees: any groups found there are due to chance."""

from __future__ import annotations

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["by_configuration", "half_graph", "swapped", "threshold_graph"]


def half_graph(n: int) -> BipartiteCSR:
    """Return `n` vertices per side, `i` and `j` adjacent if ``i + j < n``: its degrees determine it."""
    i, j = np.indices((n, n))
    return BipartiteCSR.from_edges(*np.nonzero(i + j < n))


def threshold_graph(n_left: int, n_right: int, seed: int) -> BipartiteCSR:
    """Return random weights, with an edge if those of both ends pass a limit together: the degrees determine it."""
    dice = np.random.default_rng(seed)
    limit = dice.uniform(0.6, 1.4)
    return BipartiteCSR.from_edges(
        *np.nonzero(dice.random(n_left)[:, None] + dice.random(n_right) > limit), n_left, n_right
    )


def by_configuration(n_of_one: int, n_of_two: int, seed: int) -> BipartiteCSR:
    """Return a random graph with this many vertices of degree 1 and of degree 2 per side; double edges count once."""
    ends = np.repeat(np.arange(n_of_one + n_of_two), np.repeat([1, 2], [n_of_one, n_of_two]))
    return BipartiteCSR.from_edges(ends, np.random.default_rng(seed).permutation(ends))


def swapped(graph: BipartiteCSR, seed: int, rounds: int = 60) -> BipartiteCSR:
    """Return a copy in which pairs of edges have swapped their right ends many times.

    In each round the edges are paired at random, and half of the pairs, drawn at random, try to exchange. A pair does
    not where one of its four edges, old or new, is also another's: present, or proposed. That condition is the same
    seen from the other end of the step, so that steps are as likely backward as forward, and every graph with these
    degrees is in the end as likely as any other (as in the edge switching of Allendorf et al. 2022, whose pairs
    exchange one after another). Were all pairs to try, those of a small graph could be in each other's way for ever.

    Parameters
    ----------
    graph : BipartiteCSR
    seed : int
    rounds : int
        Each edge tries in every second one.

    Returns
    -------
    BipartiteCSR
        The same number of vertices, the same degree of each.
    """
    dice = np.random.default_rng(seed)
    left, right = (side.astype(np.int64) for side in graph.edges())
    for _ in range(rounds):
        order = dice.permutation(left.size)
        one, other = order[: 2 * (left.size // 2)].reshape(2, -1)
        tries = dice.random(one.size) < 0.5
        one, other = one[tries], other[tries]
        present = left * graph.n_right + right
        proposed = np.concatenate([left[one] * graph.n_right + right[other], left[other] * graph.n_right + right[one]])
        _, which, counts = np.unique(np.concatenate([present, proposed]), return_inverse=True, return_counts=True)
        alone = counts[which] == 1
        new = alone[left.size :]
        accepted = alone[one] & alone[other] & new[: one.size] & new[one.size :]
        one, other = one[accepted], other[accepted]
        right[one], right[other] = right[other], right[one]
    return BipartiteCSR.from_edges(left, right, graph.n_left, graph.n_right)
