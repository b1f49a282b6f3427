"""Groups that have grown from bicliques, of which edges may be missing: checked without growing them again.

`mbe_stage.groups.reference_selection` defines their score, which is their surprise, and their gain.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mbe_stage.groups.reference import UNIT, Null
from mbe_stage.groups.reference_selection import NullOfEdges
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_graphs import OneGraph
from mbe_stage.pipeline.verify.group_tables import Groups, Within, compare, refuse_first, within, without_nulls
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.scored import Scored

__all__ = ["check_grown", "read_edges"]

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


def check_grown(part: OneGraph, bicliques: Scored, found: Within, n_listed: int, *, has_gains: bool) -> None:
    """Ranks, sizes, seeds, surprise and gain of each group.

    Parameters
    ----------
    found : Within
        The edges of its groups, as `read_edges` gives them.
    n_listed : int
        The most groups that may be there.
    has_gains : bool
        Whether the graph is the only one. Groups of two graphs have no gain.

    Raises
    ------
    VerificationError
        The first thing that is not as it should be.
    """
    groups = part.groups
    config, n = part.job.manifest.config, len(groups)
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
    surprise, evidence, gains = _scores(part, found)
    _check_units(groups, "surprise", surprise, found)
    _check_units(groups, "evidence", evidence, found)
    if has_gains:
        _check_units(groups, "residual_gain", gains, found)
    elif groups.table["residual_gain"].null_count < n:
        raise VerificationError(f"{groups.path}: residual_gain of groups of two graphs; expected null")
    refuse_first(groups.path, groups.table["n_bicliques"].to_numpy() < 1, "n_bicliques is below 1")


def _check_units(groups: Groups, name: str, units: list[int], found: Within) -> None:
    column = groups.table[name]
    if column.null_count:
        raise VerificationError(f"{groups.path}, column {name!r}: holds {column.null_count} nulls; expected none")
    stated = column.to_numpy()
    # What is no number is not near either. The share of an edge that is known is rounded once, and counted often.
    is_near = np.abs(stated - np.array(units) / UNIT) * UNIT <= _UNSURE + found.n_edges
    refuse_first(groups.path, ~is_near, lambda row: f"{name} is {stated[row]}; recomputed {units[row] / UNIT}")
    refuse_first(groups.path, ~(stated > 0), f"{name} is not positive")


def _check_seeds(groups: Groups, bicliques: Scored) -> None:
    seeds = np.array(groups.column("seed_biclique_key"), np.int64)
    is_there = np.isin(seeds, bicliques.seed_keys)
    refuse_first(
        groups.path,
        ~is_there,
        "seed_biclique_key is neither the best biclique of a vertex nor among the 2,000 best of all",
    )


def _scores(part: OneGraph, found: Within) -> tuple[list[int], list[int], list[int]]:
    """Surprise, evidence and gain of each group, in units."""
    most = part.degrees[0].size, part.degrees[1].size
    null = NullOfEdges(found.left, found.right, Null(part.degrees, part.n_edges, most))
    explained: set[tuple[int, int]] = set()
    surprise, evidence, gains = list[int](), list[int](), list[int]()
    for group in zip(part.groups.members_of(0), part.groups.members_of(1), strict=True):
        surprise.append(null.score(group))
        evidence.append(surprise[-1] + null.cost_of_members(group) + null.cost_of_sizes())
        gains.append(null.gain(group, explained))
        explained |= null.present(group)
    return surprise, evidence, gains
