"""`mbe cases`: verdicts shown by the next run and recomputed by `mbe verify`; export of cases with their rows."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, regroup, run
from mbe_stage.pipeline.cases.published import cases_of
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.unfinished import header_of
from mbe_stage.pipeline.problems.groups.decided import fingerprint_of_decisions
from mbe_stage.pipeline.problems.installed import inputs_of, reading_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.groups_support import rows, settings
from tests.pipeline.test_problem_seam import forge, mbe, refusal, said

HOUR = 3600
NAMES = ("account", "page", "stars", "time", "amount", "=device")
WIDTHS = {"1h": HOUR, "1d": 24 * HOUR, "7d": 168 * HOUR, "30d": 720 * HOUR}


def actions(seed: int = 1) -> list[dict[str, Any]]:
    """Random rows with odd keys, some without an account; a ring of one rating within hours, another over weeks."""
    dice = random.Random(seed)
    found = []

    def act(account: str, page: str, stars: int | None = None, at: int | None = None) -> None:
        moment = dice.randrange(60 * 24 * HOUR) if at is None else at + dice.randrange(5 * HOUR)
        device = dice.choice(["-2", "@host", "a,b", '"q"', "line\nend", "<b>"])
        values = (account, page, stars or dice.randrange(1, 6), 1_600_000_000 + moment, f"{dice.randrange(-9, 9)}.5")
        found.append(dict(zip(NAMES, (*map(str, values), device), strict=True)))

    for _ in range(350):
        act(f"user {dice.randrange(120)}", f"page {dice.randrange(60)}")
    for i in range(7):
        for v in range(6):
            act(f"=ring {i}", f"new {v}", 5, 20 * 24 * HOUR)
            act(f'it\'s "slow" {i}\n', f"other {v}")
    for _ in range(5):
        act("", "page 1")
    dice.shuffle(found)
    return found


def write(path: Path, table: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(table)
    return path


def of_input(path: Path, out: Path, **sections: Any) -> Config:
    named = {"left": "account", "right": "page", "timestamp": "time", "weight": "amount", "nulls": "drop"}
    reads = {"path": str(path), **named, **sections.pop("input", {})}
    asked = {"input": reads, "query": {"min_left": 2, "min_right": 2}, "output": {"bicliques": False}}
    return settings(out, "cpu", **asked, **sections)


ROWS = actions()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an input and a run of it."""
    folder = tmp_path_factory.mktemp("cases")
    run(of_input(write(folder / "edges.csv", ROWS), folder / "out"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of `made` that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "copy", symlinks=True))


def two_cases(out: Path) -> tuple[str, str]:
    """Return the ids of the cases of the two planted rings."""
    found = {}
    for case in cases_of(out / "latest"):
        found.setdefault(case.members[0]["key"].split()[0], case.id)
    return found["=ring"], found.get("it's", "")


