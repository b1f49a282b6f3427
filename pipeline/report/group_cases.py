"""Cases and accounts as HTML: a row and a section per case, an entry per account."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from mbe_stage.pipeline.cases.finding import key_name, members_name, sentence, several
from mbe_stage.pipeline.cases.published import (
    SINCE,
    Case,
    Row,
    Table,
    best_vertices,
    scores_of,
    side_names,
    table_of,
    weight_name,
)
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.group_pictures import MOST_COLUMNS, MOST_ROWS, pattern, time_line
from mbe_stage.pipeline.report.wording import escape, fragment, key, percent, tuple_key
from mbe_stage.pipeline.wording import amount_text, has_parts, key_text, narrowed_key

TEMPLATE = "groups.html"
_OPEN = 16
_SHOWN_HALO = 6
_MOST_LINKS = 8
_MOST_ACCOUNTS = 2000
_FACTS = ("first_time", "largest_weight_total", "n_known", "p_bound")
_PLAIN = re.compile("[A-Za-z0-9]([ _.:@/-]?[A-Za-z0-9]){0,39}")


@dataclass(frozen=True)
class CasePages:
    """Writes the shown cases of a run in order, and lists the `top` best accounts even without a case."""

    run_path: Path
    manifest: Manifest
    cases: Sequence[Case]
    top: int

    @cached_property
    def names(self) -> tuple[str, str]:
        """The names of the sides."""
        return side_names(self.manifest)

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """The columns of the list of cases that have a value: keys of `Case.row`, and headings."""
        headings = {
            "n_left": members_name(self.names[0]),
            "n_right": members_name(self.names[1]),
            "n_groups": "groups",
            "since": "since",
            "first_time": "span",
            "largest_weight_total": weight_name(self.manifest, self.cases),
            "n_known": "known",
            "p_bound": "p",
            "verdict": "verdict",
        }
        return [item for item in headings.items() if any(case.row[item[0]] is not None for case in self.cases)]

    @cached_property
    def keys(self) -> list[str]:
        """The names of the groups' keys."""
        return sorted({group["key"] for case in self.cases for group in case.groups if group["key"] is not None})

    @cached_property
    def places(self) -> Mapping[int, list[int]]:
        """The positions of the cases of each left member."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for at, case in enumerate(self.cases):
            for member in case.members:
                if member["side"] == "left":
                    places[member["vertex"]].append(at)
        return places

    @cached_property
    def by_score(self) -> list[int]:
        """The left vertices in the list of accounts: those in cases, and those with the best scores."""
        rows = (self._scores["left", vertex] for vertex in {*self.places, *self._best})
        return [row["vertex"] for row in sorted(rows, key=self._by_score)[:_MOST_ACCOUNTS]]

    @cached_property
    def _best(self) -> list[int]:
        return best_vertices(self.run_path, "left", self.top)

    @cached_property
    def _scores(self) -> Mapping[tuple[str, int], Row]:
        """The rows of `vertex_scores` for all members and the best left vertices."""
        members = (row["vertex"] for case in self.cases for row in case.members)
        return scores_of(self.run_path, (*members, *self._best))

    def written(self, most: int) -> Iterator[tuple[str, str]]:
        """Yield a row of the list and a section per case, with at most `most` members per side."""
        # Each account has one anchor: in the list of accounts, or else where it first appears.
        anchored = set(self.by_score)
        for at, case in enumerate(self.cases):
            yield self._listed(at, case), self._section(at, case, most, anchored)

    def _listed(self, at: int, case: Case) -> str:
        row = case.row
        cells = [(name, *_cell(name, row)) for name, _ in self.columns]
        kinds = dict.fromkeys(kind_of(group) for group in case.groups)
        places = sorted({self.keys.index(group["key"]) for group in case.groups if group["key"] is not None})
        facts = {
            "size": row["n_left"],
            "p": row["p_bound"],
            "known": row["n_known"],
            "since": row["since"],
            "kind": " ".join(kinds),
            "key": " ".join(map(str, places)),
        }
        return fragment(TEMPLATE, "listed", at + 1, case.id, facts, cells)

    def _section(self, at: int, case: Case, most: int, anchored: set[int]) -> str:
        names, row, head = self.names, case.row, case.head
        is_alone = len(case.groups) == 1
        headings = dict(self.columns) | {"largest_weight_total": weight_name(self.manifest, [case])}
        return fragment(
            TEMPLATE,
            "case",
            at + 1,
            case.id,
            f"{several(names[0], row['n_left'])}, {several(names[1], row['n_right'])}",
            row,
            # A case can be larger than the group in its sentence and pictures.
            ("" if is_alone else "Its first group, drawn below: ") + sentence(head["explanation"], names),
            [(headings[name], _cell(name, row)[0]) for name in _FACTS if row[name] is not None],
            Markup(self._pictures(head)),
            self._both(self._members(head) if is_alone else case.members, most, anchored),
            [self._group(group, head, most, whole=not is_alone) for group in case.groups],
            self._other_cases(at, case),
            names,
            weight_name(self.manifest),
        )

    def _group(self, group: Row, head: Row, most: int, *, whole: bool) -> dict[str, Any]:
        """Return a group's values for the template, with members if `whole`; the head's pictures are elsewhere."""
        halo, members = self._rows("group_halo", group), self._members(group)
        core = [row["side"] for row in members if row["is_core"]] if group["kind"] == "grown_cover" else []
        return {
            **group,
            "kind_name": kind_of(group),
            "key_name": key_name(group["key"], self.names[1]),
            "p_text": chance(group["p_bound"]),
            "known_p_text": chance(group["known_p_value"]),
            "sentence": "" if group is head else sentence(group["explanation"], self.names),
            "members": self._both(members, most) if whole else None,
            "pictures": "" if group is head else Markup(self._pictures(group)),
            "core": [core.count("left"), core.count("right")],
            "halo": [
                ([self._written(row) for row in rows[:_SHOWN_HALO]], len(rows))
                for rows in ([row for row in halo if row["side"] == side] for side in ("left", "right"))
            ],
        }

    def _written(self, row: Row) -> Markup:
        """Format the key of a member of a group."""
        is_split = row["side"] == "right" and (row.get("key_value") is not None or has_parts(self.manifest.config))
        whole = narrowed_key(row["key"], row.get("key_value"))
        # Most keys are plain text and need no elements that isolate them from the surrounding text.
        text = key_text(whole) if is_split else str(whole)
        if all(_PLAIN.fullmatch(part) for part in text.split(" · ")):
            return Markup(text)
        return tuple_key(whole) if is_split else key(whole)

    def _both(self, rows: Sequence[Row], most: int, anchored: set[int] | None = None) -> list[Mapping[str, Any]]:
        """Return the members of both sides for the template, best scores first.

        `anchored` has the accounts that already have an anchor. If it is given, other accounts get theirs here, and
        scores are shown.
        """
        found: list[Mapping[str, Any]] = []
        for side, name in zip(("left", "right"), self.names, strict=True):
            ordered = sorted((row for row in rows if row["side"] == side), key=self._by_score)
            n = len({row["vertex"] for row in ordered})
            items = [Markup(self._member(row, anchored)) for row in ordered[:most]]
            found.append(
                {
                    "side": side,
                    "total": len(ordered),
                    "title": several(name, n) + (f" ({len(ordered):,} with the key)" if n < len(ordered) else ""),
                    "open": items[:_OPEN],
                    "more": items[_OPEN:],
                }
            )
        return found

    def _by_score(self, row: Row) -> tuple[float, float, int]:
        score = self._scores.get((row["side"], row["vertex"]), {"score": 0.0, "grown_surprise": 0.0})
        return (-score["score"], -score["grown_surprise"], row["vertex"])

    def _member(self, row: Row, anchored: set[int] | None) -> str:
        written, vertex = self._written(row), row["vertex"]
        label = "" if row["label"] is None else f"<i>{key(row['label'])}</i>"
        if anchored is None:
            return f"<li>{written}{label}</li>"
        score = self._scores.get((row["side"], vertex))
        value = "" if score is None else f"<b>{score['score']:.3f}</b>"
        if row["side"] == "right":
            return f"<li>{written}{value}{label}</li>"
        if vertex in anchored:
            return f'<li><a href="#a{vertex}">{written}</a>{value}{label}</li>'
        anchored.add(vertex)
        return f'<li id="a{vertex}"><h4>{written}</h4>{value}{label}</li>'

    @cached_property
    def _tables(self) -> dict[str, dict[int, pa.Table]]:
        has_times = self.manifest.config.input.timestamp is not None
        names: tuple[Table, ...] = ("group_members", "group_edges", "group_halo", "group_times")
        names = names if has_times else names[:-1]
        return {name: _by_group(table_of(self.run_path, name)) for name in names}

    def _rows(self, name: str, group: Row) -> list[dict[str, Any]]:
        found = self._tables.get(name, {}).get(group["group_key"])
        return [] if found is None else found.to_pylist()

    def _members(self, group: Row) -> list[dict[str, Any]]:
        """Return the members of a group, most edges first."""
        return sorted(self._rows("group_members", group), key=lambda row: (-row["n_edges"], row["vertex"]))

    def _pictures(self, group: Row) -> str:
        members = self._members(group)
        left, right = ([row for row in members if row["side"] == side] for side in ("left", "right"))
        absent = self._absent(group, left[:MOST_ROWS], right[:MOST_COLUMNS])
        left_shares, right_shares = ([row["edge_share"] for row in side] for side in (left, right))
        times = time_line(group, self._rows("group_times", group))
        return pattern(left_shares, right_shares, absent, self.names) + times

    def _absent(self, group: Row, left: Sequence[Row], right: Sequence[Row]) -> list[tuple[int, int]]:
        """Return the missing edges between the members of a picture, by their positions."""
        edges = self._tables["group_edges"].get(group["group_key"])
        present: set[tuple[int, int, str | None]] = set()
        if edges is not None:
            for side, rows in (("left", left), ("right", right)):
                edges = edges.filter(pc.is_in(edges[side], pa.array([row["vertex"] for row in rows], pa.int32())))
            present = set(zip(*(edges[name].to_pylist() for name in ("left", "right", "key_value")), strict=True))
        return [
            (i, k)
            for i, one in enumerate(left)
            for k, other in enumerate(right)
            if (one["vertex"], other["vertex"], other["key_value"]) not in present
        ]

    def _other_cases(self, at: int, case: Case) -> tuple[list[tuple[int, str]], int]:
        """Return the cases that share the most left members, as number and text; and how many are left out."""
        lefts = (member["vertex"] for member in case.members if member["side"] == "left")
        shared = Counter(other for vertex in lefts for other in self.places[vertex] if other != at)
        ordered = sorted(shared.items(), key=lambda item: (-item[1], item[0]))
        shown = [(other + 1, several(self.names[0], n)) for other, n in ordered[:_MOST_LINKS]]
        return shown, len(ordered) - len(shown)

    def accounts(self, n_cases: int, n_open: int) -> str:
        """Return the list of accounts, the first `n_open` unfolded, with links to the first `n_cases` cases."""
        entries = [self._account(self._scores["left", vertex], n_cases) for vertex in self.by_score]
        n_cut = len(self.places.keys() - set(self.by_score))
        return fragment(TEMPLATE, "accounts", entries, n_open, n_cut, self.names[0], members_name(self.names[1]))

    def _account(self, row: Row, n_cases: int) -> str:
        cases = [at for at in self.places.get(row["vertex"], ()) if at < n_cases]
        links = ", ".join(f'<a href="#c{at + 1}">case {at + 1}</a>' for at in cases[:_MOST_LINKS])
        more = f" and {len(cases) - _MOST_LINKS} more" if len(cases) > _MOST_LINKS else ""
        return (
            f'<li id="a{row["vertex"]}"><b>{row["score"]:.3f}</b><h3>{key(row["key"])}</h3>'
            f"<span>{escape(several(self.names[1], row['degree']))}</span>"
            f"<span>{percent(row['group_edge_share'], 1)}</span><span>{links}{more}</span></li>"
        )


def file_of_page(name: str) -> str:
    """Return the style sheet or the script of the page."""
    return files("mbe_stage.pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _by_group(table: pa.Table) -> dict[int, pa.Table]:
    """Split a table, whose rows are in the order of groups, into the rows of each group."""
    keys = table["group_key"].to_numpy()
    starts = [0, *((keys[1:] != keys[:-1]).nonzero()[0] + 1).tolist()] if len(keys) else []
    ends = [*starts[1:], len(keys)]
    return {int(keys[start]): table.slice(start, end - start) for start, end in zip(starts, ends, strict=False)}


def kind_of(group: Row) -> str:
    """Return the kind of a group in one word."""
    if group["n_left"] <= 2:
        return "pair"
    return "grown" if group["kind"] == "grown_cover" else "complete"


def since_name(since: str | None) -> str:
    """Return the change of a case in a word."""
    return "unchanged" if since == "same" else since or ""


def chance(value: float | None) -> str:
    """Format a probability."""
    if value is None:
        return "not known"
    return "below 1e-300" if value < 1e-300 else f"{value:.1g}" if value < 0.01 else f"{value:.2f}"


def _cell(name: str, row: Row) -> tuple[str, str]:
    """Return the text of a cell of the list, and its sort key if that differs from the text."""
    value = row[name]
    if value is None:
        return "", ""
    if name == "since":
        return since_name(value), str(SINCE.index(value))
    if name == "first_time":
        last = row["last_time"]
        days = dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (value, last))
        return " – ".join(days), f"{(last - datetime(1970, 1, 1)).total_seconds():.0f}"
    if name == "p_bound":
        return chance(value), f"{-row['surprise']:.4g}"
    if name == "largest_weight_total":
        return amount_text(value), f"{value!r}"
    return (value if name == "verdict" else f"{value:,}"), ""
