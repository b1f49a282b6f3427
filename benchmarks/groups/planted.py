"""Known groups hidden in a graph: accounts that share targets and have other activity too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from benchmarks.groups.labelled import Events
from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["STYLES", "Planted", "Style", "plant", "rows_with_ring"]

Style = Literal["new accounts", "hijacked accounts", "popular targets"]
STYLES: tuple[Style, ...] = get_args(Style)


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A graph and its planted group.

    Attributes
    ----------
    graph : BipartiteCSR
    accounts, targets : (k,) int64
        Ids of the group's left and right members; targets ascend.
    """

    graph: BipartiteCSR
    accounts: np.ndarray
    targets: np.ndarray


def plant(host: BipartiteCSR, k: int, density: float | np.ndarray, seed: int, style: Style = "new accounts") -> Planted:
    """Plant a k x k group.

    Targets are drawn from the third of the right vertices with the lowest degrees; `popular targets` from that with the
    highest. Each of the k * k edges is there with its density. Accounts are new, with as many edges again to other
    targets, drawn without replacement in proportion to their degree in the host. `hijacked accounts` are left vertices
    of the host drawn at random, and what they did before is their camouflage.

    Parameters
    ----------
    host : BipartiteCSR
        Without right vertices that have no edge.
    k : int
    density : float or (k, k) float64
        Of each account with each target.
    seed : int
    style : str

    Returns
    -------
    Planted
        Ids of left vertices are shuffled: new accounts do not stand at the end.

    Raises
    ------
    ValueError
        The third has fewer than k vertices.
    """
    dice = np.random.default_rng([seed, k, round(1000 * float(np.mean(density)))])
    degrees = host.right_degrees
    which = "highest" if style == "popular targets" else "lowest"
    # Ties in degree at the limit of the third are drawn too.
    order = np.lexsort((dice.random(degrees.size), degrees))
    third = order[: degrees.size // 3] if which == "lowest" else order[degrees.size - degrees.size // 3 :]
    if third.size < k:
        raise ValueError(f"the {which} third of {degrees.size} right vertices has {third.size}: expected at least {k}")
    targets = np.sort(dice.choice(third, k, replace=False))
    chances = degrees.astype(np.float64)
    chances[targets] = 0.0
    chances /= chances.sum()
    is_new = style != "hijacked accounts"
    n_left = host.n_left + k * is_new
    place = dice.permutation(n_left)
    accounts = np.arange(host.n_left, n_left)
    if not is_new:
        accounts = dice.choice(np.flatnonzero(host.left_degrees), k, replace=False)
    left, right = (side.astype(np.int64) for side in host.edges())
    lefts, rights = [left], [right]
    for account, chance in zip(accounts, np.broadcast_to(density, (k, k)), strict=True):
        own = targets[dice.random(k) < chance]
        camouflage = dice.choice(degrees.size, own.size if is_new else 0, replace=False, p=chances)
        lefts.append(np.full(own.size + camouflage.size, account))
        rights.extend((own, camouflage))
    graph = BipartiteCSR.from_edges(place[np.concatenate(lefts)], np.concatenate(rights), n_left, host.n_right)
    return Planted(graph, place[accounts], targets)


def rows_with_ring(
    events: Events, shape: tuple[int, int], density: float, days: int, seed: int
) -> tuple[pa.Table, np.ndarray]:
    """Return rows with a ring of new accounts that share unpopular items within some days, and the accounts.

    The days are drawn among those of the rows. Each account has as many other rows, copies of rows of others. Weights
    are drawn from the rows.

    Parameters
    ----------
    events : Events
        With weights and times.
    shape : (int, int)
        Accounts and items.
    """
    assert events.times is not None
    assert events.weights is not None
    dice = np.random.default_rng(seed)
    degrees = np.bincount(events.right)
    items = dice.choice(np.argsort(degrees, kind="stable")[: degrees.size // 3], shape[1], replace=False)
    account, item = np.nonzero(dice.random(shape) < density)
    begin, others = dice.choice(events.times), dice.integers(events.left.size, size=account.size)
    new = events.labels.size + account
    inside = begin + dice.integers(days * events.day, size=new.size)
    seconds = np.concatenate([events.times, inside, events.times[others]]) * (86_400 // events.day)
    table = pa.table(
        {
            "account": np.concatenate([events.left, new, new]),
            "item": np.concatenate([events.right, items[item], events.right[others]]),
            "stars": np.concatenate([events.weights, dice.choice(events.weights, new.size), events.weights[others]]),
            "time": pa.array(seconds, pa.timestamp("s")),
        }
    )
    return table, events.labels.size + np.arange(shape[0])