def test_a_verdict_is_in_the_list_at_once_and_in_the_next_run(folder: Path) -> None:
    out = folder / "out"
    ring, slow = two_cases(out)
    before = (out / "latest").resolve()
    note = 'it\'s\nfine; "DROP TABLE verdicts"'
    told = said("cases", "label", out, ring, "fine", "--note", note, "--who", "ann")
    assert (told["case"], told["verdict"], told["note"], told["before"]) == (ring, "fine", note, None)
    assert "verdict    fraud" in mbe("cases", "label", out, slow[:6], "fraud").stdout
    listed = {case["case"]: case for case in said("cases", "list", out)["cases"]}
    assert (listed[ring]["verdict"], listed[ring]["is_muted"], listed[slow]["verdict"]) == ("fine", True, "fraud")

    config = of_input(folder / "edges.csv", out)
    result = run(config, if_changed=True)
    assert not result.unchanged
    old, new = rows(before, "groups"), rows(result.run_dir, "groups")
    wanted = {ring: "fine", slow: "fraud"}
    assert [(group["verdict"], group["is_muted"]) for group in new] == [
        (wanted.get(group["case"]), group["case"] == ring) for group in old
    ]
    for group in (*old, *new):
        for name in ("verdict", "is_muted", "since"):
            del group[name]
    assert new == old
    assert rows(result.run_dir, "vertex_scores") == rows(before, "vertex_scores")
    facts = result.manifest.derived_inputs["groups"]["verdicts"]
    snapshot = pq.read_table(result.run_dir / "verdicts.parquet")
    assert (facts.rows, facts.source) == (2, str(out / "verdicts.sqlite"))
    assert facts.fingerprint == fingerprint_of_decisions(snapshot)
    assert result.manifest.derived["groups"]["muted"] == sum(group["case"] == ring for group in old)
    assert result.manifest.config_fingerprint == read_manifest(before).config_fingerprint
    report = verify_run(result.run_dir, ingest(reading_of(config)))
    assert "2 of 2 apply to a case" in next(check.detail for check in report.checks if check.name == "verdicts")
    assert run(config, if_changed=True).unchanged

    mbe("cases", "label", out, ring, "open", "--note", "again")
    assert not run(config, if_changed=True).unchanged
    assert {row["verdict"] for row in rows(out / "latest", "groups") if row["case"] == ring} == {"open"}
    assert not any(row["is_muted"] for row in rows(out / "latest", "groups"))


def test_a_case_that_grew_by_a_third_is_open_again(folder: Path) -> None:
    out = folder / "out"
    ring, _ = two_cases(out)
    mbe("cases", "label", out, ring, "fine")
    three = ("=ring 0", "=ring 1", "=ring 2")
    more = [{**row, "account": f"{row['account']} too"} for row in ROWS if row["account"] in three]
    result = run(of_input(write(folder / "edges.csv", ROWS + more), out))
    grown = [case for case in cases_of(result.run_dir) if case.id == ring]
    assert [(case.row["verdict"], case.row["is_muted"], case.row["n_left"]) for case in grown] == [("open", False, 10)]


def test_regrouping_reads_the_verdicts(folder: Path) -> None:
    out = folder / "out"
    ring, _ = two_cases(out)
    mbe("cases", "label", out, ring, "fraud")
    again = regroup(out, {"groups": {"chance_copies": 0}, "input": {"path": str(folder / "edges.csv")}})
    assert {row["verdict"] for row in rows(again.run_dir, "groups")} == {"fraud", None}
    mbe("verify", out, "--input", folder / "edges.csv")


def test_a_copied_run_needs_the_verdicts_option(folder: Path) -> None:
    copy = shutil.copytree((folder / "out/latest").resolve(), folder / "copied run")
    ring, _ = two_cases(folder / "out")
    told = refusal("cases", "label", copy, ring, "fraud", code=2)
    assert "name the file: --verdicts FILE" in told
    file = folder / "my verdicts.sqlite"
    mbe("cases", "label", copy, ring, "fraud", "--verdicts", file)
    assert said("cases", "list", copy)["cases"][0]["verdict"] is None
    assert "fraud" in {case["verdict"] for case in said("cases", "list", copy, "--verdicts", file)["cases"]}
    assert "no such file" in refusal("cases", "list", copy, "--verdicts", folder / "none", code=2)
    config = of_input(folder / "edges.csv", folder / "out", groups={"verdicts": str(file)})
    result = run(config)
    assert {row["verdict"] for row in rows(result.run_dir, "groups")} == {"fraud", None}
    # This run reads verdicts from another file than the one beside it.
    assert f"reads the verdicts in {file}" in refusal("cases", "label", folder / "out", ring, "fine", code=2)
    with pytest.raises(InputError, match=r"no such file, named by groups\.verdicts"):
        run(of_input(folder / "edges.csv", folder / "out", groups={"verdicts": str(folder / "none")}))


