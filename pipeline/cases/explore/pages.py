"""The pages of `mbe explore`: cases, members, rows, a comparison of runs, and verdicts.

One thread answers one request after the other, since one person asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mbe_stage.errors import StageError
from mbe_stage.pipeline.cases.deciding import with_current_verdicts
from mbe_stage.pipeline.cases.explore.picture import LEFT_X, MOST_NODES, RIGHT_X, WIDTH, picture_of
from mbe_stage.pipeline.cases.explore.tables import MOST_FOUND, RunTables
from mbe_stage.pipeline.cases.finding import finding_of
from mbe_stage.pipeline.cases.published import Case, cases_of, side_names
from mbe_stage.pipeline.cases.sentences import sentence
from mbe_stage.pipeline.cases.verdicts import MOST_NOTE, VERDICTS, Verdicts
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.report.request import right_key
from mbe_stage.pipeline.report.wording import fragment, key, render
from mbe_stage.pipeline.stores.open_store import is_there, was_in_memory
from mbe_stage.pipeline.wording import group_key_text, key_text

_PARTS = "explore_parts.html"
_ROWS_A_PAGE = 100
_ALIKE = 0.5
_MEMBERS = 200
_LONGEST_SEARCH = 200
# A note is at most four bytes a character, each written as three.
_LONGEST_FORM = 12 * MOST_NOTE + 1_000


class Explorer:
    """A run, and its pages.

    Parameters
    ----------
    run_path : Path
        A run with groups on this machine.
    verdicts : Verdicts
    other_runs : mapping of str to Path
        Runs to compare with, by id, newest first.

    Raises
    ------
    PublishError
        The run has no groups, or cannot be read.
    """

    def __init__(self, run_path: Path, verdicts: Verdicts, other_runs: Mapping[str, Path]) -> None:
        self._run_path, self._verdicts, self._other_runs = run_path, verdicts, other_runs
        self._manifest = read_manifest(run_path)
        self._cases = {case.id: case for case in cases_of(run_path)}
        self._groups = {group["group_key"]: (group, case) for case in self._cases.values() for group in case.groups}
        self._tables = RunTables(run_path)
        self._names = side_names(self._manifest.config, self._manifest.input.columns)
        self._finding = finding_of(run_path, self._manifest, list(self._cases.values()))
        self._right_key = right_key(self._manifest.config)
        self._rows_of: dict[str, tuple[pa.Table | None, str]] = {}
        self._of_side: dict[str, Callable[[object], str]] = {"left": key, "right": self._right_key}

    def app(self) -> Starlette:
        """Return the application, without its gate."""
        pages: dict[str, Callable[[Request], Response]] = {
            "/": self._first,
            "/cases/{case}": self._case,
            "/cases/{case}/rows": self._rows,
            "/search": self._search,
            "/member": self._member,
            "/compare": self._compare,
            "/explore.css": _style,
        }
        routes = [Route(path, _answering(page), methods=["GET"]) for path, page in pages.items()]
        routes.append(Route("/verdicts", self._decide, methods=["POST"]))
        return Starlette(
            routes=routes, exception_handlers={HTTPException: self._not_found, StageError: self._not_possible}
        )

    # --- pages ----------------------------------------------------------------------------------------------------

    def _first(self, _request: Request) -> Response:
        case = next(iter(self._cases.values()), None)
        return self._page("No cases", "") if case is None else self._of_case(case)

    def _case(self, request: Request) -> Response:
        return self._of_case(self._wanted(request.path_params["case"]))

    def _of_case(self, case: Case) -> Response:
        picture = picture_of(
            case.members,
            lambda left, right: self._tables.edges(_group_keys(case), left, right),
            key_text if self._right_key is not key else str,
        )
        shown = {
            side: list(islice((member for member in case.members if member["side"] == side), _MEMBERS))
            for side in ("left", "right")
        }
        scores = self._tables.scores(
            (side, str(member["key"])) for side, members in shown.items() for member in members
        )
        listed = self._listed()
        groups = [{**group, "key_text": group_key_text(group)} for group in case.groups]
        body = fragment(
            _PARTS,
            "case",
            case,
            sentence(case.head["explanation"], self._names),
            groups,
            fragment(_PARTS, "drawing", picture, self._names, (WIDTH, LEFT_X, RIGHT_X), MOST_NODES),
            [(side, name, shown[side]) for side, name in zip(shown, self._names, strict=True)],
            scores,
            self._of_side,
            self._verdicts.history(case.id),
            _next_open(case, listed),
            VERDICTS,
        )
        return self._page(f"Case {case.id}", body, case, listed=listed)

    def _rows(self, request: Request) -> Response:
        case = self._wanted(request.path_params["case"])
        number = _number(request.query_params.get("page", "1"))
        start = _ROWS_A_PAGE * (number - 1)
        rows, missing = self._input_rows(case)
        if rows is None:
            names = [*self._names, "the group's key adds"]
            found = self._tables.edge_rows(_group_keys(case), _ROWS_A_PAGE + 1, start)
        else:
            names = rows.column_names
            part = rows.slice(start, _ROWS_A_PAGE + 1)
            found = list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        has_more = len(found) > _ROWS_A_PAGE
        n_rows = None if rows is None else rows.num_rows
        body = fragment(_PARTS, "rows", case, names, found[:_ROWS_A_PAGE], (n_rows, missing), number, has_more)
        return self._page(f"Rows of case {case.id}", body, case)

    def _input_rows(self, case: Case) -> tuple[pa.Table | None, str]:
        """Return the rows of the input behind a case; if the input cannot be read, None and the reason."""
        if case.id not in self._rows_of:
            # Of one case at a time, because a case may have millions.
            self._rows_of = {case.id: self._read_rows(case)}
        return self._rows_of[case.id]

    def _read_rows(self, case: Case) -> tuple[pa.Table | None, str]:
        path, source = self._manifest.config.input.path, self._manifest.input.source
        if path is None or was_in_memory(source) or not is_there(path):
            return None, f"{source}: the input of the run is no longer there"
        # Reading an input needs what the other pages do not.
        from mbe_stage.pipeline.cases.input_rows import rows_behind

        try:
            return rows_behind(self._run_path, self._manifest, case), ""
        except StageError as error:
            return None, str(error)

    def _search(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()[:_LONGEST_SEARCH]
        found = self._tables.search(text) if text else []
        names = {"left": self._names[0], "right": self._names[1]}
        body = fragment(_PARTS, "found", text, found, names, self._of_side, MOST_FOUND)
        return self._page("Search", body, searched=text)

    def _member(self, request: Request) -> Response:
        side, name = request.query_params.get("side", ""), request.query_params.get("key", "")
        score = self._tables.scores([(side, name)]).get((side, name))
        if score is None:
            raise HTTPException(404, "This run has no such member.")
        found = (self._groups[group] for group in self._tables.groups_of(side, name))
        rows = sorted(found, key=lambda each: each[0]["rank"])
        side_name = self._names[side == "right"]
        body = fragment(_PARTS, "member", side_name, self._of_side[side](name), score, rows)
        return self._page(f"{side_name} {name}", body)

    def _compare(self, request: Request) -> Response:
        wanted = request.query_params.get("with", "")
        if not wanted:
            return self._page("Compare", fragment(_PARTS, "choose", list(self._other_runs)))
        if wanted not in self._other_runs:
            raise HTTPException(404, "There is no such run beside this one.")
        changes = compared(cases_of(self._other_runs[wanted]), self._cases.values())
        body = fragment(_PARTS, "compared", wanted, list(self._other_runs), changes, self._names)
        return self._page("Compare", body)

    async def _decide(self, request: Request) -> Response:
        form = await _form(request)
        case = self._wanted(form.get("case", ""))
        self._verdicts.label(case, self._manifest.run_id, form.get("verdict", ""), form.get("note", "").strip())  # type: ignore[arg-type]  # checked there
        return RedirectResponse(f"/cases/{case.id}", 303)

    # --- what they share ------------------------------------------------------------------------------------------

    def _page(
        self,
        title: str,
        body: str,
        case: Case | None = None,
        *,
        searched: str = "",
        status: int = 200,
        listed: Sequence[Case] | None = None,
    ) -> Response:
        text = render(
            "explore.html",
            title=title,
            body=body,
            manifest=self._manifest,
            finding=self._finding,
            cases=self._listed() if listed is None else listed,
            chosen=None if case is None else case.id,
            searched=searched,
            can_compare=bool(self._other_runs),
        )
        return HTMLResponse(text, status)

    def _wanted(self, case: str) -> Case:
        if case not in self._cases:
            raise HTTPException(404, "This run has no such case.")
        return self._cases[case]

    def _listed(self) -> list[Case]:
        """Return the cases with the verdicts of today."""
        if not self._verdicts.path.exists():
            return list(self._cases.values())
        return with_current_verdicts(list(self._cases.values()), self._manifest, self._verdicts)

    async def _not_found(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._page("Not found", fragment(_PARTS, "problem", error.detail), status=error.status_code)

    async def _not_possible(self, _request: Request, error: Exception) -> Response:
        return self._page("Not possible", fragment(_PARTS, "problem", str(error)), status=400, listed=())


def compared(old: Iterable[Case], new: Iterable[Case]) -> list[dict[str, Any]]:
    """Return how the cases of two runs differ, by their left members; equal ones are left out, and gone ones come last.

    The partner of a case has its id, or at least half of all their left members are common. Each row has the keys
    `case`, `status`, `old` and `new` (sizes, or None), `joined` and `left` (keys).
    """
    before, new = {case.id: case for case in old}, list(new)
    # A case that kept its id is nobody else's partner.
    own = {case.id: before.pop(case.id, None) for case in new}
    rows = []
    for case in new:
        partner = own[case.id] or _partner(case, before)
        before.pop(partner.id if partner else "", None)
        rows.append(_change(partner, case))
    rows += [_change(case, None) for case in before.values()]
    return [row for row in rows if row["status"] != "same"]


def _partner(case: Case, others: Mapping[str, Case]) -> Case | None:
    """Return the case with the most similar left members, if they are similar."""
    keys = _left_keys(case)
    likeness = {name: len(keys & (theirs := _left_keys(other))) / len(keys | theirs) for name, other in others.items()}
    best = max(likeness, key=lambda name: likeness[name], default=None)
    return None if best is None or likeness[best] < _ALIKE else others[best]


def _change(old: Case | None, new: Case | None) -> dict[str, Any]:
    was, is_ = _left_keys(old), _left_keys(new)
    joined, left = sorted(is_ - was), sorted(was - is_)
    words = (("same", "shrunk"), ("grown", "changed"))[bool(joined)][bool(left)]
    status = "new" if old is None else "gone" if new is None else words
    sizes = [None if case is None else (case.row["n_left"], case.row["n_right"]) for case in (old, new)]
    name = (new or old).id  # type: ignore[union-attr]  # one of them is there
    return {"case": name, "status": status, "old": sizes[0], "new": sizes[1], "joined": joined, "left": left}


def _next_open(case: Case, cases: Sequence[Case]) -> Case | None:
    """Return the next case without a decision, from the top again after the last one."""
    at = next(at for at, each in enumerate(cases) if each.id == case.id)
    following = (*cases[at + 1 :], *cases[:at])
    return next((each for each in following if each.row["verdict"] in (None, "open")), None)


def _left_keys(case: Case | None) -> set[str]:
    return set() if case is None else {str(each["key"]) for each in case.members if each["side"] == "left"}


def _answering(page: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that runs in the thread of the server, not in one of a pool."""

    async def endpoint(request: Request) -> Response:
        return page(request)

    return endpoint


def _style(_request: Request) -> Response:
    return Response(render("explore.css"), media_type="text/css")


def _group_keys(case: Case) -> list[int]:
    return [group["group_key"] for group in case.groups]


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text[:9]) >= 1:
        raise HTTPException(404, "There is no such page.")
    return int(text[:9])


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form, each once."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_FORM:
            raise HTTPException(413, f"The form is too long: a note has at most {MOST_NOTE:,} characters.")
    fields = parse_qs(body.decode("latin-1"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
