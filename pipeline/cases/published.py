"""The cases of a published run with their groups and members, read from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.key_columns import BUCKET, key_columns
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.views.listed_groups import group_rows

SINCE = ("new", "grown", "changed", "shrunk", "same")
"""The values of `since`, the most urgent first."""


@dataclass(frozen=True)
class Case:
    """A case of a run.

    Attributes
    ----------
    id : str
        16 hexadecimal digits.
    groups : tuple of dict
        Its rows of `groups` by rank; the first one is the head.
    members : tuple of dict
        The distinct members of all groups, left ones first: `side`, `vertex`, `key`, `label`, `is_core`, `n_groups`
        and `n_edges`, the most edges in one group. By groups, then edges, most first, then by vertex.
    """

    id: str
    groups: tuple[dict[str, Any], ...]
    members: tuple[dict[str, Any], ...]

    @property
    def head(self) -> dict[str, Any]:
        """The group with the best rank."""
        return self.groups[0]

    @cached_property
    def row(self) -> dict[str, Any]:
        """The case as one row, as `mbe cases list` shows it.

        `since` is `new` if all groups are new; else the most urgent change of its groups, which is `grown` if a further
        group is new. `weight_total` is the largest of its groups' totals, because groups share edges. `p_bound`,
        `surprise` and `explanation` are those of the head.
        """
        times = [group for group in self.groups if group["first_time"] is not None]
        totals = [group["weight_total"] for group in self.groups if group["weight_total"] is not None]
        head = self.head
        return {
            "case": self.id,
            "since": _since([group["since"] for group in self.groups]),
            "n_groups": len(self.groups),
            "n_left": sum(member["side"] == "left" for member in self.members),
            "n_right": sum(member["side"] == "right" for member in self.members),
            "first_time": min((group["first_time"] for group in times), default=None),
            "last_time": max((group["last_time"] for group in times), default=None),
            "weight_total": max(totals, default=None),
            "n_known": max((group["n_known"] for group in self.groups if group["n_known"] is not None), default=None),
            "key": head.get("key"),
            "surprise": head["surprise"],
            "p_bound": head.get("p_bound"),
            "verdict": head.get("verdict"),
            "is_muted": head["is_muted"],
            "explanation": head["explanation"],
        }


def _since(values: list[str | None]) -> str | None:
    if None in values:
        return None
    if "new" in values:
        return "new" if set(values) == {"new"} else "grown"
    return min((value for value in values if value), key=SINCE.index)


def cases_of(run_path: str | Path) -> list[Case]:
    """Return the cases of a run, muted ones too, by the rank of their heads.

    Raises
    ------
    PublishError
        The run has no groups, or their tables cannot be read.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in group_rows(run_path):
        groups.setdefault(row["case"], []).append(row)
    case_of = {row["group_key"]: case for case, rows in groups.items() for row in rows}
    members: dict[str, dict[tuple[str, int], dict[str, Any]]] = {case: {} for case in groups}
    for row in rows_of_groups(run_path, "group_members").to_pylist():
        of_case = members[case_of[row["group_key"]]]
        member = of_case.setdefault(
            (row["side"], row["vertex"]),
            {name: row[name] for name in ("side", "vertex", "key", "label")}
            | {"is_core": False, "n_groups": 0, "n_edges": 0},
        )
        # A member of a narrowed group has a row for each of its key values.
        if member.get("_group") != row["group_key"]:
            member |= {"_group": row["group_key"], "n_groups": member["n_groups"] + 1}
        member["is_core"] |= bool(row.get("is_core"))
        member["n_edges"] = max(member["n_edges"], row["n_edges"])
    return [Case(case, tuple(rows), _ordered(members[case])) for case, rows in groups.items()]


def _ordered(members: Mapping[tuple[str, int], dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    rows = ({name: value for name, value in row.items() if name != "_group"} for row in members.values())
    return tuple(sorted(rows, key=lambda row: (row["side"], -row["n_groups"], -row["n_edges"], row["vertex"])))


def case_of(run_path: str | Path, case: str, cases: Sequence[Case] | None = None) -> Case:
    """Return a case by its id, or by an unambiguous prefix of four digits or more.

    Parameters
    ----------
    cases : sequence of Case, optional
        The cases of the run, if they have been read.

    Raises
    ------
    InputError
        The run has no such case, or several.
    """
    cases = cases_of(run_path) if cases is None else cases
    found = [each for each in cases if each.id == case] or [
        each for each in cases if len(case) >= 4 and each.id.startswith(case.lower())
    ]
    if len(found) != 1:
        some = ", ".join(each.id for each in (found or cases)[:5])
        raise InputError.at(
            run_path,
            found=f"{'no case' if not found else f'{len(found)} cases'} {case!r}",
            expected=f"the id of a case, such as {some}" if some else "a run with cases",
            remedy=f"list them: mbe cases list {run_path}",
        )
    return found[0]


def rows_of_groups(run_path: str | Path, table: str, group_keys: list[int] | None = None) -> pa.Table:
    """Return the rows of some groups (by default of all) in `group_members`, `group_edges`, `group_halo` or another.

    Raises
    ------
    PublishError
        The table cannot be read.
    """
    path = Path(run_path) / f"{table}.parquet"
    with reading(run_path):
        if group_keys is None:
            # `read_table` imports pandas if it is installed, which takes longer than reading.
            return pq.ParquetFile(path).read()
        return pq.read_table(path, filters=pc.field("group_key").isin(pa.array(group_keys, pa.int64())))


def side_names(config: Config, columns: Sequence[InputColumn] = ()) -> tuple[str, str]:
    """Return the names of the two sides: those of the key columns, else `left` and `right`; buckets are left out.

    Parameters
    ----------
    columns : sequence of InputColumn, optional
        `manifest.input.columns`, for the names of columns that were selected by number.
    """
    names = [(name for name in key_columns(config, side, columns) if name != BUCKET) for side in ("left", "right")]
    return ", ".join(names[0]), ", ".join(names[1])


def config_of(run_path: str | Path) -> Config:
    """Return the configuration of a run."""
    return read_manifest(Path(run_path)).config
