"""Changes between the groups of two runs: new, grown, shrunk, changed, the same, or gone.

The rules are those of `pipeline.views.diff`: members are compared by the users' keys, left and right alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.views.diff.kernels import CHANGED, GROWN, SHRUNK
from mbe_stage.pipeline.views.diff.partners import Pairs, no_pairs, pair_up
from mbe_stage.pipeline.views.diff.rows import Rows, Side
from mbe_stage.pipeline.views.diff.vertices import SharedVertices

_WORDS = {0: "new", GROWN: "grown", SHRUNK: "shrunk", CHANGED: "changed"}
_NO_VERTICES = np.empty(0, np.int32)


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

    run_path: Path
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
    gone : (m,) int64
        Positions of the groups of the old run with no partner.
    is_complete : bool
        Whether all pairs were compared.
    """

    words: list[str]
    gone: np.ndarray
    is_complete: bool


def read_group_rows(run_path: Path) -> GroupRows:
    """Read the groups of a run.

    Raises
    ------
    PublishError
        The tables are damaged.
    """
    with reading(run_path):
        table, members = (pq.read_table(run_path / f"{name}.parquet") for name in ("groups", "group_members"))
    is_right = pc.equal(members["side"].cast(pa.string()), "right").to_numpy(zero_copy_only=False)
    hashes = np.empty(is_right.size, np.uint64)
    for side, name in ((False, "left"), (True, "right")):
        hashes[is_right == side] = key_hashes(members["key"].filter(pa.array(is_right == side)), name)
    owners = pc.index_in(members["group_key"], table["group_key"].combine_chunks()).to_numpy().astype(np.int64)
    return GroupRows(run_path, table, members, owners, is_right, hashes)


def since_last(
    old: GroupRows, new: GroupRows, search_limit: int, threads: int, on_compile: Callable[[], object]
) -> Since:
    """Pair the groups of two runs, as `pipeline.views.diff` does.

    Parameters
    ----------
    search_limit : int
        Bound on the search, as for `pipeline.views.diff.partners.pair_up`.
    threads : int
        0 uses every core available to this process.
    on_compile : callable
        Called before compiled code is needed.
    """
    only_old = np.flatnonzero(~np.isin(old.keys, new.keys))
    only_new = np.flatnonzero(~np.isin(new.keys, old.keys))
    pairs = no_pairs(only_new.size, only_old.size)
    if only_old.size and only_new.size:
        on_compile()
        pairs = _paired((old, only_old), (new, only_new), search_limit, threads)
    words = ["same"] * new.keys.size
    for row, kind in zip(only_new.tolist(), pairs.kind.tolist(), strict=True):
        words[row] = _WORDS[kind]
    return Since(words, only_old[pairs.partner_of_gone < 0], pairs.searched_from == 0)


def _paired(
    of_old: tuple[GroupRows, np.ndarray], of_new: tuple[GroupRows, np.ndarray], search_limit: int, threads: int
) -> Pairs:
    sides = [
        np.intersect1d(of_old[0].hashes[of_old[0].is_right == side], of_new[0].hashes[of_new[0].is_right == side])
        for side in (False, True)
    ]
    n_left, n = sides[0].size, sides[0].size + sides[1].size
    # The members are already numbered in common, so no vertices are looked up.
    none = (_NO_VERTICES, _NO_VERTICES)
    shared = SharedVertices(n_left, n, np.concatenate(sides), none, none)
    with tempfile.TemporaryDirectory(prefix="mbe-groups-") as directory:
        scratch = Path(directory)
        with as_publish_errors(scratch, "the runs are unchanged"):
            rows = [
                _rows(groups, chosen, sides, scratch / f"side-{at}")
                for at, (groups, chosen) in enumerate((of_old, of_new))
            ]
            return pair_up(rows, shared, scratch, search_limit, threads or Execution().worker_count)


def _rows(groups: GroupRows, chosen: np.ndarray, sides: list[np.ndarray], path: Path) -> Rows:
    """Return some groups with the members that both runs have, in common numbers, left ones first."""
    position = np.full(groups.keys.size, -1, np.int64)
    position[chosen] = np.arange(chosen.size)
    owners = position[groups.owners]
    numbers = np.full(owners.size, -1, np.int64)
    for side, hashes in enumerate(sides):
        of_side = np.flatnonzero(groups.is_right == bool(side))
        places = np.searchsorted(hashes, groups.hashes[of_side])
        is_shared = np.append(hashes, 0)[places] == groups.hashes[of_side]
        is_shared &= places < hashes.size
        numbers[of_side[is_shared]] = places[is_shared] + side * sides[0].size
    kept = (owners >= 0) & (numbers >= 0)
    owners, numbers, is_right, hashes = owners[kept], numbers[kept], groups.is_right[kept], groups.hashes[kept]
    order = np.lexsort((is_right, owners))
    numbers[order].astype(np.int32).tofile(path)
    sums = np.zeros(chosen.size, np.uint64)
    np.add.at(sums, owners, hashes)
    left, right = (np.bincount(owners[part], minlength=chosen.size).astype(np.int32) for part in (~is_right, is_right))
    n_left, n_right = (groups.table[f"n_{name}"].to_numpy()[chosen] for name in ("left", "right"))
    side_of_run = Side(groups.run_path, groups.keys[chosen], n_left, n_right)
    return Rows(side_of_run, np.arange(chosen.size, dtype=np.int32), left, right, sums, path)
