"""Views of a published run: its finding, a case, a group, a member, and members by score.

Nothing is written: a look at a run leaves it and `latest` as they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases import published
from mbe_stage.pipeline.cases.deciding import with_current_verdicts
from mbe_stage.pipeline.cases.finding import finding_of, sentence, several
from mbe_stage.pipeline.cases.key_columns import distinct_names, key_columns, key_parts, split_keys, value_columns
from mbe_stage.pipeline.cases.published import Case, Row, table_of
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import was_in_memory
from mbe_stage.pipeline.views.listed_groups import chance_text, with_members
from mbe_stage.pipeline.views.top import SideName, find_vertex
from mbe_stage.pipeline.wording import amount_text, bound_text, day_of, group_key_text, plural

Column = tuple[str, str | Callable[[Any], object]]
"""A heading, and the name of the value or a function of the row."""

SIDES: tuple[SideName, SideName] = ("left", "right")
_MOST_ROWS = 50
# Tables and further names whose columns appear in records: key columns with one of these names get a suffix.
_TABLES = "groups", "group_members", "group_halo", "vertex_scores"
_FURTHER = "case", "parts", "verdict", "is_muted", "group", "member_edges"


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people, and the kind of its rows: groups, members or cases."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    of: Sequence[Row]


@dataclass(frozen=True, slots=True)
class View:
    """A part of a run: values for JSON, rows for CSV, and for people lines, tables and the next command."""

    values: Row
    lines: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    records: Sequence[Row]
    next_command: str


class Looking:
    """Views of a published run with groups; an unknown id, key or side raises an `InputError`.

    `place` is the user's name of the run. Current verdicts replace those that the run has read. `cases` are given if
    they were read already.
    """

    def __init__(
        self, run_path: Path, place: str, verdicts: Verdicts | None = None, cases: Sequence[Case] | None = None
    ) -> None:
        self._path, self._place, self._verdicts, self._given = run_path, place, verdicts, cases
        self._manifest = read_manifest(run_path)
        self.names: dict[str, str] = dict(zip(SIDES, published.side_names(self._manifest), strict=True))
        tables = [path for name in _TABLES if (path := run_path / f"{name}.parquet").is_file()]
        with reading(run_path):
            self._taken = [*_FURTHER, *(name for path in tables for name in pq.read_schema(path).names)]
        self._columns: dict[str, tuple[str, ...]] = {}
        for side in SIDES:
            names = key_columns(self._manifest.config, side, self._manifest.input.columns)
            self._columns[side] = distinct_names(names, self._taken)
            self._taken += self._columns[side]
        self._sizes: list[Column] = [(self.names[side], f"n_{side}") for side in SIDES]

    @cached_property
    def _cases(self) -> Sequence[Case]:
        cases = published.cases_of(self._path) if self._given is None else self._given
        return cases if self._verdicts is None else with_current_verdicts(cases, self._manifest, self._verdicts)

    def case_of(self, wanted: str) -> Case:
        """Return a case by its id or a prefix of it."""
        return published.case_of(self._path, wanted, self._cases)

    def side_named(self, name: str | None) -> SideName | None:
        """Return the side of that name: ``left``, ``right``, or the side's column."""
        found = [side for side in SIDES if name in (side, self.names[side])]
        if name is None or found:
            return found[0] if found else None
        sides = ", ".join(dict.fromkeys([*SIDES, *self.names.values()]))
        raise InputError.at(self._path, found=f"no side {name!r}", expected=f"one of {sides}", remedy="name one")

    def finding(self, *, has_muted: bool = False) -> View:
        """Return the finding in a sentence, and the cases; on request also the muted ones."""
        shown = [case for case in self._cases if has_muted or not case.row["is_muted"]]
        n_muted = sum(case.row["is_muted"] for case in self._cases)
        lines = [("finding", finding_of(self._path, self._manifest, self._cases))]
        lines += [("chance", chance)] if (chance := chance_text(self._path)) else []
        lines += [("muted", f"{plural(n_muted, 'case')}, known good or labelled fine")] if n_muted else []
        columns: list[Column] = [("case", "case"), ("since", "since"), ("groups", "n_groups"), *self._sizes]
        columns += [("first", lambda row: _day(row["first_time"])), ("last", lambda row: _day(row["last_time"]))]
        # The explanation of a case would fill ten lines of a cell.
        amount: Column = published.weight_name(self._manifest, shown), _amount
        columns += [amount, ("known", "n_known"), _P, ("verdict", "verdict")]
        columns.append(("edges of its best group", "present"))
        table = _table("", columns, [{**case.row, "present": _present(case.head)} for case in shown])
        rows = [plain(case.row) for case in self._cases]
        values = {"finding": lines[0][1], "columns": self._columns, "cases": rows}
        # Suggest a new case without a verdict first.
        first = min(shown, key=lambda case: (case.row["verdict"] is not None, case.row["since"] != "new"), default=None)
        command = ["verify", self._place] if first is None else ["show", self._place, "--case", first.id]
        return self._view(values, lines, [table], rows, command)

    def case(self, wanted: str) -> View:
        """Show a case by its id or a prefix of it: groups, members with their scores, and linked cases."""
        case = self.case_of(wanted)
        row, members = case.row, self._parted(self._scored(case.members))
        linked, told = self._linked(case), self._told(row, row["largest_weight_total"], [case])
        lines = [
            ("case", f"{case.id}: {self._size(row)} in {plural(row['n_groups'], 'group')}{told}"),
            ("why", sentence(row["explanation"], (self.names["left"], self.names["right"]))),
            *(("linked", f"case {each['case']} has {self._size(each, 'and')} of these, too") for each in linked[:9]),
        ]
        tables = [self._groups_table(case.groups), *self._members_tables(members, _GROUPS, _EDGES)]
        values = {"case": row, "groups": case.groups, "members": _as_values(members), "linked": linked}
        source = self._manifest.input.source
        given = ["--with", "INPUT" if was_in_memory(source) else source, "--out", f"case-{case.id[:8]}"]
        command = ["cases", "export", self._place, case.id, *given]
        return self._view(values, lines, tables, _records({"case": case.id}, members), command)

    def group(self, wanted: str) -> View:
        """Show a group by its key or rank: its members, and the leads next to it."""
        rows = published.groups_of(self._path)
        found = next((row for name in ("group_key", "rank") for row in rows if str(row[name]) == wanted), None)
        if found is None:
            some = f"the key of a group, or its rank from 1 to {len(rows):,}" if rows else "a run with groups"
            remedy = f"list them: mbe top {self._place}"
            raise InputError.at(self._path, found=f"no group {wanted!r}", expected=some, remedy=remedy)
        of = {found["group_key"]: found.get("key")}
        members = self._parted(self._scored(table_of(self._path, "group_members", [*of]).to_pylist()), of)
        # Earlier versions have no halo.
        has_halo = (self._path / "group_halo.parquet").is_file()
        halo = self._parted(table_of(self._path, "group_halo", [*of]).to_pylist() if has_halo else [], of)
        core: Column = "core", lambda row: "core" if row.get("is_core") else None
        gain: Column = "gain", lambda row: f"{row['gain']:.1f}"
        leads = self._members_tables(halo, _EDGES, gain, title="leads: ")
        told = self._told(found, found["weight_total"])
        lines = [
            ("group", f"{found['group_key']}, rank {found['rank']}: {self._size(found)}{told}"),
            ("why", sentence(found["explanation"], (self.names["left"], self.names["right"]))),
            *([("key", text)] if (text := group_key_text(found)) else []),
        ]
        values = {"group": found, "members": _as_values(members), "halo": _as_values(halo)}
        tables, records = (
            [*self._members_tables(members, _EDGES, core), *leads],
            _records({"case": found["case"]}, members),
        )
        return self._view(values, lines, tables, records, ["show", self._place, "--case", found["case"]])

    def vertex(self, key: str, side: SideName | None) -> View:
        """Show a member: its scores, groups and cases, and the members of both sides in its groups."""
        side, vertex = self._vertex(key, side)
        keys = self._groups_with(side, vertex)
        groups = [row for row in published.groups_of(self._path) if row["group_key"] in keys]
        score = published.scores_of(self._path, [vertex]).get((side, vertex))
        others = published.distinct_members(table_of(self._path, "group_members", [*keys]).to_pylist())
        near = self._parted(row for row in others if (row["side"], row["vertex"]) != (side, vertex))
        cases = list(dict.fromkeys(row["case"] for row in groups))
        what = f"in {plural(len(groups), 'group')} of {plural(len(cases), 'case')}" if groups else "in no listed group"
        told = "" if score is None else f", score {score['score']:.3f}, {plural(score['degree'], 'edge')}"
        tables = [self._groups_table(groups), *self._members_tables(near, _GROUPS, title="in the same groups: ")]
        values = {"side": side, "key": key if score is None else score["key"], "scores": score, "cases": cases}
        values |= {"groups": groups, "near": _as_values(near)}
        lines = [(self.names[side], f"{key}: {what}{told}")]
        command = ["show", self._place, "--case", cases[0]] if cases else ["accounts", self._place]
        return self._view(values, lines, tables, _records({}, near), command)

    def accounts(self, n: int, side: SideName) -> View:
        """Show the members of a side with the highest scores, and the case of each one's best group."""
        best = published.best_vertices(self._path, side, n)
        scores = published.scores_of(self._path, best)
        case_of = {group["group_key"]: case.id for case in self._cases for group in case.groups}
        of_best = (scores[side, vertex] for vertex in best)
        rows = self._parted({**row, "case": case_of.get(row["group_key"])} for row in of_best)
        tables = self._members_tables(rows, ("case", "case"), _GROUPS, _DEGREE, most=n)
        facts = self._manifest.input
        of_all = several(self.names[side], facts.n_left if side == "left" else facts.n_right)
        lines = [("scores", f"{len(rows):,} of {of_all}, the highest score first")]
        values = {"side": side, "columns": self._columns, "accounts": _as_values(rows)}
        which = [] if side == "left" else ["--side", side]
        command = ["show", self._place, *(["--vertex", str(rows[0]["key"]), *which] if rows else [])]
        return self._view(values, lines, tables, _records({}, rows), command)

    def found(self, rows: Iterable[Row]) -> View:
        """Show some rows of `vertex_scores`, in their order."""
        members = self._parted(rows)
        tables = self._members_tables(members, _GROUPS, _DEGREE)
        return self._view({"members": _as_values(members)}, [], tables, [], ["accounts", self._place])

    def top(
        self, limit: int | None, by: str | None, least: tuple[int, int], member: tuple[str, str | None] | None = None
    ) -> View:
        """Show groups by rank, or the largest first; its CSV has their members.

        `least` has the minimum numbers of left and right members; `member` is a key and its side.
        """
        rows = [
            row for row in published.groups_of(self._path) if row["n_left"] >= least[0] and row["n_right"] >= least[1]
        ]
        if member is not None:
            keys = self._groups_with(*self._vertex(member[0], self.side_named(member[1])))
            rows = [row for row in rows if row["group_key"] in keys]
        if by is not None:
            rows.sort(key=lambda row: (-row[f"n_{by}"], row["rank"]))
        rows = rows[:limit]
        lines = [] if rows else [("groups", "no such group")]
        command = ["show", self._place, *(["--group", str(rows[0]["rank"])] if rows else [])]
        values = {"by": by or "rank", "groups": with_members(self._path, [*rows])}
        return self._view(values, lines, [self._groups_table(rows)], self._members_of(rows), command)

    def _members_of(self, groups: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the rows for CSV: the members of some groups, each with its group."""
        of = {row["group_key"]: row for row in groups}
        rows = table_of(self._path, "group_members", [*of]).to_pylist()
        members = self._parted(rows, {key: row.get("key") for key, row in of.items()})
        empty = dict.fromkeys(name for member in members for name in member["parts"])
        return [
            {"group": group["rank"], "group_key": group["group_key"], "case": group["case"], "since": group["since"]}
            | {"side": member["side"], **empty, **member["parts"], "member_edges": member["n_edges"]}
            | {name: member.get(name) for name in ("edge_share", "is_core", "label")}
            | {name: group[name] for name in ("n_left", "n_right", "n_edges", "surprise")}
            for member in members
            for group in [of[member["group_key"]]]
        ]

    def _view(
        self,
        values: Row,
        lines: Sequence[tuple[str, str]],
        tables: Iterable[Table],
        records: Sequence[Row],
        command: Sequence[str],
    ) -> View:
        shown = [each for each in tables if each.rows]
        whole = plain({"run": address_of(self._path), **values})
        return View(whole, lines, shown, plain(records), shlex.join(["mbe", *command]))

    def _vertex(self, key: str, side: SideName | None) -> tuple[SideName, int]:
        """Find a vertex, including the right vertices of the shifted time buckets."""
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
        members = table_of(self._path, "group_members").filter(pc.field("vertex") == vertex)
        return {row["group_key"] for row in members.to_pylist() if row["side"] == side}

    def _linked(self, case: Case) -> list[dict[str, Any]]:
        """Return other cases that share members with a case, ordered by the number of common left members."""
        own = {(member["side"], member["vertex"]) for member in case.members}
        found = []
        for other in self._cases:
            common = [each["side"] for each in other.members if (each["side"], each["vertex"]) in own]
            if other.id != case.id and "left" in common:
                n_left = common.count("left")
                found.append({"case": other.id, "n_left": n_left, "n_right": len(common) - n_left})
        return sorted(found, key=lambda row: -row["n_left"])

    def _scored(self, members: Sequence[Row]) -> list[dict[str, Any]]:
        scores = published.scores_of(self._path, (each["vertex"] for each in members))
        return [{**each, "score": scores.get((each["side"], each["vertex"]), {}).get("score")} for each in members]

    def _size(self, row: Row, between: str = "x") -> str:
        return f" {between} ".join(several(self.names[side], row[f"n_{side}"]) for side in SIDES)

    def _told(self, row: Row, total: float | None, cases: Iterable[Case] = ()) -> str:
        """Format further facts about a group or about a given case: its change, span and weight."""
        first, last = _day(row["first_time"]), _day(row["last_time"])
        parts = [
            row["since"],
            None if first is None else first if first == last else f"{first} to {last}",
            None if total is None else f"{published.weight_name(self._manifest, cases)} {amount_text(total)}",
            None if row.get("verdict") is None else f"verdict {row['verdict']}",
            "muted" if row["is_muted"] else None,
        ]
        return "".join(f"; {part}" for part in parts if part)

    def _groups_table(self, groups: Sequence[Row]) -> Table:
        columns: list[Column] = [("rank", "rank"), ("case", "case"), ("since", "since"), ("key", group_key_text)]
        columns += [*self._sizes, ("edges", _present), _P, ("known", "n_known")]
        return _table("groups", [*columns, ("group_key", lambda row: str(row["group_key"]))], groups)

    def _members_tables(
        self, members: Sequence[Row], *further: Column, title: str = "", most: int = _MOST_ROWS
    ) -> Iterator[Table]:
        """Yield the members of each side: a column for each part of their keys, scores, and further columns."""
        score: Column = "score", lambda row: None if row.get("score") is None else f"{row['score']:.3f}"
        for side in SIDES:
            rows = [row for row in members if row["side"] == side]
            keys = [
                (name, lambda row, name=name: _text(row["parts"][name])) for name in (rows[0]["parts"] if rows else ())
            ]
            yield _table(f"{title}{self.names[side]}", [*keys, score, *further, ("label", "label")], rows, most)

    def _parted(self, rows: Iterable[Row], keys: Mapping[int, str | None] | None = None) -> list[dict[str, Any]]:
        """Add `parts` to rows: the parts of each key by column, and the parts that keys of groups add."""
        found = [{**row} for row in rows]
        for side in SIDES:
            of_side = [row for row in found if row["side"] == side]
            whole = pa.array([row["key"] for row in of_side] or pa.array([], pa.string()))
            for row, parts in zip(of_side, split_keys(whole, self._columns[side]).to_pylist(), strict=True):
                row["parts"] = parts
        added = {group: value_columns(key) for group, key in (keys or {}).items()}
        names = list(dict.fromkeys(name for each in added.values() for name in each))
        new = dict(zip(names, distinct_names(names, self._taken), strict=True))
        for row in found if names else ():
            narrowed = added[row["group_key"]] if row["side"] == "right" else ()
            parts = key_parts(row["key_value"], len(narrowed)) if narrowed else []
            row["parts"] |= {new[name]: part for name, part in zip(narrowed, parts, strict=True)}
        return found


def _as_values(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows for JSON, with `parts` only for keys of several columns."""
    return [{name: value for name, value in row.items() if name != "parts" or len(value) > 1} for row in rows]


def _records(lead: Row, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows for CSV: common values, the side, a column for each part of the keys, the rest."""
    empty = dict.fromkeys(name for row in rows for name in row["parts"])
    left_out = {"side", "key", "key_value", "parts", *lead}
    return [
        {**lead, "side": row["side"], **empty, **row["parts"]}
        | {name: value for name, value in row.items() if name not in left_out}
        for row in rows
    ]


def plain(value: Any) -> Any:
    """Return a value in its JSON form: times are UTC in ISO 8601."""
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def _table(title: str, columns: Sequence[Column], rows: Sequence[Row], most: int = _MOST_ROWS) -> Table:
    """Return the first rows, with the columns that have any value; the title has the number of rows."""
    cells = [[row.get(value) if isinstance(value, str) else value(row) for _, value in columns] for row in rows[:most]]
    used = [at for at in range(len(columns)) if any(row[at] not in (None, "") for row in cells)]
    of_all = f", {most:,} of {len(rows):,}" if len(rows) > most else ""
    shown = [["" if row[at] is None else row[at] for at in used] for row in cells]
    return Table(f"{title}{of_all}".removeprefix(", "), [columns[at][0] for at in used], shown, rows[:most])


def _text(part: object) -> str:
    return "" if part is None else day_of(part) or str(part)


def _present(group: Row) -> str:
    return f"{group['n_edges']:,} of {group['n_left'] * group['n_right']:,}"


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d}"


def _amount(row: Row) -> str | None:
    return None if row["largest_weight_total"] is None else amount_text(row["largest_weight_total"])


_P: Column = "p", lambda row: None if row.get("p_bound") is None else bound_text(row["p_bound"])
_GROUPS: Column = "groups", "n_groups"
_EDGES: Column = "edges", "n_edges"
_DEGREE: Column = "degree", "degree"
