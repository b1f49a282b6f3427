"""Groups that have grown from bicliques, of which edges may be missing: what can be said of them without growing anew.

Of the ``a b`` edges that a group could have `e` are present, ``q = e / (a b)``. It scores

    sum over present edges of w + e ln q + (a b - e) ln(1 - q) - ln C(n_L, a) - ln C(n_R, b) - ln n_L - ln n_R

with ``w = ln E - ln d_u - ln d_v``, at least 0.01; that is its surprise. It adds to the groups before it, its gain, the
same less ``w + ln q`` of each edge that one of them has; where no edge is missing the last two terms are left out of
that. Every logarithm and the density's two terms together are rounded, half to even, to a multiple of 2^-24 nat.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_tables import Groups, Within, compare, refuse_first, within, without_nulls
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.surprise import UNIT, Found, Null

__all__ = ["check_grown", "read_edges"]

_LEAST_WORTH = round(0.01 * UNIT)
# Units by which a sum of rounded logarithms may differ where another machine rounds one of them otherwise.
_UNSURE = 8


def read_edges(job: Job, groups: Groups) -> Within:
    """`group_edges`: in order, between members, and, where the input is given, just the edges that there are.

    Raises
    ------
    VerificationError
        They are not.
    """
    path = job.run / "group_edges.parquet"
    table = without_nulls(path)
    keys, left, right = (table[name].to_numpy().astype(np.int64) for name in ("group_key", "left", "right"))
    position = {key: row for row, key in enumerate(groups.column("group_key"))}
    of_row = np.array([position.get(key, -1) for key in keys.tolist()], np.int64)
    refuse_first(path, of_row < 0, "its group_key is no group")
    for side, vertices in enumerate((left, right)):
        places = (2 * of_row + side) << 32 | vertices
        at = np.minimum(np.searchsorted(groups.places, places), groups.places.size - 1)
        refuse_first(path, groups.places[at] != places, f"the {('left', 'right')[side]} vertex is no member")
    steps = np.diff(of_row << 32 | left)
    ascends = (steps > 0) | ((steps == 0) & (np.diff(right) > 0))
    refuse_first(path, np.concatenate([[False], ~ascends]), "out of order; expected rows by rank, left and right")
    found = within(groups, (job.manifest.input.n_left, job.manifest.input.n_right), of_row, left, right)
    if job.edges is None:
        job.not_checked("edges of groups: the input is not given")
    else:
        _check_against_input(job.edges, groups, found)
    return found


def _check_against_input(edges: EdgeData, groups: Groups, found: Within) -> None:
    n_right = len(edges.right_keys)
    codes = edges.left_ids.astype(np.int64) * n_right + edges.right_ids
    stated = found.left * n_right + found.right
    at = np.minimum(np.searchsorted(codes, stated), codes.size - 1)
    path = groups.path.with_name("group_edges.parquet")
    refuse_first(path, codes[at] != stated, "is no edge of the input")
    graph = sparse.csr_matrix(
        (np.ones(codes.size, np.int64), (edges.left_ids, edges.right_ids)), shape=(len(edges.left_keys), n_right)
    )
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    for row in range(len(groups)):
        is_member = np.zeros(n_right, np.int64)
        is_member[right[right_offsets[row] : right_offsets[row + 1]]] = 1
        n_edges = int((graph[left[left_offsets[row] : left_offsets[row + 1]]] @ is_member).sum())
        if n_edges != found.n_edges[row]:
            raise groups.refuse(row, f"has {found.n_edges[row]} edges in {path}; the input has {n_edges}")


def check_grown(
    job: Job,
    groups: Groups,
    bicliques: Found,
    found: Within,
    degrees: tuple[np.ndarray, np.ndarray],
    n_listed: int,
    *,
    n_edges: int | None = None,
) -> None:
    """Ranks, sizes, seeds, surprise and gain of each group.

    Parameters
    ----------
    bicliques : Found
        What all bicliques come down to.
    found : Within
        As `read_edges` gives it.
    degrees : pair of (n,) int64
    n_listed : int
        How many groups may be there at most.
    n_edges : int, optional
        Of the graph, where it is one of two: then no group has a gain.

    Raises
    ------
    VerificationError
        The first thing that is not as it should be.
    """
    config, n = job.manifest.config, len(groups)
    limit = config.section("groups").limit
    if n > n_listed:
        raise groups.refuse(n_listed, f"one group too many; groups.limit is {limit}")
    compare(groups.path, "rank", groups.column("rank"), np.arange(1, n + 1))
    compare(groups.path, "kind", groups.column("kind"), ["grown_cover"] * n)
    for name, least in (("n_left", config.query.min_left), ("n_right", config.query.min_right)):
        sizes = groups.table[name].to_numpy()
        refuse_first(groups.path, sizes < least, f"{name} is below {least}, which the query asks for")
    if bicliques.is_whole:
        _check_seeds(groups, bicliques)
    of_graph = job.manifest.input.n_edges if n_edges is None else n_edges
    surprise, evidence, gains = _scores(of_graph, groups, found, degrees)
    _check_units(groups, "surprise", surprise, found)
    _check_units(groups, "evidence", evidence, found)
    if n_edges is None:
        _check_units(groups, "residual_gain", gains, found)
    elif groups.table["residual_gain"].null_count < n:
        raise VerificationError(f"{groups.path}: residual_gain of groups of two graphs; expected null")
    refuse_first(groups.path, groups.table["n_bicliques"].to_numpy() < 1, "n_bicliques is below 1")


def _check_units(groups: Groups, name: str, units: np.ndarray, found: Within) -> None:
    column = groups.table[name]
    if column.null_count:
        raise VerificationError(f"{groups.path}, column {name!r}: holds {column.null_count} nulls; expected none")
    stated = column.to_numpy()
    # What is no number is not near either. The share of an edge that is known is rounded once, and counted often.
    is_near = np.abs(stated - units / UNIT) * UNIT <= _UNSURE + found.n_edges
    refuse_first(groups.path, ~is_near, lambda row: f"{name} is {stated[row]}; recomputed {units[row] / UNIT}")
    refuse_first(groups.path, ~(stated > 0), f"{name} is not positive")


def _check_seeds(groups: Groups, bicliques: Found) -> None:
    seeds = np.array(groups.column("seed_biclique_key"), np.int64)
    is_there = np.isin(seeds, bicliques.seed_keys)
    refuse_first(
        groups.path,
        ~is_there,
        "seed_biclique_key is neither the best biclique of a vertex nor among the 2,000 best of all",
    )


def _scores(
    n_edges: int, groups: Groups, found: Within, degrees: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Surprise, evidence and gain of each group, in units."""
    null = Null(degrees, n_edges, (degrees[0].size, degrees[1].size))
    worth = np.maximum(null.log_edges - null.logs[0][found.left] - null.logs[1][found.right], _LEAST_WORTH)
    sizes = np.diff(groups.side(0)[0]), np.diff(groups.side(1)[0])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(found.n_edges)])
    pairs = found.left << 32 | found.right
    explained = np.empty(0, np.int64)
    surprise, evidence, gains = (np.zeros(len(groups), np.int64) for _ in range(3))
    for row in range(len(groups)):
        own = slice(int(offsets[row]), int(offsets[row + 1]))
        n_left, n_right = int(sizes[0][row]), int(sizes[1][row])
        n_cells, n_present = n_left * n_right, own.stop - own.start
        density = _density(n_present, n_cells)
        base = density - int(null.costs[0][n_left]) - int(null.costs[1][n_right])
        of_sizes = int(null.costs[0][1]) + int(null.costs[1][1])
        surprise[row] = int(worth[own].sum()) + base - of_sizes
        evidence[row] = int(worth[own].sum()) + density
        is_known = np.isin(pairs[own], explained)
        is_complete = n_present == n_cells
        log_share = 0 if is_complete else round(math.log(n_present / n_cells) * UNIT)
        gains[row] = int(worth[own][~is_known].sum()) + base - int(is_known.sum()) * log_share
        gains[row] -= 0 if is_complete else of_sizes
        explained = np.union1d(explained, pairs[own])
    return surprise, evidence, gains


def _density(n_present: int, n_cells: int) -> int:
    n_missing = n_cells - n_present
    if n_missing == 0:
        return 0
    terms = n_present * math.log(n_present / n_cells) + n_missing * math.log(n_missing / n_cells)
    return round(terms * UNIT)
