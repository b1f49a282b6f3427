"""`mbe diff`: its output, its files and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.views.diff import diff_runs, write, write_diff
from tests.pipeline.diff_support import group, key_of, make_run

BEFORE = [group("ab", "xy"), group("cd", "z"), group("efgh", "uvw"), group("kl", "st")]
AFTER = [group("abc", "xy"), group("efg", "uvw"), group("mn", "r"), group("kl", "st")]


def diff(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, ["diff", *map(str, arguments)])


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return make_run(tmp_path / "old", BEFORE), make_run(tmp_path / "new", AFTER)


def test_counts_come_first_and_then_the_largest_of_each_kind(runs: tuple[Path, Path]) -> None:
    result = diff(*runs, "--quiet")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"old        {runs[0]}: 4 bicliques"
    assert lines[1] == f"new        {runs[1]}: 4 bicliques, 1 of them as before"
    assert lines[2] == "different  1 new, 1 gone, 1 grown, 1 shrunk, 0 changed"
    assert [line.strip() for line in lines if line.strip() in ("new", "gone", "grown", "shrunk")] == [
        "new",
        "gone",
        "grown",
        "shrunk",
    ]
    assert "a, b, c" in result.stdout
    assert str(key_of(group("abc", "xy"))) in result.stdout


def test_json_is_one_object_with_all_members(runs: tuple[Path, Path]) -> None:
    said = json.loads(diff(*runs, "--json", "--quiet").stdout.splitlines()[-1])
    assert said["counts"] == {
        "new": 1, "gone": 1, "grown": 1, "shrunk": 1, "changed": 0, "only_in_new": 0, "only_in_old": 0
    }  # fmt: skip
    assert (said["bicliques"], said["searched_from"], said["remarks"]) == ({"old": 4, "new": 4, "same": 1}, 0, [])
    grown = next(one for one in said["differences"] if one["status"] == "grown")
    assert (grown["left"], grown["partner"]["left"], grown["jaccard"]) == (["a", "b", "c"], ["a", "b"], 0.8)
    assert said["peak_memory_bytes"] > 1 << 20


def test_limit(runs: tuple[Path, Path]) -> None:
    assert json.loads(diff(*runs, "--limit", 0, "--json").stdout.splitlines()[-1])["differences"] == []


def test_exit_codes(runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert diff(*runs, "--exit-code").exit_code == 1
    assert diff(runs[0], runs[0], "--exit-code").exit_code == 0
    for pair in ((runs[0], tmp_path / "nowhere"), (tmp_path, runs[0])):
        result = diff(*pair)
        assert (result.exit_code, result.stderr.count("\n")) == (3, 1)


def test_out_holds_every_difference_with_the_users_keys(runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert diff(*runs, "--out", tmp_path / "d", "--quiet").exit_code == 0
    rows = pq.read_table(tmp_path / "d" / "differences").to_pylist()
    found = {row["status"]: row for row in rows}
    assert len(rows) == len(found) == 4
    assert found["grown"] == {
        "status": "grown",
        "biclique_key": key_of(group("abc", "xy")),
        "partner_key": key_of(group("ab", "xy")),
        "jaccard": 0.8,
        "n_left": 3,
        "n_right": 2,
        "n_edges": 6,
        "left_keys": ["a", "b", "c"],
        "right_keys": ["x", "y"],
    }
    assert (found["gone"]["left_keys"], found["gone"]["partner_key"]) == (["c", "d"], None)
    partners = {row["biclique_key"]: row for row in pq.read_table(tmp_path / "d" / "partners").to_pylist()}
    assert set(partners) == {found[status]["partner_key"] for status in ("grown", "shrunk")}
    assert partners[found["shrunk"]["partner_key"]]["left_keys"] == list("efgh")
    assert json.loads((tmp_path / "d" / "summary.json").read_text())["counts"]["shrunk"] == 1


def test_out_of_equal_runs_has_tables_without_rows(runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert diff(runs[0], runs[0], "--out", tmp_path / "d").exit_code == 0
    assert pq.read_table(tmp_path / "d" / "differences").num_rows == 0
    assert pq.read_table(tmp_path / "d" / "partners").num_rows == 0


def test_out_of_other_types_of_keys_is_text(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [group([1, 2], "x")])
    new = make_run(tmp_path / "new", [group(["a"], "x")])
    write_diff(diff_runs(old, new), tmp_path / "d")
    rows = pq.read_table(tmp_path / "d" / "differences").to_pylist()
    assert [(row["status"], row["left_keys"]) for row in rows] == [("only_in_new", ["a"]), ("only_in_old", ["1", "2"])]


def test_out_is_refused_if_the_path_is_taken(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    (tmp_path / "file").write_text("kept")
    for taken in ("full", "file"):
        result = diff(*runs, "--out", tmp_path / taken)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "expected a new or empty" in result.stderr
    assert (tmp_path / "full" / "mine").read_text() == (tmp_path / "file").read_text() == "kept"
    (tmp_path / "empty").mkdir()
    assert diff(*runs, "--out", tmp_path / "empty").exit_code == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_out_is_whole_or_not_at_all(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def batches(_: object):
        raise error
        yield

    found = diff_runs(*runs)
    monkeypatch.setattr(write, "partner_batches", batches)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((KeyboardInterrupt, PublishError)):
        write_diff(found, tmp_path / "d")
    assert sorted(tmp_path.iterdir()) == before


def test_runs_that_cannot_be_compared_say_so_first(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", BEFORE, config={"query": {"min_left": 2}})
    new = make_run(tmp_path / "new", AFTER, truncated="stopped after 1 s")
    lines = diff(old, new, "--quiet").stdout.splitlines()
    assert lines[0].startswith("NOTE       the queries differ: query.min_left was 2 and is 1")
    assert lines[1].startswith("NOTE       the NEW run is incomplete")
    assert lines[4] == "different  3 only in NEW, 3 only in OLD"
    assert "gone" not in "".join(lines)


def test_keys_cannot_act_upon_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;gotcha\x07"
    old = make_run(tmp_path / "old", [group([evil], ["x"])])
    new = make_run(tmp_path / "new", [group([evil, "b"], ["x"])])
    for arguments in ((), ("--json",)):
        assert "\x1b" not in diff(old, new, *arguments).stdout


def test_columns_by_position_and_by_name_are_matched(tmp_path: Path) -> None:
    """The same column by position in CSV and by name in Parquet; the third run reads another one."""
    (tmp_path / "e.csv").write_text("day,account,shop\n1,a,x\n1,b,x\n2,b,y\n")
    pq.write_table(
        pa.table({"account": ["a", "b", "c"], "shop": ["x", "x", "y"], "till": ["x", "x", "y"]}), tmp_path / "e.parquet"
    )

    def published(name: str, edges: str, **columns: object) -> Path:
        settings = {"path": str(tmp_path / edges), **columns}
        config = Config.from_mapping(
            {"input": settings, "output": {"directory": str(tmp_path / name), "report": False}}
        )
        return run(config).run_dir

    old = published("old", "e.csv", left=1, right=2)
    new = published("new", "e.parquet", left="account", right="shop")
    other = published("other", "e.parquet", left="account", right="till")
    said = json.loads(diff(old, new, "--json", "--quiet").stdout.splitlines()[-1])
    assert said["remarks"] == []
    assert said["counts"]["gone"] + said["counts"]["changed"] + said["counts"]["shrunk"] > 0
    said = json.loads(diff(old, other, "--json", "--quiet").stdout.splitlines()[-1])
    (remark,) = said["remarks"]
    assert remark == "the columns differ: input.right was 2 (column 2, 'shop') and is 'till' (column 2, 'till')"
    assert said["counts"]["gone"] == 0
    columns = json.loads((old / "manifest.json").read_text())["input"]["columns"]
    assert columns == [
        {"setting": "left", "position": 1, "name": "account"},
        {"setting": "right", "position": 2, "name": "shop"},
    ]
