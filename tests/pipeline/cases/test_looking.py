"""`mbe show`, `mbe accounts`, and `mbe top` and `mbe diff` for runs with groups: their output; they write nothing."""

from __future__ import annotations

import csv
import io
import random
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.cases.finding import several, since_text
from mbe_stage.pipeline.cases.published import cases_of
from mbe_stage.pipeline.execution.job import RunResult
from tests.pipeline.groups_support import rows, settings
from tests.pipeline.test_problem_seam import mbe, refusal, said

HOSTILE = "=cmd|'/c calc'!A1 \x1b[31m<b>"
NEWCOMERS = {(f"newcomer {account}", f"shop {shop}") for account in range(4) for shop in range(5)}


def edges(*rings: set[tuple[str, str]]) -> pa.Table:
    """Random edges and a ring; its first account has a key that acts on spreadsheets and terminals."""
    dice = random.Random(5)
    pairs = {(f"account {dice.randrange(60)}", f"page {dice.randrange(6, 60)}") for _ in range(150)}
    accounts = [HOSTILE, *(f"ring {number}" for number in range(1, 6))]
    pairs |= {(account, f"page {page}") for account in accounts for page in range(6)} - {(accounts[3], "page 5")}
    ordered = sorted(pairs.union(*rings))
    stars = [str(1 + len(page) % 2) for _, page in ordered]
    return pa.table({"account": [left for left, _ in ordered], "page": [right for _, right in ordered], "stars": stars})


def publish(out: Path, table: pa.Table, right: str | list[str] = "page", **output: Any) -> RunResult:
    asked = {"left": "account", "right": right}
    output = {"bicliques": False, "report": False, **output}
    groups = {"chance_copies": 0, "try_keys": "plain"}
    return run(settings(out, input=asked, output=output, groups=groups), table)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[RunResult]:
    """Two runs: the ring alone, then with a second ring of newcomers."""
    out = tmp_path_factory.mktemp("days")
    return [publish(out, edges()), publish(out, edges(NEWCOMERS))]


