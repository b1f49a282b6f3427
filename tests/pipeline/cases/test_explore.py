"""`mbe explore`: access control over plain HTTP, its pages, and both in a real browser."""

from __future__ import annotations

import http.client
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.cases.published import Case, cases_of
from mbe_stage.pipeline.cases.verdicts import Verdicts, verdicts_path
from mbe_stage.pipeline.cli.explore import _runs_beside, explore
from mbe_stage.pipeline.errors import ConfigError, PublishError
from tests.browser import opened, violations
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline.groups_support import EDGES, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("starlette", reason="the extra explore is not installed")

import duckdb

from mbe_stage.pipeline.cases.explore.pages import Explorer
from mbe_stage.pipeline.cases.explore.picture import MOST_NODES, picture_of
from mbe_stage.pipeline.cases.explore.search import closed_database
from mbe_stage.pipeline.cases.explore.server import HEADERS, Gate, Server

HOSTILE = "<img src=x onerror=alert(1)>'\"; DROP TABLE groups; --\x1b[2J\u202e"
SQL = ("' OR 1=1 --", "%", "_", "'; DROP TABLE group_members; --", "\\", "\x00", "read_csv('/etc/passwd')")


def edges() -> pa.Table:
    """The planted groups; one account of the first ring has a hostile name."""
    left = [HOSTILE if key == "ring 0 <0>" else key for key in EDGES["l"].to_pylist()]
    return EDGES.set_column(0, "l", pa.array(left))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs in one directory; in the first one, the second ring lacks an account."""
    out = tmp_path_factory.mktemp("explore") / "out"
    table = edges()
    table = table.append_column("paid", pa.array([f"<b>{at}</b>" for at in range(table.num_rows)]))
    is_in_first = pa.array([key != "ring 1 <0>" for key in table["l"].to_pylist()])
    path = out.parent / "edges.parquet"
    of_file = settings(out, input={"path": str(path), "left": "l", "right": "r"}, groups={"try_keys": "plain"})
    made = []
    for given in (table.filter(is_in_first), table):
        pq.write_table(given, path)
        made.append(run(of_file).run_dir)
    return made[0], made[1]


class Client:
    """An HTTP client that sends exactly the given headers."""

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"http://(127\.0\.0\.1:([0-9]+))(/\?token=[\w-]{43})", address)
        assert found is not None
        self.host, self.port, self.entrance = found[1], int(found[2]), found[3]
        self.cookie = ""

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, host: str | None = None, **headers: str | None
    ) -> tuple[int, str, Any]:
        """Send a request with the cookie, if there is one; omit headers that are None."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host=True)
        given = {"host": host or self.host, "cookie": self.cookie or None, **headers}
        for name, value in given.items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
            connection.putheader("content-type", "application/x-www-form-urlencoded")
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer.headers

    def enter(self) -> None:
        status, _, headers = self.ask(self.entrance)
        assert (status, headers["location"]) == (303, "/")
        self.cookie = headers["set-cookie"].partition(";")[0]

    def decide(self, case: str, verdict: str, note: str = "", **headers: str | None) -> int:
        body = urlencode({"case": case, "verdict": verdict, "note": note})
        given: dict[str, str | None] = {"origin": f"http://{self.host}", **headers}
        return self.ask("/verdicts", "POST", body, **given)[0]


@pytest.fixture(scope="module")
def server(runs: tuple[Path, Path]) -> Iterator[Server]:
    run_dir = runs[1]
    verdicts = Verdicts.open(verdicts_path(run_dir.parent.parent))
    started = Server(Explorer(run_dir, verdicts, _runs_beside(run_dir)).app(), 0)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def entered(server: Server) -> Client:
    client = Client(server.address)
    client.enter()
    return client


@pytest.fixture(scope="module")
def cases(runs: tuple[Path, Path]) -> list[Case]:
    return cases_of(runs[1])


# --- the gate -----------------------------------------------------------------------------------------------------


def test_the_token_is_exchanged_once_for_a_strict_cookie(runs: tuple[Path, Path]) -> None:
    started = Server(Explorer(runs[1], Verdicts.open(runs[1].parent / "none"), {}).app(), 0)
    started.start()
    client = Client(started.address)
    try:
        assert client.ask("/")[0] == 403
        for wrong in ("/?token=", "/?token=a", client.entrance[:-1], "/?token=%C3%BC"):
            assert client.ask(wrong)[0] == 403
        assert client.ask(client.entrance, host="evil.example")[0] == 403
        status, text, headers = client.ask(client.entrance)
        assert status == 303
        assert text == ""
        name, *attributes = headers["set-cookie"].split("; ")
        assert sorted(map(str.lower, attributes)) == ["httponly", "path=/", "samesite=strict"]
        assert client.entrance.partition("=")[2] not in str(headers)
        # The token works once: another browser is refused.
        status, text, headers = client.ask(client.entrance)
        assert status == 403
        assert "not known yet" in text
        assert "set-cookie" not in headers
        # The browser that used the token is let in again.
        status, _, headers = client.ask(client.entrance, cookie=name)
        assert (status, headers["location"]) == (303, "/")
        assert client.ask("/", cookie=name)[0] == 200
        assert client.ask("/", cookie=f"{name[:-1]}!")[0] == 403
        assert client.ask("/", cookie=name.replace("mbe", "x"))[0] == 403
    finally:
        started.stop()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", "[::1]", ""])
