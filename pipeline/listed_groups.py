"""The groups of a published run with their members, read for people: the first of them, or all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PublishError
from pipeline.reading import reading

__all__ = ["listed_groups"]


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
    run_path = Path(run_path)
    if not (run_path / "groups.parquet").is_file():
        raise PublishError(f"{run_path}: has no groups; expected a run that was asked for them; make them: mbe groups")
    with reading(run_path):
        groups = pq.read_table(run_path / "groups.parquet").slice(0, limit)
        wanted = pc.field("group_key").isin(groups["group_key"].combine_chunks())
        columns = ["group_key", "side", "key"]
        members = pq.read_table(run_path / "group_members.parquet", columns=columns, filters=wanted)
        listed = {row["group_key"]: {**row, "left": [], "right": []} for row in groups.to_pylist()}
        for row in members.to_pylist():
            listed[row["group_key"]][row["side"]].append(row["key"])
    return list(listed.values())