@pytest.fixture(scope="module")
def of_parts(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run whose right keys have two columns."""
    return publish(tmp_path_factory.mktemp("parts"), edges(), ["page", "stars"])


def content(run_dir: Path) -> dict[str, tuple[int, int]]:
    """Return the size and modification time of every file of a run."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in run_dir.rglob("*")}


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_run_begins_with_its_finding_and_its_cases(days: list[RunResult]) -> None:
    first, second = (said("show", each.run_dir) for each in days)
    n_accounts = len(pq.read_table(days[1].run_dir / "left_vertices.parquet"))
    assert first["finding"] == f"6 of {n_accounts - 4} accounts act together in 1 case."
    day = f"{datetime.strptime(days[0].run_dir.name[:8], '%Y%m%d'):%-d %B}"
    assert second["finding"] == f"10 of {n_accounts} accounts act together in 2 cases; 1 is new since {day}."
    assert second["columns"] == {"left": ["account"], "right": ["page"]}
    assert {case["case"]: case["since"] for case in second["cases"]} == {
        case.id: case.row["since"] for case in cases_of(days[1].run_dir)
    }
    shown = mbe("show", days[1].run_dir).stdout
    assert shown.startswith(f"finding    {second['finding']}\n")
    (new,) = (case["case"] for case in second["cases"] if case["since"] == "new")
    assert shown.endswith(f"next       mbe show {days[1].run_dir} --case {new}\n")


def test_a_case_has_groups_members_and_the_export_as_next_step(days: list[RunResult], tmp_path: Path) -> None:
    run_dir, (case, _) = days[0].run_dir, (*cases_of(days[0].run_dir), None)
    found = said("show", run_dir, "--case", case.id[:5])
    assert found["case"]["case"] == case.id
    assert [group["group_key"] for group in found["groups"]] == [group["group_key"] for group in case.groups]
    keys = {side: [each["key"] for each in found["members"] if each["side"] == side] for side in ("left", "right")}
    assert (HOSTILE in keys["left"], sorted(keys["right"])) == (True, [f"page {page}" for page in range(6)])
    scores = {(row["side"], row["vertex"]): row["score"] for row in rows(run_dir, "vertex_scores")}
    assert all(each["score"] == scores[each["side"], each["vertex"]] for each in found["members"])
    shown = mbe("show", run_dir, "--case", case.id, "--csv", tmp_path / "case.csv").stdout
    export = f"mbe cases export {run_dir} {case.id} --with INPUT --out case-{case.id[:8]}"
    assert shown == f"written    {tmp_path / 'case.csv'}\nnext       {export}\n"
    written = read_csv((tmp_path / "case.csv").read_text(encoding="utf-8"))
    assert {row["account"] for row in written if row["side"] == "left"} >= {f"'{HOSTILE}", "ring 1"}
    assert {row["page"] for row in written if row["side"] == "left"} == {""}
    assert "\x1b" not in mbe("show", run_dir, "--case", case.id).stdout


def test_a_group_by_key_or_rank(days: list[RunResult]) -> None:
    run_dir = days[1].run_dir
    for group in rows(run_dir, "groups"):
        by_key, by_rank = (said("show", run_dir, "--group", group[name]) for name in ("group_key", "rank"))
        assert by_key == by_rank
        assert (by_key["group"]["rank"], len(by_key["members"])) == (group["rank"], group["n_left"] + group["n_right"])
    assert "--case" in mbe("show", run_dir, "--group", 1).stdout.splitlines()[-1]
    assert "no group '99'; expected the key of a group, or its rank from 1" in refusal(
        "show", run_dir, "--group", 99, code=2
    )


def test_a_member_has_groups_cases_and_those_that_share_them(days: list[RunResult]) -> None:
    run_dir = days[0].run_dir
    found = said("show", run_dir, "--vertex", "ring 3")
    assert found["cases"] == [case.id for case in cases_of(run_dir)]
    near = {(each["side"], each["key"]): each["n_groups"] for each in found["near"]}
    assert {near["left", f"ring {number}"] for number in (1, 2, 4, 5)} == {near["left", HOSTILE]} == {1}
    assert near["right", "page 4"] == 1
    assert ("left", "ring 3") not in near
    assert found == said("show", run_dir, "--vertex", "ring 3", "--side", "account")
    page = said("show", run_dir, "--vertex", "page 4", "--side", "page")
    assert (page["side"], len(page["groups"])) == ("right", 1)
    alone = next(row["key"] for row in rows(run_dir, "vertex_scores") if row["group_key"] is None)
    assert "in no listed group" in mbe("show", run_dir, "--vertex", alone).stdout
    assert "no side 'x'; expected one of left, right, account, page" in refusal(
        "accounts", run_dir, "--side", "x", code=2
    )


def test_accounts_by_score(days: list[RunResult]) -> None:
    run_dir = days[1].run_dir
    for side, name in (("left", "account"), ("right", "page")):
        of_side = [row for row in rows(run_dir, "vertex_scores") if row["side"] == side]
        best = sorted(of_side, key=lambda row: (-row["score"], -row["grown_surprise"], row["vertex"]))[:7]
        found = said("accounts", run_dir, "--top", 7, "--side", name)
        assert [row["key"] for row in found["accounts"]] == [row["key"] for row in best]
        case_of = {row["group_key"]: row["case"] for row in rows(run_dir, "groups")}
        assert [row["case"] for row in found["accounts"]] == [case_of.get(row["group_key"]) for row in best]
    written = read_csv(mbe("accounts", run_dir, "--csv", "-").stdout)
    assert [len(written), written[0]["side"]] == [
        min(100, sum(row["side"] == "left" for row in rows(run_dir, "vertex_scores"))),
        "left",
    ]
    assert mbe("accounts", run_dir, "--top", 1).stdout.splitlines()[-1].startswith("next       mbe show ")


def test_keys_of_several_columns_are_shown_part_by_part(of_parts: RunResult) -> None:
    run_dir = of_parts.run_dir
    group = said("show", run_dir, "--group", 1)
    parts = [each["parts"] for each in group["members"] if each["side"] == "right"]
    assert {tuple(each) for each in parts} == {("page", "stars")}
    assert {each["page"] for each in parts} <= {f"page {page}" for page in range(6)}
    written = read_csv(mbe("show", run_dir, "--group", 1, "--csv", "-").stdout)
    assert {(row["page"], row["stars"]) for row in written if row["side"] == "right"} == {
        (each["page"], each["stars"]) for each in parts
    }
    assert {"page", "stars"} <= set(read_csv(mbe("top", run_dir, "--csv").stdout)[0])
    assert "page, stars" in mbe("show", run_dir).stdout


def test_top_shows_groups_if_there_are_no_bicliques(days: list[RunResult]) -> None:
    run_dir = days[1].run_dir
    found = said("top", run_dir, "--limit", 1)
    assert (found["by"], [group["rank"] for group in found["groups"]]) == ("rank", [1])
    sizes = [(-group["n_left"], group["rank"]) for group in said("top", run_dir, "--by", "left")["groups"]]
    assert sizes == sorted(sizes)
    (only,) = said("top", run_dir, "--vertex", "newcomer 1", "--min-left", 4)["groups"]
    assert only["left"] == [f"newcomer {account}" for account in range(4)]
    assert said("top", run_dir, "--min-left", 7)["groups"] == []
    assert "such group" in mbe("top", run_dir, "--min-left", 7).stdout
    assert "--copies: only applies to bicliques" in refusal("top", run_dir, "--copies", code=2)


def test_diff_compares_groups_if_there_are_no_bicliques(days: list[RunResult], tmp_path: Path) -> None:
    old, new = (each.run_dir for each in days)
    found = said("diff", old, new, "--out", tmp_path / "d")
    assert (found["counts"], found["groups"]) == ({"new": 1}, {"old": 1, "new": 2, "same": 1})
    assert found["differences"][0]["left"] == [f"newcomer {account}" for account in range(4)]
    (written,) = pq.read_table(tmp_path / "d" / "differences.parquet").to_pylist()
    assert (written["status"], written["right"]) == ("new", [f"shop {shop}" for shop in range(5)])
    assert (tmp_path / "d" / "summary.json").is_file()
    back = mbe("diff", new, old, "--exit-code", code=1).stdout
    assert "different  1 gone\n" in back
    assert back.endswith(f"next       mbe show {old}\n")
    assert "nothing: both have the same groups" in mbe("diff", old, old, "--exit-code").stdout
    assert "is not empty" in refusal("diff", old, new, "--out", tmp_path / "d", code=3)


def test_reading_commands_write_nothing(days: list[RunResult]) -> None:
    run_dir = days[1].run_dir
    before = content(run_dir.parent.parent)
    for command in (("show",), ("show", "--group", 1), ("show", "--vertex", "ring 1"), ("accounts",), ("top",)):
        mbe(command[0], run_dir, *command[1:])
        said(command[0], run_dir, *command[1:])
    refused = refusal("accounts", run_dir, "--csv", run_dir / "accounts.csv", code=3)
    assert "lies in" in refused
    assert content(run_dir.parent.parent) == before


def test_what_cannot_be_shown_is_refused(days: list[RunResult], tmp_path: Path) -> None:
    run_dir = days[0].run_dir
    assert "choose one" in refusal("show", run_dir, "--case", "a", "--group", "1", code=2)
    assert "choose one" in refusal("show", run_dir, "--json", "--csv", "x.csv", code=2)
    assert "name the vertex too" in refusal("show", run_dir, "--side", "left", code=2)
    assert "no case 'ffff'" in refusal("show", run_dir, "--case", "ffff", code=2)
    assert "no vertex 'nobody'" in refusal("show", run_dir, "--vertex", "nobody", code=2)
    without = run(settings(tmp_path, groups=None, output={"report": False}), edges()).run_dir
    assert "has no groups; expected a run with groups; make them: mbe groups" in refusal("show", without, code=3)
    empty = publish(tmp_path / "empty", edges().slice(0, 20)).run_dir
    assert said("show", empty)["finding"].startswith("No group is significant: ")
    assert mbe("show", empty).stdout.endswith(f"next       mbe verify {empty}\n")


def test_plurals_of_column_names() -> None:
    assert several("Customer ID", 2) == "2 Customer ID values"
    assert several("address", 2) == "2 addresses"
    assert several("right", 1) == "1 right vertex"
    assert several("speed", 2) == "2 speeds"
    assert several("branch", 2) == "2 branches"


def test_the_day_of_the_last_run_has_its_year_if_it_is_another_one(days: list[RunResult]) -> None:
    manifest = days[1].manifest
    year = manifest.run_id[:4]
    for last, text in ((f"{int(year) - 1}1231T235959Z-000000", f" since 31 December {int(year) - 1}"), ("odd", "")):
        compared = manifest.derived_comparison["groups"].model_copy(update={"run_id": last})
        assert since_text(manifest.model_copy(update={"derived_comparison": {"groups": compared}})) == text


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("groups", "case", None),
        ("vertex_scores", "score", "high"),
        ("group_members", "side", None),
        ("groups", None, b""),
    ],
)
def test_a_damaged_table_is_reported_in_one_line(
    days: list[RunResult], tmp_path: Path, table: str, column: str | None, values: Any
) -> None:
    run_dir = shutil.copytree(days[0].run_dir, tmp_path / "runs" / days[0].run_dir.name)
    path = run_dir / f"{table}.parquet"
    found = pq.read_table(path)
    if column is None:
        path.write_bytes(values)
    else:
        found = found.drop_columns(column)
        pq.write_table(found if values is None else found.append_column(column, [[values] * len(found)]), path)
    refused = refusal("show", run_dir, "--group", 1, code=3)
    assert "cannot be read (" in refused
    assert str(run_dir) in refused


