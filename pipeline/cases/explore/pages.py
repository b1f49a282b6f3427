"""The pages of `mbe explore`: cases, members, rows, a comparison of runs, and verdicts.

Tables are the same as in `mbe show` and `mbe diff`. A single thread answers all requests, since there is one user.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mbe_stage.errors import StageError
from mbe_stage.pipeline.cases.changes import compared
from mbe_stage.pipeline.cases.explore.picture import LEFT_X, MOST_NODES, RIGHT_X, WIDTH, picture_of
from mbe_stage.pipeline.cases.explore.search import MOST_FOUND, search
from mbe_stage.pipeline.cases.looking import SIDES, Looking, Table
from mbe_stage.pipeline.cases.published import Case, cases_of, table_of
from mbe_stage.pipeline.cases.verdicts import MOST_NOTE, VERDICTS, Verdicts
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.report.wording import fragment, render
from mbe_stage.pipeline.stores.open_store import is_there, was_in_memory
from mbe_stage.pipeline.wording import has_parts, key_text

_PARTS = "explore_parts.html"
_ROWS_A_PAGE = 100
_LONGEST_SEARCH = 200
_MOST_CHANGES = 200
# A character of a note takes at most four bytes, and a byte three characters of the form.
_LONGEST_FORM = 12 * MOST_NOTE + 1_000


class Explorer:
    """The pages of a run with groups; `other_runs` are the runs to compare with, by id, newest first.

    Endpoints are coroutines, so they run in the server's thread, not in a thread pool.
    """

    def __init__(self, run_path: Path, verdicts: Verdicts, other_runs: Mapping[str, Path]) -> None:
        self._run_path, self._verdicts, self._other_runs = run_path, verdicts, other_runs
        self._manifest = read_manifest(run_path)
        self._cases = {case.id: case for case in cases_of(run_path)}
        # The rows of one case only, because a case may have millions.
        self._rows_of: tuple[str, pa.Table | None, str] = ("", None, "")

    def app(self) -> Starlette:
        """Return the application, without its gate."""
        pages = {
            "/": self._case,
            "/cases/{case}": self._case,
            "/cases/{case}/rows": self._rows,
            "/search": self._search,
            "/member": self._member,
            "/compare": self._compare,
            "/explore.css": self._style,
        }
        routes = [Route(path, page, methods=["GET"]) for path, page in pages.items()]
        routes.append(Route("/verdicts", self._decide, methods=["POST"]))
        return Starlette(routes=routes, exception_handlers=dict.fromkeys((HTTPException, StageError), self._problem))

    async def _style(self, _request: Request) -> Response:
        return Response(render("explore.css"), media_type="text/css")

    async def _case(self, request: Request) -> Response:
        wanted = request.path_params.get("case") or next(iter(self._cases), None)
        if wanted is None:
            return self._page("No cases", "")
        case, looking = self._wanted(wanted), self._looking()
        edges = table_of(self._run_path, "group_edges", [group["group_key"] for group in case.groups])
        distinct = edges.group_by(["left", "right"], use_threads=False).aggregate([])
        pairs = zip(*(distinct[side].to_pylist() for side in SIDES), strict=True)
        picture = picture_of(case.members, pairs, key_text if has_parts(self._manifest.config) else str)
        drawn = fragment(_PARTS, "drawing", picture, looking.names, (WIDTH, LEFT_X, RIGHT_X), MOST_NODES)
        history, undecided = self._verdicts.history(case.id), _next_open(case.id, looking)
        body = fragment(_PARTS, "case", case.id, looking.case(case.id), drawn, history, undecided, VERDICTS)
        return self._page(f"Case {case.id}", body, looking=looking, chosen=case.id)

    async def _rows(self, request: Request) -> Response:
        case = self._wanted(request.path_params["case"])
        text = request.query_params.get("page", "1")[:9]
        if not (text.isascii() and text.isdigit() and (number := int(text))):
            raise HTTPException(404, "There is no such page.")
        if self._rows_of[0] != case.id:
            self._rows_of = (case.id, *self._read_rows(case))
        _, rows, missing = self._rows_of
        part = (pa.table({}) if rows is None else rows).slice(_ROWS_A_PAGE * (number - 1), _ROWS_A_PAGE)
        found = list(zip(*(column.to_pylist() for column in part.columns), strict=True))
        n_rows = 0 if rows is None else rows.num_rows
        table = Table("Rows", part.column_names, found, [{}] * len(found))
        body = fragment(_PARTS, "rows", case.id, table, n_rows, missing, number, n_rows > _ROWS_A_PAGE * number)
        return self._page(f"Rows of case {case.id}", body, chosen=case.id)

    def _read_rows(self, case: Case) -> tuple[pa.Table | None, str]:
        """Return the input rows behind a case; if the input cannot be read, None and the reason."""
        path, source = self._manifest.config.input.path, self._manifest.input.source
        if path is None or was_in_memory(source) or not is_there(path):
            return None, f"{source}: the input of the run is no longer there"
        # Imported here, because only this page reads the input.
        from mbe_stage.pipeline.cases.input_rows import rows_behind

        try:
            return rows_behind(self._run_path, self._manifest, case), ""
        except StageError as error:
            return None, str(error)

    async def _search(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()[:_LONGEST_SEARCH]
        looking, found = self._looking(), search(self._run_path, text) if text else []
        body = fragment(_PARTS, "found", text, len(found), looking.found(found), MOST_FOUND)
        return self._page("Search", body, looking=looking, searched=text)

    async def _member(self, request: Request) -> Response:
        side, name = request.query_params.get("side", ""), request.query_params.get("key", "")
        looking = self._looking()
        try:
            view = looking.vertex(name, next(each for each in SIDES if each == side))
        except (InputError, StopIteration):
            raise HTTPException(404, "This run has no such member.") from None
        return self._page(f"{looking.names[side]} {name}", fragment(_PARTS, "view", view), looking=looking)

    async def _compare(self, request: Request) -> Response:
        wanted = request.query_params.get("with", "")
        if wanted and wanted not in self._other_runs:
            raise HTTPException(404, "There is no such run beside this one.")
        found = compared(self._other_runs[wanted], self._run_path, _MOST_CHANGES, None) if wanted else None
        return self._page("Compare", fragment(_PARTS, "compared", wanted, list(self._other_runs), found))

    async def _decide(self, request: Request) -> Response:
        form = await _form(request)
        case = self._wanted(form.get("case", ""))
        self._verdicts.label(case, self._manifest.run_id, form.get("verdict", ""), form.get("note", "").strip())  # type: ignore[arg-type]  # checked there
        return RedirectResponse(f"/cases/{case.id}", 303)

    async def _problem(self, _request: Request, error: Exception) -> Response:
        status, text = (error.status_code, error.detail) if isinstance(error, HTTPException) else (400, str(error))
        title, body = "Not found" if status == 404 else "Not possible", fragment(_PARTS, "problem", text)
        try:
            return self._page(title, body, status)
        except StageError:
            # The verdicts cannot be read, so show the page without them.
            return self._page(title, body, status, self._looking(has_verdicts=False))

    def _looking(self, *, has_verdicts: bool = True) -> Looking:
        """Return the views of the run with the current verdicts."""
        verdicts = self._verdicts if has_verdicts and self._verdicts.path.exists() else None
        return Looking(self._run_path, str(self._run_path), verdicts, list(self._cases.values()))

    def _page(self, title: str, body: str, status: int = 200, looking: Looking | None = None, **asked: str) -> Response:
        """Return a page; `asked` has the shown case as `chosen`, or the searched text as `searched`."""
        about = {"chosen": None, "searched": "", **asked, **(looking or self._looking()).finding().values}
        can_compare = bool(self._other_runs)
        text = render("explore.html", title=title, body=body, manifest=self._manifest, can_compare=can_compare, **about)
        return HTMLResponse(text, status)

    def _wanted(self, case: str) -> Case:
        if case not in self._cases:
            raise HTTPException(404, "This run has no such case.")
        return self._cases[case]


def _next_open(case: str, looking: Looking) -> str | None:
    """Return the next case without a decision, starting over at the top after the last one."""
    rows = looking.finding().values["cases"]
    at = next(at for at, row in enumerate(rows) if row["case"] == case)
    return next((row["case"] for row in (*rows[at + 1 :], *rows[:at]) if row["verdict"] in (None, "open")), None)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form, each once."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LONGEST_FORM:
            raise HTTPException(413, f"The form is too long: a note has at most {MOST_NOTE:,} characters.")
    fields = parse_qs(body.decode("latin-1"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