def test_a_damaged_verdicts_file_is_refused_before_the_run(folder: Path) -> None:
    (folder / "out/verdicts.sqlite").write_bytes(b"torn" * 500)
    with pytest.raises(InputError, match=r"verdicts\.sqlite: cannot be read"):
        run(of_input(folder / "none.csv", folder / "out"))
    ring, _ = two_cases(folder / "out")
    for arguments in (("list",), ("label", ring, "fine"), ("export", ring, "--out", folder / "exported")):
        name, *others = arguments
        assert "verdicts.sqlite: cannot be read" in refusal("cases", name, folder / "out", *others, code=2)
    assert not (folder / "exported").exists()


def test_an_unknown_case_is_refused(made: Path) -> None:
    out = made / "out"
    assert "no case 'ffff'" in refusal("cases", "label", out, "ffff", "fine", code=2)
    assert "does not exist" in refusal("cases", "list", made / "none", code=3)
    assert "is not one of 'fraud', 'fine', 'open'" in refusal("cases", "label", out, "ffff", "guilty", code=2)
    assert not (out / "verdicts.sqlite").exists()


# --- export -------------------------------------------------------------------------------------------------------


def expected(run_dir: Path, case: str, table: list[dict[str, Any]]) -> dict[int, str]:
    """Map each row number to the ranks of the groups that contain the row, by the definition of keys."""
    groups = {row["group_key"]: row for row in rows(run_dir, "groups") if row["case"] == case}
    vertices = {side: {r["vertex"]: r["key"] for r in rows(run_dir, f"{side}_vertices")} for side in ("left", "right")}
    if (run_dir / "half_later_vertices.parquet").exists():
        vertices["right"] |= {row["vertex"]: row["key"] for row in rows(run_dir, "half_later_vertices")}
    found: dict[int, set[int]] = {}
    for edge in rows(run_dir, "group_edges"):
        group = groups.get(edge["group_key"])
        if group is None:
            continue
        right, key = vertices["right"][edge["right"]], group["key"] or "items"
        values = [] if edge["key_value"] is None else json.loads(edge["key_value"])
        width = WIDTHS.get(key.rpartition(" x ")[2])
        if right.startswith("["):
            right, begin = json.loads(right)
            width, values = 7 * 24 * HOUR, [begin]
        for number, row in enumerate(table, start=1):
            if (row["account"], row["page"]) != (vertices["left"][edge["left"]], right):
                continue
            rest = list(values)
            if width is not None:
                at = datetime(1970, 1, 1) + timedelta(seconds=int(row["time"]))
                begin_at = datetime.fromisoformat(rest.pop().removesuffix("Z"))
                if not begin_at <= at < begin_at + timedelta(seconds=width):
                    continue
            if rest in ([], [row["stars"]]):
                found.setdefault(number, set()).add(group["rank"])
    return {number: " ".join(map(str, sorted(ranks))) for number, ranks in sorted(found.items())}


def test_an_exported_case_has_the_rows_behind_it(made: Path, tmp_path: Path) -> None:
    out = made / "out"
    for case in two_cases(out):
        told = said("cases", "export", out, case, "--with", made / "edges.csv", "--out", tmp_path / case)
        table = pq.read_table(tmp_path / case / "rows.parquet")
        assert table.column_names == ["row", "groups", *NAMES]
        found = table.to_pylist()
        assert {row["row"]: row["groups"] for row in found} == expected(out / "latest", case, ROWS)
        assert [{name: row[name] for name in NAMES} for row in found] == [ROWS[row["row"] - 1] for row in found]
        assert told["input"]["rows"] == len(found)
        guarded = list(csv.reader((tmp_path / case / "rows.csv").open(newline="")))
        assert guarded[0] == ["row", "groups", *NAMES[:-1], "'=device"]
        for cells, row in zip(guarded[1:], found, strict=True):
            texts = [str(row["row"]), row["groups"], *(row[name] for name in NAMES)]
            is_formula = [text[0] in "=@\t\r\n" for text in texts]
            assert cells == [f"'{text}" if bad else text for text, bad in zip(texts, is_formula, strict=True)]
        members = pyarrow.csv.read_csv(tmp_path / case / "members.csv").to_pylist()
        (whole,) = (each for each in cases_of(out / "latest") if each.id == case)
        assert len(members) == len(whole.members) == pq.read_metadata(tmp_path / case / "members.parquet").num_rows
        assert sorted(path.name for path in (tmp_path / case).iterdir()) == [
            "members.csv", "members.parquet", "report.html", "rows.csv", "rows.parquet", "summary.json",
        ]  # fmt: skip


