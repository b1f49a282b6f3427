"""Parts of a published run to look at: its finding, a case, a group, a member, and members by score.

Nothing is written: a look at a run leaves it and `latest` as they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.deciding import with_current_verdicts
from mbe_stage.pipeline.cases.finding import finding_of, several
from mbe_stage.pipeline.cases.key_columns import distinct_names, key_columns, key_parts, split_keys, value_columns
from mbe_stage.pipeline.cases.published import Case, case_of, cases_of, rows_of_groups, side_names
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.groups import schemas
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import was_in_memory
from mbe_stage.pipeline.views.listed_groups import chance_text, group_rows, with_members
from mbe_stage.pipeline.views.top import SideName, find_vertex
from mbe_stage.pipeline.wording import day_of, group_key_text, plural

Row = Mapping[str, Any]

SIDES: tuple[SideName, SideName] = ("left", "right")
_MOST_ROWS = 50
# Names of other columns of records: a key column with one of these names gets a number.
_TAKEN = frozenset(
    name
    for schema in (
        schemas.GROUPS,
        schemas.group_members(pa.string()),
        schemas.group_halo(pa.string()),
        schemas.vertex_scores(pa.string()),
    )
    for name in schema.names
) | {"case", "relation", "n_common", "parts", "verdict"}


@dataclass(frozen=True, slots=True)
class View:
    """A part of a run as text, JSON and CSV.

    Attributes
    ----------
    values : mapping
        Its values for JSON; times are UTC in ISO 8601.
    lines : sequence of (str, str)
        Labels and texts above the tables.
    tables : sequence of (str, sequence of str, sequence of rows)
        Title, columns and rows of each table for people; long ones are cut.
    records : sequence of mapping
        The rows of its CSV.
    next_command : str
        The command to run next.
    """

    values: Row
    lines: Sequence[tuple[str, str]]
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[object]]]]
    records: Sequence[Row]
    next_command: str


class Looking:
    """Views of a published run with groups.

    Parameters
    ----------
    run_path : path
        The run directory.
    place : str
        The run as the user named it, for the next command.
    verdicts : Verdicts, optional
        The verdicts of today, in place of those that the run has read.
    """

    def __init__(self, run_path: Path, place: str, verdicts: Verdicts | None = None) -> None:
        self._path, self._place, self._verdicts = run_path, place, verdicts
        self._manifest = read_manifest(run_path)
        config, columns = self._manifest.config, self._manifest.input.columns
        self.names: dict[str, str] = dict(zip(SIDES, side_names(config, columns), strict=True))
        left = distinct_names(key_columns(config, "left", columns), [*_TAKEN])
        right = distinct_names(key_columns(config, "right", columns), [*_TAKEN, *left])
        self._columns = {"left": left, "right": right}

    @cached_property
    def _cases(self) -> list[Case]:
        cases = cases_of(self._path)
        return cases if self._verdicts is None else with_current_verdicts(cases, self._manifest, self._verdicts)

    def case_of(self, wanted: str) -> Case:
        """Return a case; parameters and errors are those of `pipeline.cases.published.case_of`."""
        return case_of(self._path, wanted, self._cases)

    def side_named(self, name: str | None) -> SideName | None:
        """Return the side of that name: ``left``, ``right``, or the side's column.

        Raises
        ------
        InputError
            No side has this name.
        """
        found = [side for side in SIDES if name in (side, self.names[side])]
        if name is None or found:
            return found[0] if found else None
        sides = ", ".join(dict.fromkeys([*SIDES, *self.names.values()]))
        raise InputError.at(self._path, found=f"no side {name!r}", expected=f"one of {sides}", remedy="name one")

    def finding(self, *, has_muted: bool = False) -> View:
        """Return the finding in a sentence, and the cases; on request also the muted ones."""
        shown = [case for case in self._cases if has_muted or not case.row["is_muted"]]
        present = [{**case.row, "present": _present(case.head)} for case in shown]
        n_muted = sum(case.row["is_muted"] for case in self._cases)
        lines = [("finding", finding_of(self._path, self._manifest, self._cases))]
        lines += [("chance", chance)] if (chance := chance_text(self._path)) else []
        lines += [("muted", f"{plural(n_muted, 'case')}, known good or labelled fine")] if n_muted else []
        columns: list[tuple[str, Callable[[Row], object]]] = [
            ("case", lambda row: row["case"]),
            ("since", lambda row: row["since"]),
            ("groups", lambda row: row["n_groups"]),
            *self._sizes(),
            ("first", lambda row: _day(row["first_time"])),
            ("last", lambda row: _day(row["last_time"])),
            (str(self._manifest.config.input.weight), lambda row: _number(row["weight_total"])),
            ("known", lambda row: row["n_known"]),
            ("p", lambda row: _chance(row["p_bound"])),
            ("verdict", lambda row: row["verdict"]),
            # Its sentence would take ten lines of a cell.
            ("edges of its best group", lambda row: row["present"]),
        ]
        rows = [plain(case.row) for case in self._cases]
        values = {"finding": lines[0][1], "columns": self._columns, "cases": rows}
        # A new case without a verdict is looked at first.
        first = min(shown, key=lambda case: (case.row["verdict"] is not None, case.row["since"] != "new"), default=None)
        command = ["verify", self._place] if first is None else ["show", self._place, "--case", first.id]
        return self._view(values, lines, [_table("", columns, present)], rows, command)

    def case(self, wanted: str) -> View:
        """Return a case by its id or the beginning of it: groups, members with their scores, and linked cases.

        Raises
        ------
        InputError
            As `case_of`.
        """
        case = self.case_of(wanted)
        row, scores = case.row, self._scores(case.members)
        members = [{**each, "score": scores.get((each["side"], each["vertex"]))} for each in case.members]
        linked = self._linked(case)
        lines = [
            ("case", f"{case.id}: {self._size(row)} in {plural(row['n_groups'], 'group')}{self._told(row)}"),
            ("why", f"{row['explanation']}."),
            *(
                ("linked", f"case {each['case']} has {self._size(each, 'and')} of these, too")
                for each in linked[:_MOST_ROWS]
            ),
        ]
        further = ("groups", lambda row: row["n_groups"]), ("edges", lambda row: row["n_edges"])
        tables = [self._groups_table(case.groups), *(self._members_table(members, side, further) for side in SIDES)]
        values = {"case": row, "groups": case.groups, "members": self._with_parts(members), "linked": linked}
        source = self._manifest.input.source
        told = "INPUT" if was_in_memory(source) else source
        command = ["cases", "export", self._place, case.id, "--with", told, "--out", f"case-{case.id[:8]}"]
        return self._view(values, lines, tables, self._records({"case": case.id}, members), command)

    def group(self, wanted: str) -> View:
        """Return a group by its key or rank: its members, and the leads beside it.

        Raises
        ------
        InputError
            The run has no such group.
        """
        rows = group_rows(self._path)
        found = next((row for name in ("group_key", "rank") for row in rows if str(row[name]) == wanted), None)
        if found is None:
            some = f"the key of a group, or its rank from 1 to {len(rows):,}" if rows else "a run with groups"
            remedy = f"list them: mbe top {self._place}"
            raise InputError.at(self._path, found=f"no group {wanted!r}", expected=some, remedy=remedy)
        members, halo = (
            rows_of_groups(self._path, f"group_{name}", [found["group_key"]]).to_pylist()
            if (self._path / f"group_{name}.parquet").is_file()
            else []
            for name in ("members", "halo")
        )
        scores = self._scores(members)
        members = [{**each, "score": scores.get((each["side"], each["vertex"]))} for each in members]
        further = ("edges", lambda row: row["n_edges"]), ("core", lambda row: "core" if row.get("is_core") else None)
        key = found.get("key")
        tables = [self._members_table(members, side, further, key) for side in SIDES]
        gain = ("edges", lambda row: row["n_edges"]), ("gain", lambda row: f"{row['gain']:.1f}")
        tables += [self._members_table(halo, side, gain, key, "leads: ") for side in SIDES]
        lines = [
            ("group", f"{found['group_key']}, rank {found['rank']}: {self._size(found)}{self._told(found)}"),
            ("why", f"{found['explanation']}."),
            *([("key", text)] if (text := group_key_text(found)) else []),
        ]
        values = {
            "group": found,
            "members": self._with_parts(members, key),
            "halo": self._with_parts(halo, key),
        }
        records = self._records({"case": found["case"]}, members, key)
        return self._view(values, lines, tables, records, ["show", self._place, "--case", found["case"]])

    def vertex(self, key: str, side: SideName | None) -> View:
        """Return a member: its scores, groups and cases, and the members of both sides that share groups with it.

        Raises
        ------
        InputError
            As `pipeline.views.top.find_vertex`.
        """
        side, vertex = self._vertex(key, side)
        keys = self._groups_with(side, vertex)
        groups = [row for row in group_rows(self._path) if row["group_key"] in keys]
        with reading(self._path):
            scores = pq.read_table(self._path / "vertex_scores.parquet", filters=pc.field("vertex") == vertex)
        score = next((row for row in scores.to_pylist() if row["side"] == side), None)
        near = self._near(side, vertex, list(keys))
        cases = list(dict.fromkeys(row["case"] for row in groups))
        what = f"in {plural(len(groups), 'group')} of {plural(len(cases), 'case')}" if groups else "in no listed group"
        told = "" if score is None else f", score {score['score']:.3f}, {plural(score['degree'], 'edge')}"
        tables = [self._groups_table(groups)]
        other: SideName = "right" if side == "left" else "left"
        n_groups = "groups", lambda row: row["n_groups"]
        common = n_groups, (f"common {self.names[other]}", lambda row: row["n_common"])
        joined = n_groups, ("edge", lambda row: "yes" if row["n_common"] else "no")
        tables += [
            self._members_table(near, side, common, None, "in the same groups: "),
            self._members_table(near, other, joined, None, "in the same groups: "),
        ]
        values = {
            "side": side,
            "key": key if score is None else score["key"],
            "scores": score,
            "cases": cases,
            "groups": groups,
            "near": self._with_parts(near),
        }
        lines = [(self.names[side], f"{key}: {what}{told}")]
        command = ["show", self._place, "--case", cases[0]] if cases else ["accounts", self._place]
        return self._view(values, lines, tables, self._records({}, near), command)

    def accounts(self, n: int, side: SideName) -> View:
        """Return the members of a side with the highest scores, and the case of each one's best group.

        Equal scores are ordered by `grown_surprise`, then by vertex.
        """
        with reading(self._path):
            table = pq.read_table(self._path / "vertex_scores.parquet")
        table = table.filter(pc.equal(table["side"].cast(pa.string()), side))
        order = [("score", "descending"), ("grown_surprise", "descending"), ("vertex", "ascending")]
        rows = table.take(pc.sort_indices(table, sort_keys=order)[:n]).to_pylist()
        # A right member of a group with a narrowed key has no `group_key` among its scores.
        held: dict[int, list[tuple[str, int]]] = {}
        for case in self._cases:
            for member in case.members:
                if member["side"] == side:
                    held.setdefault(member["vertex"], []).append((case.id, member["n_groups"]))
        for row in rows:
            cases = held.get(row["vertex"], [])
            row |= {"case": cases[0][0] if cases else None, "n_groups": sum(n for _, n in cases)}
        further = (
            ("case", lambda row: row["case"]),
            ("groups", lambda row: row["n_groups"]),
            ("degree", lambda row: row["degree"]),
        )
        title, columns, lines = self._members_table(rows, side, further, most=n)
        of_all = several(self.names[side], table.num_rows)
        summed = [("scores", f"{len(rows):,} of {of_all}, the highest score first")]
        values = {"side": side, "columns": self._columns, "accounts": self._with_parts(rows)}
        which = [] if side == "left" else ["--side", side]
        command = ["show", self._place, "--vertex", str(rows[0]["key"]), *which] if rows else ["show", self._place]
        return self._view(values, summed, [(title, columns, lines)], self._records({}, rows, sides=(side,)), command)

    def top(self, rows: Sequence[dict[str, Any]], by: str | None) -> View:
        """Return groups that `listed` has chosen; `by` is as there."""
        lines = [] if rows else [("groups", "no such group")]
        command = ["show", self._place, *(["--group", str(rows[0]["rank"])] if rows else [])]
        values = {"by": by or "rank", "groups": with_members(self._path, [*rows])}
        return self._view(values, lines, [self._groups_table(rows)], [], command)

    def listed(
        self, limit: int, by: str | None, least: tuple[int, int], member: tuple[str, str | None] | None
    ) -> list[dict[str, Any]]:
        """Return rows of `groups` by rank, or the largest first.

        Parameters
        ----------
        by : {"edges", "left", "right"}, optional
            A measure of size in place of the rank.
        least : (int, int)
            Minimum left and right members.
        member : (str, str or None), optional
            A key and its side: only groups with this member.
        """
        rows = [row for row in group_rows(self._path) if row["n_left"] >= least[0] and row["n_right"] >= least[1]]
        if member is not None:
            keys = self._groups_with(*self._vertex(member[0], self.side_named(member[1])))
            rows = [row for row in rows if row["group_key"] in keys]
        if by is not None:
            rows.sort(key=lambda row: (-row[f"n_{by}"], row["rank"]))
        return rows[:limit]

    def _view(
        self,
        values: Row,
        lines: Sequence[tuple[str, str]],
        tables: Iterable[tuple[str, Sequence[str], Sequence[Sequence[object]]]],
        records: Sequence[Row],
        command: Sequence[str],
    ) -> View:
        return View(
            plain({"run": address_of(self._path), **values}),
            lines,
            [each for each in tables if each[2]],
            [plain(each) for each in records],
            shlex.join(["mbe", *command]),
        )

    def _vertex(self, key: str, side: SideName | None) -> tuple[SideName, int]:
        """Find a vertex, also among those of the buckets that begin half a bucket later."""
        later = self._path / "half_later_vertices.parquet"
        try:
            return find_vertex(self._path, key, side)
        except InputError:
            if side == "left" or not later.is_file():
                raise
            with reading(self._path):
                found = pq.read_table(later, columns=["vertex"], filters=pc.field("key") == key)
            if not found.num_rows:
                raise
            return "right", found["vertex"][0].as_py()

    def _groups_with(self, side: str, vertex: int) -> set[int]:
        members = rows_of_groups(self._path, "group_members").filter(pc.field("vertex") == vertex)
        return {row["group_key"] for row in members.to_pylist() if row["side"] == side}

    def _near(self, side: SideName, vertex: int, keys: list[int]) -> list[dict[str, Any]]:
        """Return the other members of a vertex's groups: neighbours, and those of its side with common neighbours."""
        edges: dict[int, set[tuple[int, int]]] = {key: set() for key in keys}
        for row in rows_of_groups(self._path, "group_edges", keys).to_pylist():
            edges[row["group_key"]].add((row[side], row["right" if side == "left" else "left"]))
        found: dict[tuple[str, int], dict[str, Any]] = {}
        neighbours = {key: {other for one, other in pairs if one == vertex} for key, pairs in edges.items()}
        for row in rows_of_groups(self._path, "group_members", keys).to_pylist():
            key, is_own_side = row["group_key"], row["side"] == side
            if is_own_side and row["vertex"] == vertex:
                continue
            common = {other for one, other in edges[key] if one == row["vertex"]} if is_own_side else {row["vertex"]}
            about = found.setdefault(
                (row["side"], row["vertex"]),
                {**{name: row[name] for name in ("side", "vertex", "key", "label")}, "groups": set(), "common": set()},
            )
            about["groups"].add(key)
            about["common"] |= common & neighbours[key]
        rows = [
            {name: value for name, value in each.items() if name not in ("groups", "common")}
            | {"n_groups": len(each["groups"]), "n_common": len(each["common"])}
            for each in found.values()
        ]
        return sorted(rows, key=lambda row: (row["side"], -row["n_common"], -row["n_groups"], row["vertex"]))

    def _linked(self, case: Case) -> list[dict[str, Any]]:
        """Return other cases with members of a case, by the number of common left members."""
        own = {(member["side"], member["vertex"]) for member in case.members}
        found = []
        for other in self._cases:
            common = [each["side"] for each in other.members if (each["side"], each["vertex"]) in own]
            if other.id != case.id and "left" in common:
                n_left = common.count("left")
                found.append({"case": other.id, "n_left": n_left, "n_right": len(common) - n_left})
        return sorted(found, key=lambda row: -row["n_left"])

    def _scores(self, members: Iterable[Row]) -> dict[tuple[str, int], float]:
        vertices = pa.array({member["vertex"] for member in members}, pa.int32())
        with reading(self._path):
            rows = pq.read_table(
                self._path / "vertex_scores.parquet",
                columns=["side", "vertex", "score"],
                filters=pc.field("vertex").isin(vertices),
            )
        return {(row["side"], row["vertex"]): row["score"] for row in rows.to_pylist()}

    def _sizes(self) -> list[tuple[str, Callable[[Row], object]]]:
        return [(self.names["left"], lambda row: row["n_left"]), (self.names["right"], lambda row: row["n_right"])]

    def _size(self, row: Row, between: str = "x") -> str:
        return f" {between} ".join(several(self.names[side], row[f"n_{side}"]) for side in SIDES)

    def _told(self, row: Row) -> str:
        """Format what else is known of a case or group: its change, span and weight."""
        first, last = _day(row["first_time"]), _day(row["last_time"])
        weight = row["weight_total"]
        parts = [
            row["since"],
            None if first is None else first if first == last else f"{first} to {last}",
            None if weight is None else f"{self._manifest.config.input.weight} {_number(weight)}",
            None if row.get("verdict") is None else f"verdict {row['verdict']}",
            "muted" if row["is_muted"] else None,
        ]
        return "".join(f"; {part}" for part in parts if part)

    def _groups_table(self, groups: Sequence[Row]) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        columns: list[tuple[str, Callable[[Row], object]]] = [
            ("rank", lambda row: row["rank"]),
            ("case", lambda row: row["case"]),
            ("since", lambda row: row["since"]),
            ("key", lambda row: group_key_text(row)),
            *self._sizes(),
            ("edges", _present),
            ("p", lambda row: _chance(row.get("p_bound"))),
            ("known", lambda row: row["n_known"]),
            ("group_key", lambda row: str(row["group_key"])),
        ]
        return _table("groups", columns, groups)

    def _members_table(
        self,
        members: Iterable[Row],
        side: str,
        further: Iterable[tuple[str, Callable[[Row], object]]],
        group_key: str | None = None,
        title: str = "",
        most: int = _MOST_ROWS,
    ) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
        """Return the members of a side: a column for each part of their keys, scores, and further columns."""
        rows = [row for row in members if row["side"] == side]
        names, parts = self._split(rows, side, group_key)
        both = [{**row, "shown": shown} for row, shown in zip(rows, parts, strict=True)]
        keys = [(name, lambda row, at=at: _text(row["shown"][at])) for at, name in enumerate(names)]
        score = ("score", lambda row: None if row.get("score") is None else f"{row['score']:.3f}")
        label = ("label", lambda row: row.get("label"))
        return _table(f"{title}{self.names[side]}", [*keys, score, *further, label], both, most)

    def _split(
        self, rows: Sequence[Row], side: str, group_key: str | None = None
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the names of key columns, and the parts of each row's key; of a group also those that narrow it."""
        names = self._columns[side]
        keys = [row["key"] for row in rows]
        split = split_keys(pa.array(keys) if keys else pa.array([], pa.string()), names)
        parts = list(zip(*split.to_pydict().values(), strict=True))
        values = value_columns(group_key) if side == "right" else ()
        if not values:
            return names, parts
        names = (*names, *distinct_names(values, [*_TAKEN, *names, *self._columns["left"]]))
        added = [key_parts(row["key_value"], len(values)) for row in rows]
        return names, [(*one, *more) for one, more in zip(parts, added, strict=True)]

    def _with_parts(self, rows: Sequence[Row], group_key: str | None = None) -> list[dict[str, Any]]:
        """Add `parts` to rows whose keys have several columns: the part in each."""
        found = []
        for side in SIDES:
            of_side = [row for row in rows if row["side"] == side]
            names, parts = self._split(of_side, side, group_key)
            found += [
                {**row, "parts": dict(zip(names, each, strict=True))} if len(names) > 1 else dict(row)
                for row, each in zip(of_side, parts, strict=True)
            ]
        return found

    def _records(
        self, lead: Row, rows: Sequence[Row], group_key: str | None = None, sides: Sequence[str] = SIDES
    ) -> list[dict[str, Any]]:
        """Return the rows of a CSV: what is common to all, the side, a column for each part of the keys, the rest."""
        split = {side: self._split([row for row in rows if row["side"] == side], side, group_key) for side in sides}
        empty = {name: None for names, _ in split.values() for name in names}
        parts = {side: iter(each) for side, (_, each) in split.items()}
        return [
            {
                **lead,
                "side": row["side"],
                **empty,
                **dict(zip(split[row["side"]][0], next(parts[row["side"]]), strict=True)),
                **{name: value for name, value in row.items() if name not in ("side", "key", "key_value", *lead)},
            }
            for row in rows
        ]


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times are UTC in ISO 8601."""
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _table(
    title: str, columns: Sequence[tuple[str, Callable[[Any], object]]], rows: Sequence[Any], most: int = _MOST_ROWS
) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
    """Return the first rows with the columns that have any value; the title says how many there are."""
    cells = [[value(row) for _, value in columns] for row in rows[:most]]
    used = [at for at in range(len(columns)) if any(row[at] not in (None, "") for row in cells)]
    of_all = f", {most:,} of {len(rows):,}" if len(rows) > most else ""
    shown = [["" if row[at] is None else row[at] for at in used] for row in cells]
    return f"{title}{of_all}", [columns[at][0] for at in used], shown


def _text(part: object) -> str:
    return "" if part is None else day_of(part) or str(part)


def _present(group: Row) -> str:
    return f"{group['n_edges']:,} of {group['n_left'] * group['n_right']:,}"


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}".removesuffix(".00")


def _chance(value: float | None) -> str | None:
    return None if value is None else f"{value:.1g}"
