"""Changes between the groups of two runs: new, grown, shrunk, changed, the same, or gone.

Groups are compared by the users' keys of their left members, regardless of their right keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.problems.both_sides import is_right_of
from mbe_stage.pipeline.problems.groups.overlaps import Held, overlaps
from mbe_stage.pipeline.problems.groups.schemas import GROUPS, group_members
from mbe_stage.pipeline.publish.reading import reading, refuse_nulls


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """The groups of a run.

    Attributes
    ----------
    table : pa.Table
        `groups`.
    members : pa.Table
        `group_members`.
    owners : (m,) int64
        The group of each member.
    is_right : (m,) bool
    hashes : (m,) uint64
        Hash of the member's key.
    """

    table: pa.Table
    members: pa.Table
    owners: np.ndarray
    is_right: np.ndarray
    hashes: np.ndarray

    @property
    def keys(self) -> np.ndarray:
        """`group_key` of each, ``(n,) int64``."""
        return self.table["group_key"].to_numpy()

    @property
    def n_left(self) -> np.ndarray:
        """Left members of each, ``(n,) int64``."""
        return self.table["n_left"].to_numpy().astype(np.int64)

    @property
    def n_edges(self) -> np.ndarray:
        """Edges of each, ``(n,) int64``."""
        return self.table["n_edges"].to_numpy()

    @property
    def is_muted(self) -> np.ndarray:
        """The muted groups, ``(n,) bool``."""
        return self.table["is_muted"].to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """The changes of groups since the run before.

    Attributes
    ----------
    words : list of str
        One per group of the new run: ``new``, ``grown``, ``shrunk``, ``changed``, ``same``.
    partners : (n,) int64
        Positions of their partners in the old run, -1 for none.
    gone : (m,) int64
        Positions of the groups of the old run that can be partner of none of the new run.
    """

    words: list[str]
    partners: np.ndarray
    gone: np.ndarray


def read_group_rows(run_path: Path) -> GroupRows:
    """Read the groups of a run; damaged tables raise a `PublishError`."""
    with reading(run_path):
        table, members = (pq.read_table(run_path / f"{name}.parquet") for name in ("groups", "group_members"))
        refuse_nulls(table, GROUPS)
        refuse_nulls(members, group_members(pa.string()))
    is_right = is_right_of(members)
    hashes = np.empty(is_right.size, np.uint64)
    for side, name in ((False, "left"), (True, "right")):
        hashes[is_right == side] = key_hashes(members["key"].filter(pa.array(is_right == side)), name)
    owners = pc.index_in(members["group_key"], table["group_key"].combine_chunks()).to_numpy().astype(np.int64)
    return GroupRows(table, members, owners, is_right, hashes)


def since_last(old: GroupRows, new: GroupRows) -> Since:
    """Compare the groups of two runs by their left members.

    The partner of a group is the old group with the highest Jaccard similarity of left members, and of several the
    first. It is at least one half, or one quarter if no left member of the old group is missing. Right members may be
    other ones: keys with a time bucket are new in every run. Several groups may have one partner.
    """
    rows, partners, n_common = _similar(new, old)
    sizes, sizes_before = new.n_left[rows], old.n_left[partners]
    order = np.lexsort((partners, -n_common / (sizes + sizes_before - n_common), rows))
    has_partner, first = np.unique(rows[order], return_index=True)
    best = order[first]
    grown = (n_common == sizes_before) & (n_common < sizes)
    shrunk = (n_common == sizes) & (n_common < sizes_before)
    more = new.n_edges[rows] - old.n_edges[partners]
    is_equal = (n_common == sizes) & (n_common == sizes_before)
    kinds = np.select(
        [grown | (is_equal & (more > 0)), shrunk | (is_equal & (more < 0))], ["grown", "shrunk"], "changed"
    )
    words = np.full(new.keys.size, "new", dtype=object)
    words[has_partner] = kinds[best]
    words[np.isin(new.keys, old.keys)] = "same"
    best_partners = np.full(new.keys.size, -1)
    best_partners[has_partner] = partners[best]
    return Since(words.tolist(), best_partners, np.setdiff1d(np.arange(old.keys.size), partners))


def _similar(new: GroupRows, old: GroupRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs of groups that can be partners, and the number of their common left members."""
    lefts = (Held(of.keys.size, of.owners[~of.is_right], of.hashes[~of.is_right]) for of in (new, old))
    found = [np.empty((0, 3), np.int64)]
    for rows, partners, common in overlaps(*lefts):
        sizes, sizes_before = new.n_left[rows], old.n_left[partners]
        # common / (both - common) >= 1 / 2
        near = 3 * common >= sizes + sizes_before
        near |= (common == sizes_before) & (4 * common >= sizes)
        found.append(np.column_stack([rows, partners, common])[near])
    rows, partners, n_common = np.concatenate(found).T
    return rows, partners, n_common
