"""The groups of a published run, or of one that is just written, with their members, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.backends.arrow.hashes import key_hashes
from pipeline.reading import reading

__all__ = ["GroupRows", "read_group_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """The groups of a run.

    Attributes
    ----------
    run_path : Path
    table : pa.Table
        `groups`.
    members : pa.Table
        `group_members`.
    owners : (m,) int64
        The group of each member.
    is_right : (m,) bool
    hashes : (m,) uint64
        Of the member's key.
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

    def sizes(self, side: int) -> np.ndarray:
        """Members of each on the left (0) or the right (1), ``(n,) int32``."""
        of_side = self.owners[self.is_right == bool(side)]
        return np.bincount(of_side, minlength=self.table.num_rows).astype(np.int32)

    @property
    def is_muted(self) -> np.ndarray:
        """Of each, ``(n,) bool``."""
        return self.table["is_muted"].to_numpy(zero_copy_only=False)


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
