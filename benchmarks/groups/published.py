"""The groups that a run publishes for rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline import Config, run

__all__ = ["config_of", "groups_in", "published_groups"]


def config_of(directory: str, **sections: Mapping[str, Any]) -> Config:
    """Return the configuration of a one-thread run that writes groups only, without random copies."""
    given: dict[str, dict[str, Any]] = {
        "input": {"left": "account", "right": "item"},
        "execution": {"engine": "cpu", "threads": 1},
        "output": {"directory": directory, "bicliques": False, "report": False},
        "groups": {"chance_copies": 0},
    }
    names = {**given, **sections}
    return Config.from_mapping({name: {**given.get(name, {}), **sections.get(name, {})} for name in names})


def published_groups(rows: pa.Table) -> list[tuple[str | None, np.ndarray]]:
    """Return `since` and left members of each group, with all defaults."""
    with TemporaryDirectory() as directory:
        return groups_in(run(config_of(directory), rows).run_dir)


def groups_in(run_dir: Any) -> list[tuple[str | None, np.ndarray]]:
    """Return `since` and left members (integers) of each group of a run, by rank."""
    groups = pq.read_table(run_dir / "groups.parquet", columns=["group_key", "since"]).to_pylist()
    members: dict[int, list[int]] = {row["group_key"]: [] for row in groups}
    for row in pq.read_table(run_dir / "group_members.parquet", columns=["group_key", "side", "key"]).to_pylist():
        if row["side"] == "left":
            members[row["group_key"]].append(int(row["key"]))
    return [(row["since"], np.array(members[row["group_key"]])) for row in groups]
