"""The pages of `mbe explore`: cases, members, rows, a comparison of runs, and verdicts.

One thread answers one request after the other, since one person asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mbe_stage.errors import StageError
from mbe_stage.pipeline.cases.explore.picture import LEFT_X, MOST_NODES, RIGHT_X, WIDTH, picture_of
from mbe_stage.pipeline.cases.explore.tables import MOST_FOUND, RunTables
from mbe_stage.pipeline.cases.finding import finding_of
from mbe_stage.pipeline.cases.published import Case, cases_of, side_names
from mbe_stage.pipeline.cases.verdicts import MOST_NOTE, VERDICTS, Verdicts
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.report.request import right_key
from mbe_stage.pipeline.report.wording import fragment, key, render
from mbe_stage.pipeline.wording import group_key_text, key_text

_PARTS = "explore_parts.html"
_ROWS_A_PAGE = 100
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
        self._case_of = {group["group_key"]: case for case in self._cases.values() for group in case.groups}
        self._tables = RunTables(run_path)
        self._names = side_names(self._manifest.config, self._manifest.input.columns)
        self._finding = finding_of(run_path, self._manifest, list(self._cases.values()))
        self._right_key = right_key(self._manifest.config)
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
        scores = {
            side: self._tables.scores(side, (str(member["key"]) for member in members))
            for side, members in shown.items()
        }
        groups = [{**group, "key_text": group_key_text(group)} for group in case.groups]
        body = fragment(
            _PARTS,
            "case",
            case,
            groups,
            self._drawn(picture),
            [(side, name, shown[side], scores[side]) for side, name in zip(shown, self._names, strict=True)],
            self._of_side,
            self._verdicts.history(case.id),
            self._next_open(case),
            VERDICTS,
        )
        return self._page(f"Case {case.id}", body, case)

    def _drawn(self, picture: Any) -> str:
        return fragment(_PARTS, "drawing", picture, self._names, (WIDTH, LEFT_X, RIGHT_X), MOST_NODES)

    def _rows(self, request: Request) -> Response:
        case = self._wanted(request.path_params["case"])
        page = _number(request.query_params.get("page", "1"))
        rows = self._tables.edge_rows(_group_keys(case), _ROWS_A_PAGE + 1, _ROWS_A_PAGE * (page - 1))
        names = [*self._names, "adds"]
        source = "edges of its groups, as published"
        body = fragment(_PARTS, "rows", case, names, rows[:_ROWS_A_PAGE], source, page, len(rows) > _ROWS_A_PAGE)
        return self._page(f"Rows of case {case.id}", body, case)

    def _search(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()[:_LONGEST_SEARCH]
        found = self._tables.search(text) if text else []
        body = fragment(
            _PARTS,
            "found",
            text,
            found,
            dict(zip(("left", "right"), self._names, strict=True)),
            self._of_side,
            MOST_FOUND,
        )
        return self._page("Search", body, searched=text)

    def _member(self, request: Request) -> Response:
        side, name = request.query_params.get("side", ""), request.query_params.get("key", "")
        score = self._tables.scores(side, [name]).get(name)
        if score is None:
            raise HTTPException(404, "This run has no such member.")
        groups = sorted(
            ((self._case_of[group], group) for group in self._tables.groups_of(side, name)),
            key=lambda each: self._group(*each)["rank"],
        )
        rows = [(case, self._group(case, group)) for case, group in groups]
        side_name = self._names[side == "right"]
        body = fragment(_PARTS, "member", side_name, self._of_side[side](name), score, rows)
        return self._page(f"{side_name} {name}", body)

    @staticmethod
    def _group(case: Case, group_key: int) -> dict[str, Any]:
        return next(group for group in case.groups if group["group_key"] == group_key)

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
        lists_cases: bool = True,
    ) -> Response:
        verdicts = self._verdicts.current() if lists_cases else {}
        text = render(
            "explore.html",
            title=title,
            body=body,
            manifest=self._manifest,
            finding=self._finding,
            cases=[(each, verdicts.get(each.id, {}).get("verdict")) for each in self._cases.values()],
            chosen=None if case is None else case.id,
            searched=searched,
            can_compare=bool(self._other_runs),
        )
        return HTMLResponse(text, status)

    def _wanted(self, case: str) -> Case:
        if case not in self._cases:
            raise HTTPException(404, "This run has no such case.")
        return self._cases[case]

    def _next_open(self, case: Case) -> Case | None:
        """Return the next case without a decision, from the top again after the last one."""
        decided = {name for name, row in self._verdicts.current().items() if row["verdict"] != "open"}
        ids = list(self._cases)
        at = ids.index(case.id)
        left = (name for name in (*ids[at + 1 :], *ids[:at]) if name not in decided)
        return self._cases.get(next(left, ""))

    async def _not_found(self, _request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._page("Not found", fragment(_PARTS, "problem", error.detail), status=error.status_code)

    async def _not_possible(self, _request: Request, error: Exception) -> Response:
        return self._page("Not possible", fragment(_PARTS, "problem", str(error)), status=400, lists_cases=False)


def compared(old: Iterable[Case], new: Iterable[Case]) -> list[dict[str, Any]]:
    """Return how the cases of two runs differ, by their left members: gone ones last, equal ones left out.

    Each has the keys `case`, `status`, `old` and `new` (sizes, or None), `joined` and `left` (keys).
    """
    before, now = ({case.id: case for case in cases} for cases in (old, new))
    rows = []
    for name in dict.fromkeys((*now, *before)):
        was, is_ = (_left_keys(cases.get(name)) for cases in (before, now))
        joined, left = sorted(is_ - was), sorted(was - is_)
        if name not in before or name not in now:
            status = "gone" if name in before else "new"
        elif joined or left:
            status = "changed" if joined and left else "grown" if joined else "shrunk"
        else:
            continue
        sizes = {"old": _size(before.get(name)), "new": _size(now.get(name))}
        rows.append({"case": name, "status": status, **sizes, "joined": joined, "left": left})
    return rows


def _left_keys(case: Case | None) -> set[str]:
    return set() if case is None else {str(each["key"]) for each in case.members if each["side"] == "left"}


def _size(case: Case | None) -> tuple[int, int] | None:
    return None if case is None else (case.row["n_left"], case.row["n_right"])


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