def test_rows_in_another_order_have_the_numbers_of_the_named_file(made: Path, tmp_path: Path) -> None:
    case, turned = two_cases(made / "out")[0], write(tmp_path / "turned.csv", ROWS[::-1])
    told = said("cases", "export", made / "out", case, "--with", turned, "--out", tmp_path / "case")
    found = pq.read_table(tmp_path / "case" / "rows.parquet").to_pylist()
    assert {len(ROWS) + 1 - row["row"]: row["groups"] for row in found} == expected(made / "out/latest", case, ROWS)
    assert told["input"]["source"] == str(turned)


@pytest.mark.parametrize("kind", ["buckets", "filters in Parquet"])
def test_rows_of_buckets_and_of_filtered_rows_have_their_numbers(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "edges.csv", ROWS)
    reads: dict[str, Any] = {"time_bucket": "7d"}
    if kind != "buckets":
        parts = {"account": pa.string(), "stars": pa.string(), "time": pa.int64(), "amount": pa.float64()}
        options = pyarrow.csv.ConvertOptions(column_types=parts), pyarrow.csv.ParseOptions(newlines_in_values=True)
        table = pyarrow.csv.read_csv(path, convert_options=options[0], parse_options=options[1])
        table = table.append_column("tags", pa.array([[i] for i in range(len(ROWS))]))
        path = tmp_path / "edges.parquet"
        pq.write_table(table, path)
        reads = {"min_weight": -8}
    result = run(of_input(path, tmp_path / "out", input=reads))
    kept = [row if kind == "buckets" or float(row["amount"]) >= -8 else {**row, "account": None} for row in ROWS]
    ring, _ = two_cases(tmp_path / "out")
    mbe("cases", "export", tmp_path / "out", ring, "--out", tmp_path / "exported")
    found = pq.read_table(tmp_path / "exported/rows.parquet").to_pylist()
    assert {row["row"]: row["groups"] for row in found} == expected(result.run_dir, ring, kept)
    if kind != "buckets":
        assert all(row["tags"] == [row["row"] - 1] for row in found)
        assert f'"[{found[0]["row"] - 1}]"' in (tmp_path / "exported/rows.csv").read_text().splitlines()[1]


def test_other_inputs_and_full_directories_are_refused_and_nothing_is_left(made: Path, tmp_path: Path) -> None:
    out, (ring, _) = made / "out", two_cases(made / "out")
    for place, changes in enumerate(({"account": "someone"}, {"amount": "99"}, {"stars": "1"})):
        index = next(i for i, row in enumerate(ROWS) if row["account"] == "=ring 0" and row["stars"] == "5")
        other = write(tmp_path / f"{place}.csv", [*ROWS[:index], {**ROWS[index], **changes}, *ROWS[index + 1 :]])
        told = refusal("cases", "export", out, ring, "--with", other, "--out", tmp_path / "exported", code=2)
        assert f"{other}: other rows" in told
        assert "expected its input" in told
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("kept")
    assert "is not empty" in refusal("cases", "export", out, ring, "--out", full, code=3)
    assert "directory of published runs" in refusal("cases", "export", out, ring, "--out", out / "runs/x", code=3)
    arguments = (ring, "--with", tmp_path / "none", "--out", tmp_path / "exported")
    assert "no such file" in refusal("cases", "export", out, *arguments, code=2)
    assert [path.name for path in full.iterdir()] == ["mine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.csv", "1.csv", "2.csv", "full"]


