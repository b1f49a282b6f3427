"""The cases of a published run with their groups and members, read from its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.key_columns import BUCKET, key_columns
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.groups import schemas
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import reading, refuse_nulls
from mbe_stage.pipeline.views.listed_groups import check_groups

Row = Mapping[str, Any]
Table = Literal["groups", "group_members", "group_edges", "group_halo", "group_times", "vertex_scores"]

SINCE = ("new", "grown", "changed", "shrunk", "same")
"""The values of `since`, most urgent first."""

_SCHEMAS: dict[Table, pa.Schema] = {
    "groups": schemas.GROUPS,
    "group_members": schemas.group_members(pa.string()),
    "group_edges": schemas.GROUP_EDGES,
    "group_halo": schemas.group_halo(pa.string()),
    "group_times": schemas.GROUP_TIMES,
    "vertex_scores": schemas.vertex_scores(pa.string()),
}
# Runs of earlier versions have no `grown_surprise`.
_BEST_FIRST = (("score", "descending"), ("grown_surprise", "descending"), ("vertex", "ascending"))


@dataclass(frozen=True)
class Case:
    """A case of a run.

    Attributes
    ----------
    id : str
        16 hexadecimal digits.
    groups : tuple of dict
        Rows of the table `groups` by rank; the first one is the head.
    members : tuple of dict
        The `distinct_members` of all groups.
    """

    id: str
    groups: tuple[dict[str, Any], ...]
    members: tuple[dict[str, Any], ...]

    @property
    def head(self) -> dict[str, Any]:
        """The best-ranked group."""
        return self.groups[0]

    @cached_property
    def row(self) -> dict[str, Any]:
        """The case as one row, as `mbe cases list` shows it.

        `since` is `new` if all groups are new, and `grown` if only some are; else the most urgent change of its groups.
        Times cover all groups. Groups share edges, so weights are not added up: `largest_weight_total` is that of one
        group. `p_bound`, `surprise` and `explanation` are those of the head.
        """

        def of_groups(name: str) -> list[Any]:
            return [group[name] for group in self.groups if group[name] is not None]

        return {
            "case": self.id,
            "since": _since([group["since"] for group in self.groups]),
            "n_groups": len(self.groups),
            "n_left": sum(member["side"] == "left" for member in self.members),
            "n_right": sum(member["side"] == "right" for member in self.members),
            "first_time": min(of_groups("first_time"), default=None),
            "last_time": max(of_groups("last_time"), default=None),
            "largest_weight_total": max(of_groups("weight_total"), default=None),
            "n_known": max(of_groups("n_known"), default=None),
            **{name: self.head.get(name) for name in ("key", "surprise", "p_bound", "verdict")},
            **{name: self.head[name] for name in ("is_muted", "explanation")},
        }


def _since(values: list[str | None]) -> str | None:
    if None in values:
        return None
    if "new" in values:
        return "new" if set(values) == {"new"} else "grown"
    return min((value for value in values if value), key=SINCE.index)


def cases_of(run_path: str | Path) -> list[Case]:
    """Return the cases of a run, including muted ones, by the rank of their heads.

    Raises a `PublishError` if the run has no groups, or its tables cannot be read.
    """
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in groups_of(run_path):
        groups[row["case"]].append(row)
    case_of_group = {row["group_key"]: case for case, rows in groups.items() for row in rows}
    members: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table_of(run_path, "group_members").to_pylist():
        members[case_of_group[row["group_key"]]].append(row)
    return [Case(case, tuple(rows), distinct_members(members[case])) for case, rows in groups.items()]


def groups_of(run_path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of `groups` by rank; errors are those of `cases_of`."""
    return table_of(check_groups(run_path), "groups").to_pylist()