def test_impossible_values_in_tables_are_refused(days: list[RunResult], tmp_path: Path) -> None:
    """A null in a column without nulls, and an id that is not text."""
    run_dir = shutil.copytree(days[0].run_dir, tmp_path / "runs" / days[0].run_dir.name)
    by_case = ("show", run_dir, "--case", "0" * 16)
    commands: dict[tuple[str, str, Any], list[tuple[object, ...]]] = {
        ("groups", "case", None): [
            ("show", run_dir),
            ("cases", "list", run_dir),
            ("cases", "label", run_dir, "0" * 16, "fine"),
            ("top", run_dir),
            ("diff", run_dir, days[1].run_dir),
            ("export", run_dir, "--csv", "--groups"),
            ("export", run_dir, "--to", "neptune", tmp_path / "out"),
            ("explore", run_dir),
        ],
        ("groups", "case", 5): [by_case],
        ("group_members", "key", None): [by_case, ("top", run_dir)],
        ("vertex_scores", "score", None): [("show", run_dir, "--vertex", "ring 3")],
    }
    for (table, column, value), refused in commands.items():
        path = run_dir / f"{table}.parquet"
        before = path.read_bytes()
        found = pq.read_table(path)
        at = found.schema.get_field_index(column)
        kind = found.schema.field(at).type if value is None else pa.int64()
        pq.write_table(found.set_column(at, pa.field(column, kind), pa.array([value] * len(found), kind)), path)
        for command in refused:
            assert "cannot be read (" in refusal(*command, code=3), command
        path.write_bytes(before)
    assert not (tmp_path / "out").exists()


def test_runs_without_edges_of_bicliques_and_halos_are_shown(days: list[RunResult], tmp_path: Path) -> None:
    """Runs of earlier versions lack these tables."""
    run_dir = shutil.copytree(days[0].run_dir, tmp_path / "runs" / days[0].run_dir.name)
    for name in ("group_edges", "group_halo"):
        (run_dir / f"{name}.parquet").unlink()
    assert len(said("show", run_dir, "--vertex", "ring 3")["near"]) == 11
    assert said("show", run_dir, "--group", 1)["halo"] == []