def test_another_name_of_the_host_is_refused(entered: Client, host: str) -> None:
    host = host.replace(":1", f":{entered.port + 1}")
    status, text, _ = entered.ask("/", host=host or "\t")
    assert status in (400, 403)
    assert "ring" not in text
    assert entered.ask("/", host=f"localhost:{entered.port}")[0] == 200


def test_two_names_of_the_host_are_refused(entered: Client) -> None:
    assert entered.ask("/", HOST="evil.example")[0] in (400, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "https://127.0.0.1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"cookie": None},
        {"cookie": "mbe-explore=1"},
    ],
)
def test_other_sites_cannot_post_verdicts(entered: Client, cases: list[Case], headers: dict[str, str | None]) -> None:
    assert entered.decide(cases[0].id, "fraud", **headers) == 403
    if "cookie" not in headers and headers.get("origin", "x") is not None:
        assert entered.ask("/", **headers)[0] == 403


def test_verdicts_are_decided_by_post_only(entered: Client, cases: list[Case], runs: tuple[Path, Path]) -> None:
    asked = urlencode({"case": cases[0].id, "verdict": "fraud"})
    assert entered.ask(f"/verdicts?{asked}")[0] == 405
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        assert entered.ask("/verdicts", method, asked, origin=f"http://{entered.host}")[0] == 405
    assert not verdicts_path(runs[1].parent.parent).exists()


def test_every_answer_has_the_headers(entered: Client, server: Server) -> None:
    for client in (entered, Client(server.address)):
        for path in ("/", "/explore.css", "/none", client.entrance, "/verdicts"):
            found = client.ask(path)[2]
            assert {name: found[name] for name in HEADERS} == HEADERS
            assert "server" not in found
    assert "script" not in HEADERS["content-security-policy"]
    assert "unsafe" not in HEADERS["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/cases/..%2f..%2fmanifest.json",
        "/cases/../../manifest.json",
        "/static/../explore.css",
        "//etc/passwd",
        "/manifest.json",
        "/compare?with=../../..",
        "/compare?with=%2Fetc",
        "/cases/%00",
        "/cases/%ff/rows",
    ],
)
def test_unknown_paths_are_not_found(entered: Client, path: str) -> None:
    status, text, _ = entered.ask(path)
    assert status == 404
    assert "root:" not in text
    assert '"run_id"' not in text


def test_the_gate_passes_only_http() -> None:
    async def app(*_: Any) -> None:
        raise AssertionError("passed on")

    with pytest.raises(StopIteration):
        Gate(app, 80)({"type": "websocket"}, None, None).send(None)  # type: ignore[arg-type,attr-defined]


def test_a_taken_port_is_refused(server: Server, runs: tuple[Path, Path]) -> None:
    port = Client(server.address).port
    with pytest.raises(ConfigError, match=f"port {port}: cannot be used"):
        Server(Explorer(runs[1], Verdicts.open(runs[1].parent / "none"), {}).app(), port)


# --- the search ---------------------------------------------------------------------------------------------------