def distinct_members(rows: Iterable[Row]) -> tuple[dict[str, Any], ...]:
    """Return the distinct members among rows of `group_members`.

    They have `side`, `vertex`, `key`, `label`, `is_core`, `n_groups` and `n_edges`, the most edges in one group. Left
    members come first; then the order is by most groups, most edges and smallest vertex.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    groups: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for row in rows:
        place = row["side"], row["vertex"]
        about = {name: row[name] for name in ("side", "vertex", "key", "label")}
        member = found.setdefault(place, {**about, "is_core": False, "n_groups": 0, "n_edges": 0})
        # A member of a narrowed group has a row for each of its key values.
        groups[place].add(row["group_key"])
        member["is_core"] |= bool(row.get("is_core"))
        member |= {"n_groups": len(groups[place]), "n_edges": max(member["n_edges"], row["n_edges"])}
    return tuple(
        sorted(found.values(), key=lambda row: (row["side"], -row["n_groups"], -row["n_edges"], row["vertex"]))
    )


def case_of(run_path: str | Path, wanted: str, cases: Sequence[Case]) -> Case:
    """Return the case with an id, or with a prefix of it of at least four digits; refuse if none or several match."""
    found = [each for each in cases if each.id == wanted] or [
        each for each in cases if len(wanted) >= 4 and each.id.startswith(wanted.lower())
    ]
    if len(found) != 1:
        some = ", ".join(each.id for each in (found or cases)[:5])
        raise InputError.at(
            run_path,
            found=f"{'no case' if not found else f'{len(found)} cases'} {wanted!r}",
            expected=f"the id of a case, such as {some}" if some else "a run with cases",
            remedy=f"list them: mbe cases list {run_path}",
        )
    return found[0]


def table_of(run_path: str | Path, name: Table, group_keys: Sequence[int] | None = None) -> pa.Table:
    """Return a table of a run, or the rows of some groups; unreadable tables or odd nulls raise a `PublishError`."""
    path = Path(run_path) / f"{name}.parquet"
    with reading(run_path):
        if group_keys is None:
            # `read_table` imports pandas if it is installed, which takes longer than reading.
            table = pq.ParquetFile(path).read()
        else:
            table = pq.read_table(path, filters=pc.field("group_key").isin(pa.array(group_keys, pa.int64())))
        refuse_nulls(table, _SCHEMAS[name])
    return table


def best_vertices(run_path: Path, side: str, n: int) -> list[int]:
    """Return the vertices of a side with the highest scores; ties by `grown_surprise`, then by vertex."""
    with reading(run_path):
        path = run_path / "vertex_scores.parquet"
        known = pq.read_schema(path).names
        order = [each for each in _BEST_FIRST if each[0] in known]
        of_side = pq.read_table(path, columns=[name for name, _ in order], filters=pc.field("side") == side)
        return of_side.take(pc.sort_indices(of_side, sort_keys=order)[:n])["vertex"].to_pylist()


def scores_of(run_path: Path, vertices: Iterable[int]) -> dict[tuple[str, int], Row]:
    """Return the rows of `vertex_scores` for these ids on either side, by side and vertex."""
    wanted = pc.field("vertex").isin(pa.array({*vertices}, pa.int32()))
    with reading(run_path):
        table = pq.read_table(run_path / "vertex_scores.parquet", filters=wanted)
        refuse_nulls(table, _SCHEMAS["vertex_scores"])
    return {(row["side"], row["vertex"]): row for row in table.to_pylist()}


def side_names(manifest: Manifest) -> tuple[str, str]:
    """Return the names of the two sides: the key columns' names, else `left` and `right`; time buckets are left out."""
    config, columns = manifest.config, manifest.input.columns
    names = [(name for name in key_columns(config, side, columns) if name != BUCKET) for side in ("left", "right")]
    return ", ".join(names[0]), ", ".join(names[1])


def weight_name(manifest: Manifest, cases: Iterable[Case] = ()) -> str:
    """Return the name of the column of weights or, with cases, the heading for `largest_weight_total`."""
    named = (column.name for column in manifest.input.columns if column.setting == "weight" and column.name)
    name = next(named, "weight")
    return f"{name}, largest group total" if any(len(case.groups) > 1 for case in cases) else name
