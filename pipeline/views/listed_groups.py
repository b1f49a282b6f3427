"""The groups of a published run with their members, read for people: the first of them, or all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.reading import reading

__all__ = ["group_rows", "listed_groups", "with_members"]


def listed_groups(run_path: str | Path, limit: int | None = None) -> list[dict[str, Any]]:
    """The groups of a run by rank, as rows of `groups` with the members' own keys as ``left`` and ``right``.

    Parameters
    ----------
    run_path : path
        A run directory.
    limit : int, optional
        The first so many; all by default.

    Raises
    ------
    PublishError
        The run has no groups, or their tables cannot be read.
    """
    return with_members(run_path, group_rows(run_path, limit))


def group_rows(run_path: str | Path, limit: int | None = None) -> list[dict[str, Any]]:
    """The rows of `groups`, by rank; parameters and errors are those of `listed_groups`."""
    run_path = Path(run_path)
    if not (run_path / "groups.parquet").is_file():
        raise PublishError(f"{run_path}: has no groups; expected a run that was asked for them; make them: mbe groups")
    with reading(run_path):
        return pq.read_table(run_path / "groups.parquet").slice(0, limit).to_pylist()


def with_members(run_path: str | Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of these rows, in their order, with the members' own keys as ``left`` and ``right``; of no others.

    Raises
    ------
    PublishError
        The table of members cannot be read.
    """
    listed = {row["group_key"]: {**row, "left": [], "right": []} for row in rows}
    with reading(run_path):
        wanted = pc.field("group_key").isin(pa.array(list(listed), pa.int64()))
        columns = ["group_key", "side", "key"]
        members = pq.read_table(Path(run_path) / "group_members.parquet", columns=columns, filters=wanted)
        for row in members.to_pylist():
            listed[row["group_key"]][row["side"]].append(row["key"])
    return list(listed.values())