def test_duckdb_reads_only_the_given_tables(tmp_path: Path) -> None:
    secret = pa.table({"secret": [1]})
    scores = pa.table({"score": [1.0]}).to_reader()
    database = closed_database(vertex_scores=scores)
    assert secret.num_rows
    for query in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('/x.parquet')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM secret",
        f"COPY vertex_scores TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'other.db'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
    ):
        with pytest.raises(duckdb.Error):
            database.execute(query)
    assert database.execute("SELECT * FROM vertex_scores").fetchall() == [(1.0,)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_request_is_plain_text(entered: Client, text: str) -> None:
    status, page, _ = entered.ask(f"/search?{urlencode({'q': text})}")
    assert status == 200
    assert "No member has" in page or "Give a key" in page
    assert entered.ask(f"/member?{urlencode({'side': text, 'key': text})}")[0] == 404


def test_a_search_finds_members_in_any_case(entered: Client) -> None:
    page = entered.ask("/search?q=RING+0")[1]
    assert "7 members" in page
    assert entered.ask("/search?q=drop+table")[1].count("/member?side=left") == 1
    assert "Give a key" in entered.ask("/search")[1]
    # Integer keys.
    assert "/member?side=right&amp;key=-203" in entered.ask("/search?q=-203")[1]


# --- pages --------------------------------------------------------------------------------------------------------


def test_the_first_page_is_the_first_case(entered: Client, cases: list[Case]) -> None:
    page = entered.ask("/")[1]
    assert f"<h1>Case {cases[0].id}</h1>" in page
    assert page.count('class="node left"') == cases[0].row["n_left"]
    assert page.count('class="node right"') == cases[0].row["n_right"]
    for case in cases:
        assert f'href="/cases/{case.id}"' in page
        assert entered.ask(f"/cases/{case.id}")[0] == 200


def test_keys_are_escaped_everywhere(entered: Client, cases: list[Case]) -> None:
    member = f"/member?side=left&key={quote(HOSTILE)}"
    holder = next(case for case in cases if any(each["key"] == HOSTILE for each in case.members))
    for path in (f"/cases/{holder.id}", f"/cases/{holder.id}/rows", member, f"/search?q={quote(HOSTILE)}"):
        status, page, _ = entered.ask(path)
        assert status == 200
        assert "<img" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert not {"\x1b", "\u202e"} & {*page}
    assert f'/cases/{holder.id}">' in entered.ask(member)[1]


def test_a_decision_is_kept_with_its_note(entered: Client, cases: list[Case], runs: tuple[Path, Path]) -> None:
    verdicts = Verdicts.open(verdicts_path(runs[1].parent.parent))
    assert entered.decide(cases[1].id, "fine", "known <b>partner</b> ü") == 303
    assert entered.decide(cases[1].id, "fraud") == 303
    assert [(row["verdict"], row["note"], row["run"]) for row in verdicts.history(cases[1].id)] == [
        ("fine", "known <b>partner</b> ü", runs[1].name),
        ("fraud", "", runs[1].name),
    ]
    page = entered.ask(f"/cases/{cases[1].id}")[1]
    assert "known &lt;b&gt;partner&lt;/b&gt; ü" in page
    assert 'value="fraud" class="fraud" aria-pressed="true"' in page
    assert '<span class="verdict fraud">fraud</span>' in page
    assert entered.decide(cases[1].id, "guilty") == 400
    assert entered.decide("0" * 16, "fraud") == 404
    assert entered.decide(cases[1].id, "fraud", "x" * 200_000) == 413
    assert len(verdicts.history(cases[1].id)) == 2


def test_unreadable_verdicts_are_reported_on_the_page(runs: tuple[Path, Path], tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path / "verdicts.sqlite")
    started = Server(Explorer(runs[1], verdicts, {}).app(), 0)
    started.start()
    client = Client(started.address)
    client.enter()
    verdicts.path.write_bytes(b"of another program")
    for path, status, text in (("/", 400, "verdicts.sqlite: cannot be read"), ("/none", 404, "Not Found")):
        found = client.ask(path)
        assert (found[0], text in found[1]) == (status, True)
        assert 'href="/cases/' in found[1]
    started.stop()


def test_rows_are_those_of_the_input_with_all_columns(entered: Client, cases: list[Case]) -> None:
    page = entered.ask(f"/cases/{cases[0].id}/rows")[1]
    assert f"The input has {cases[0].head['n_edges']} rows" in page
    assert page.count("<tr>") - 1 == cases[0].head["n_edges"]
    assert [name for name in ("row", "groups", "l", "r", "paid") if f'<th scope="col">{name}</th>' not in page] == []
    assert "&lt;b&gt;" in page
    assert "<td>" not in entered.ask(f"/cases/{cases[0].id}/rows?page=999999999")[1]
    for number in ("0", "-1", "x", "٣"):
        assert entered.ask(f"/cases/{cases[0].id}/rows?page={quote(number)}")[0] == 404


def test_the_page_says_why_there_are_no_rows(runs: tuple[Path, Path], tmp_path: Path) -> None:
    path = runs[1].parents[2] / "edges.parquet"
    explorer = Explorer(runs[1], Verdicts.open(tmp_path / "none"), {})
    (case, *_) = explorer._cases.values()
    before = path.read_bytes()
    try:
        pq.write_table(pq.read_table(path).slice(1), path)
        assert "than the run" in explorer._read_rows(case)[1]
        path.unlink()
        found, why = explorer._read_rows(case)
        assert (found, why) == (None, f"{path}: the input of the run is no longer there")
    finally:
        path.write_bytes(before)
    # The second run replaced the input of the first one.
    started = Server(Explorer(runs[0], Verdicts.open(tmp_path / "none"), {}).app(), 0)
    started.start()
    client = Client(started.address)
    client.enter()
    page = client.ask(f"/cases/{cases_of(runs[0])[0].id}/rows")[1]
    started.stop()
    assert "<strong>No rows.</strong>" in page
    assert "than the run" in page


def test_two_runs_are_compared(entered: Client, runs: tuple[Path, Path]) -> None:
    assert f"<option>{runs[0].name}</option>" in entered.ask("/compare")[1]
    page = entered.ask(f"/compare?with={runs[0].name}")[1]
    assert "<h2>grown</h2>" in page
    assert "ring 1 &lt;0&gt;" in page


def test_a_picture_has_at_most_300_members() -> None:
    members = [
        {"side": side, "key": f"{side} {n}", "vertex": n}
        for side, most in (("left", 40), ("right", 900))
        for n in range(most)
    ]
    picture = picture_of(members, ((u, v) for u in range(40) for v in range(900) if (u + v) % 7 == 0))
    assert (len(picture.left), len(picture.right)) == (40, MOST_NODES - 40)
    assert picture.hidden == (0, 900 - (MOST_NODES - 40))
    assert sum(node.lines.count("M") for node in picture.left) == picture.n_edges
    assert sum(node.n_edges for node in picture.right) == picture.n_edges


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_the_command_ends_at_once(runs: tuple[Path, Path], number: int, code: int) -> None:
    process = begun([sys.executable, "-m", "mbe_stage.pipeline.cli.entry", "explore", runs[1]], text=True)
    assert process.stdout is not None
    client = Client(process.stdout.readline().split()[-1])
    client.enter()
    assert client.ask("/")[0] == 200
    process.send_signal(number)
    _, complaints = output_of(process, 60)
    assert process.returncode == code
    assert complaints.strip() in ("interrupted", "terminated")


@pytest.mark.parametrize("package", ["duckdb", "starlette", "uvicorn"])
def test_a_missing_package_is_named_with_its_extra(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name.startswith("mbe_stage.pipeline.cases.explore"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs {package}, .* install it: pip install 'mbe-stage\[explore\]'"):
        explore(str(runs[1]), None, 0)


def test_a_run_without_groups_is_refused(tmp_path: Path) -> None:
    run_dir = run(settings(tmp_path / "out", groups=None), edges()).run_dir
    with pytest.raises(PublishError, match="has no groups"):
        explore(str(run_dir), None, 0)


# --- in a browser -------------------------------------------------------------------------------------------------


def test_the_pages_in_a_browser(browser: Browser, runs: tuple[Path, Path], cases: list[Case], tmp_path: Path) -> None:
    verdicts = Verdicts.open(tmp_path / "verdicts.sqlite")
    started = Server(Explorer(runs[1], verdicts, _runs_beside(runs[1])).app(), 0)
    started.start()
    home = started.address.partition("?")[0]
    try:
        with opened(browser, started.address, viewport={"width": 360, "height": 740}) as page:
            assert page.url == home
            assert page.evaluate("document.cookie") == ""
            assert page.locator("svg .node").count() > 10
            assert_readable(page)
            decide_by_keyboard(page)
            assert verdicts.current()[cases[0].id]["note"] == "seen <b>before</b>"
            page.emulate_media(color_scheme="dark")
            assert_readable(page)
            page.get_by_role("link", name="Next undecided case").click()
            assert page.locator("h1").inner_text() == f"Case {cases[1].id}"
            find_a_member(page)
            page.get_by_role("link", name="Compare runs").click()
            page.get_by_role("button", name="Compare").click()
            page.wait_for_url("**with=*")
            assert_readable(page)
            page.goto(f"{home}cases/{cases[0].id}/rows")
            assert_readable(page)
            page.goto(f"{home}cases/{cases[0].id}")
            # From a width of 801 pixels, the list of cases is beside the case.
            for width in (801, 900):
                page.set_viewport_size({"width": width, "height": 740})
                assert page.evaluate("document.documentElement.scrollWidth") == width
    finally:
        started.stop()


def test_a_link_on_another_page_leads_here_in_two_steps(browser: Browser, runs: tuple[Path, Path]) -> None:
    """The browser sends the strict cookie only from the second step on."""
    started = Server(Explorer(runs[1], Verdicts.open(runs[1].parent / "none"), {}).app(), 0)
    started.start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.set_content(f'<a href="{started.address}">the page</a>')
        page.get_by_role("link").click()
        page.get_by_role("link", name="go to the page").click()
        page.wait_for_selector("svg .node")
    finally:
        context.close()
        started.stop()


def decide_by_keyboard(page: Any) -> None:
    page.locator("input[name=note]").focus()
    page.keyboard.type("seen <b>before</b>")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".history")
    assert page.locator(".history").inner_text().startswith("fraud by ")


def find_a_member(page: Any) -> None:
    page.get_by_label("Find a member").fill("ring 1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search*")
    page.locator("main table a").first.click()
    page.wait_for_url("**/member*")
    assert_readable(page)


def assert_readable(page: Any) -> None:
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 360
