"""Random copies of edges that keep every degree; groups found in such a copy are due to chance."""

from __future__ import annotations

import numpy as np

ROUNDS = 30
"""Each edge tries to exchange its left end in half of the rounds, on average."""


def rewired(left: np.ndarray, right: np.ndarray, n_right: int, seed: int) -> tuple[np.ndarray, float, float]:
    """Exchange left ends between edges at random; each vertex keeps its degree.

    In each round, edges are paired at random, and half of the pairs try to exchange. A pair does not exchange if one of
    its new edges exists already or is proposed twice. Steps are as likely backward as forward, so in the end all
    arrangements are equally likely (as in Allendorf et al. 2022).

    Parameters
    ----------
    left, right : (n,) int32
        Ends of each edge; the edges are distinct.

    Returns
    -------
    left : (n,) int32
    swaps : float
        Number of exchanges per edge.
    acceptance : float
        Share of successful tries.

    Examples
    --------
    >>> left, swaps, _ = rewired(np.arange(50, dtype=np.int32), np.arange(50), 50, seed=1)
    >>> sorted(left.tolist()) == list(range(50)), swaps > 1
    (True, True)
    """
    dice = np.random.default_rng(seed)
    ends, right = left.astype(np.int64), right.astype(np.int64)
    n_tried = n_accepted = 0
    for _ in range(ROUNDS):
        order = dice.permutation(ends.size)
        one, other = order[: 2 * (ends.size // 2)].reshape(2, -1)
        tries = dice.random(one.size) < 0.5
        one, other = one[tries], other[tries]
        proposed = np.concatenate([ends[other] * n_right + right[one], ends[one] * n_right + right[other]])
        pairs = np.concatenate([ends * n_right + right, proposed])
        _, which, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        alone = counts[which] == 1
        new = alone[ends.size :]
        accepted = alone[one] & alone[other] & new[: one.size] & new[one.size :]
        n_tried, n_accepted = n_tried + one.size, n_accepted + int(accepted.sum())
        one, other = one[accepted], other[accepted]
        ends[one], ends[other] = ends[other], ends[one]
    return ends.astype(left.dtype), n_accepted / max(1, ends.size), n_accepted / max(1, n_tried)