def test_a_column_beside_the_edges_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """The extra columns of the two files have different types; the run reads neither."""
    half = len(ROWS) // 2
    folder = tmp_path / "edges"
    folder.mkdir()
    for place, part in enumerate((ROWS[:half], ROWS[half:])):
        columns = {name: [row[name] or "nobody" for row in part] for name in ("account", "page")}
        columns["odd"] = [place if place else [place] for _ in part]
        pq.write_table(pa.table(columns), folder / f"{place}.parquet")
    run(of_input(folder, tmp_path / "out", input={"timestamp": None, "weight": None}, groups={"try_keys": "plain"}))
    ring, _ = two_cases(tmp_path / "out")
    mbe("cases", "export", tmp_path / "out", ring, "--out", tmp_path / "exported")
    found = pq.read_table(tmp_path / "exported/rows.parquet")
    assert found.column_names == ["row", "groups", "account", "page"]
    assert {row["row"]: row["groups"] for row in found.to_pylist()} == expected(tmp_path / "out/latest", ring, ROWS)


def test_the_history_of_a_case_is_in_its_summary(folder: Path) -> None:
    out = folder / "out"
    first = cases_of(out / "latest")[0]
    for verdict in ("fine", "fraud"):
        Verdicts(out / "verdicts.sqlite").label(first, "run", verdict, "<b>")  # type: ignore[arg-type]
    mbe("cases", "export", out, first.id, "--with", folder / "edges.csv", "--out", folder / "exported")
    page = (folder / "exported/report.html").read_text()
    assert "<b>fraud</b>, by " in page
    assert "<bdi>&lt;b&gt;</bdi>" in page
    assert {*re.findall('href="#([^"]*)"', page)} <= {*re.findall(' id="([^"]*)"', page)}
    assert not re.search('(src|href)="[^#]', page)
    summary = json.loads((folder / "exported/summary.json").read_text())
    assert [each["verdict"] for each in summary["verdicts"]] == ["fine", "fraud"]
    assert summary["case"]["verdict"] == "fraud"


def test_tables_that_lack_a_column_are_refused(folder: Path) -> None:
    edges = (folder / "out/latest").resolve() / "group_edges.parquet"
    pq.write_table(pq.read_table(edges).drop_columns(["right"]), edges)
    case = two_cases(folder / "out")[0]
    for command in (("cases", "export", folder / "out", case, "--out"), ("export", folder / "out", "--to", "neo4j")):
        assert "its tables of groups cannot be read" in refusal(*command, folder / "made", code=3)
        assert not (folder / "made").exists()


def test_a_run_of_an_earlier_version_without_all_edges_is_refused(folder: Path) -> None:
    out = folder / "out"
    forge((out / "latest").resolve(), "group_edges.parquet", lambda table: table[1:])
    first = cases_of(out / "latest")[0].id
    told = refusal("cases", "export", out, first, "--with", folder / "edges.csv", "--out", folder / "exported", code=3)
    assert "make the groups again: mbe groups" in told
    assert not (folder / "exported").exists()


def test_a_new_verdict_does_not_end_the_resumption_of_a_run(folder: Path) -> None:
    config = of_input(folder / "edges.csv", folder / "out")
    before = header_of(config, "edges", "fingerprint")
    mbe("cases", "label", folder / "out", two_cases(folder / "out")[0], "fine")
    assert header_of(config, "edges", "fingerprint") == before
    assert inputs_of(config)["groups"].keys() == {"verdicts"}
    at_address = Config.from_mapping({"output": {"directory": "s3://bucket/out"}, "groups": {}})
    assert inputs_of(at_address) == {}
