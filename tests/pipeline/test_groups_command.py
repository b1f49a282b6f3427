"""`mbe groups`: groups of an input without saving its bicliques, and of a published run's bicliques."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cli import options
from mbe_stage.pipeline.cli.json_or_text import _in_words as in_words
from mbe_stage.pipeline.errors import ConfigError, InputError, PublishError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import bicliques_parts
from mbe_stage.pipeline.publish.run_store import resolve_run
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views import regroup as of_run
from mbe_stage.pipeline.views.listed_groups import BEST_SURPRISE, listed_groups, nothing_significant
from mbe_stage.pipeline.views.regroup import regroup
from tests.pipeline.groups_support import EDGES, planted, rows, settings, tables
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.pipeline.test_problem_seam import edit, forge, mbe, refusal, said

QUICK = ("--engine", "reference", "--quiet")


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(EDGES, path)
    return path


@pytest.fixture
def source(tmp_path: Path, edges_file: Path) -> Path:
    """A run with bicliques and without groups."""
    config = settings(tmp_path / "out", groups=None, input={"path": str(edges_file)}, output={"sort": True})
    return run(config).run_dir


# --- groups of an input -------------------------------------------------------------------------------------------


def test_groups_of_an_input_are_those_of_a_run_that_is_asked_for_them(tmp_path: Path, edges_file: Path) -> None:
    options = ("--limit", 2, "--rank-by", "surprise_per_vertex", "--max-overlap", 0.4, "--chance-copies", 0)
    told = said("groups", edges_file, "--out", tmp_path / "a", *QUICK, *options)
    section = {"limit": 2, "rank_by": "surprise_per_vertex", "max_overlap": 0.4}
    asked = run(settings(tmp_path / "b", groups=section), EDGES)
    assert tables(Path(told["run"])) == tables(asked.run_dir)
    assert not (Path(told["run"]) / "bicliques").exists()
    assert told["content_fingerprint"] == asked.manifest.content_fingerprint
    assert [group["group_key"] for group in told["groups"]] == [
        row["group_key"] for row in rows(asked.run_dir, "groups")
    ]
    assert said("verify", told["run"], "--quiet")["verified"]


def test_the_json_has_every_group_with_its_members(tmp_path: Path, edges_file: Path) -> None:
    told = said("groups", edges_file, "--out", tmp_path / "a", *QUICK)
    members = rows(Path(told["run"]), "group_members")
    assert len(told["groups"]) == told["derived"]["groups"]["groups"] == 2
    for group in told["groups"]:
        for side in ("left", "right"):
            expected = [row["key"] for row in members if (row["group_key"], row["side"]) == (group["group_key"], side)]
            assert group[side] == expected
            assert len(expected) == group[f"n_{side}"]
    assert set(told) - {"groups"} == set(said("enumerate", edges_file, "--out", tmp_path / "b", *QUICK))


def test_with_bicliques_they_are_there(tmp_path: Path, edges_file: Path) -> None:
    told = said("groups", edges_file, "--out", tmp_path / "a", *QUICK, "--bicliques", "--kind", "grown_cover")
    assert (Path(told["run"]) / "bicliques").is_dir()
    assert read_manifest(told["run"]).config.section("groups").kind == "grown_cover"


def test_the_table_comes_last(tmp_path: Path, edges_file: Path) -> None:
    shown = mbe("groups", edges_file, "--out", tmp_path / "a", *QUICK).stdout
    assert shown.index("run        ") < shown.index("rank") < shown.index("ring 1 <0>")
    text = " ".join(shown.replace("│", " ").split())
    assert "6 left x 6 right members" in text


def test_counts_of_one_are_singular() -> None:
    counts = {"groups": 1, "left_members": 2, "keys": 0, "chance_copies": 1}
    assert in_words(counts) == "1 group, 2 left members, 1 chance copy"


def test_an_empty_list_is_explained(tmp_path: Path) -> None:
    """The reason, the number of candidates, the nearest one and what was not searched, on screen and in the report."""
    path, sparse = tmp_path / "edges.csv", tmp_path / "sparse.csv"
    path.write_text("left,right\n" + "".join(f"a{i},b{i}\na{i},b{i + 1}\n" for i in range(9)))
    dice = random.Random(2)
    pairs = sorted({(dice.randrange(60), dice.randrange(60)) for _ in range(160)})
    sparse.write_text("left,right\n" + "".join(f"a{u},b{v}\n" for u, v in pairs))

    def why(source: Path, *options: object) -> str:
        shown = mbe("groups", source, "--out", tmp_path / "a", *QUICK, *options).stdout
        # Zero counts are left out, except the first; names are words.
        assert re.search(r"^derived    groups: 0 groups", shown, re.MULTILINE)
        (line,) = (line for line in shown.splitlines() if line.startswith("groups  "))
        text = line.removeprefix("groups     nothing significant: ")
        page = (Path(shown.split("\nrun        ")[1].split("\n")[0]) / "report.html").read_text()
        assert "No group is significant." in page
        told = text.replace("--min-left", "query.min_left").replace("--kind", "groups.kind")
        assert told[1:] in page.replace("&#x27;", "'").replace("--min-left", "query.min_left")
        return text

    explained = "vertex degrees explain all groups"
    assert re.fullmatch(
        explained + r"; (\d+) bicliques examined, the best 13\.4 nats short of significance", why(sparse)
    )
    assert why(path) == f"{explained}; 17 bicliques examined, the best 9.8 nats short of significance"
    one = tmp_path / "one.csv"
    one.write_text("left,right\na,b\n")
    assert why(one).endswith("; 1 biclique examined, the best 3 nats short of significance")
    stopped = why(sparse, "--max-bicliques", 30)
    assert stopped.startswith("vertex degrees explain all groups that were examined; 30 bicliques examined, the best ")
    assert stopped.endswith("; not examined: the rest of the search, which stopped at max_bicliques = 30")
    sized = why(sparse, "--min-left", 2)
    assert f"{explained};" not in sized
    assert sized.endswith("; not examined: bicliques outside --min-left 2")
    none = why(sparse, "--min-left", 50)
    assert none.startswith("no biclique was found; 0 bicliques examined; not examined: ")
    assert said("groups", path, "--out", tmp_path / "a", *QUICK)["groups"] == []


def test_the_best_surprise_is_stated_and_verified(tmp_path: Path) -> None:
    made = run(settings(tmp_path / "a"), EDGES)
    path = made.run_dir / "groups.parquet"
    # This counts all bicliques; the bicliques of the list are inside larger groups.
    short = run(settings(tmp_path / "b", groups={"kind": "short_list"}), EDGES).run_dir
    best = max(row["surprise"] for row in rows(short, "groups"))
    assert float(pq.read_schema(path).metadata[BEST_SURPRISE]) == best
    verify_run(made.run_dir)
    pq.write_table(pq.read_table(path).replace_schema_metadata({BEST_SURPRISE: str(best + 1)}), path)
    forge(made.run_dir, "groups.parquet", lambda table: table)
    with pytest.raises(VerificationError, match="best_surprise is"):
        verify_run(made.run_dir)


def test_a_significant_biclique_is_not_explained_away(tmp_path: Path) -> None:
    """If the list of grown groups is empty but bicliques are significant, the text says so."""
    made = run(settings(tmp_path / "a"), EDGES)
    n = made.manifest.derived["groups"]["significant_candidates"]
    counts = {**made.manifest.derived["groups"], "groups": 0}
    text = nothing_significant(made.run_dir, made.manifest.model_copy(update={"derived": {"groups": counts}}))
    assert n >= 2
    assert text.startswith(f"{n} bicliques are significant, but no group grown from them is; groups.kind both")
    assert "explain" not in text


def test_keys_that_a_terminal_would_obey_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    pairs = [(f"a{u}\x1b[31m\u202e\n", f"b{v}" + 200 * "x") for u in range(4) for v in range(4)]
    pairs += [(f"u{i}", f"v{i}") for i in range(300)]
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"l": [left for left, _ in pairs], "r": [right for _, right in pairs]}), path)
    shown = mbe("groups", path, "--out", tmp_path / "a", *QUICK).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b" in shown.replace("│", "")
    told = said("groups", path, "--out", tmp_path / "a", *QUICK)
    assert told["groups"][0]["left"] == [f"a{u}\x1b[31m\u202e\n" for u in range(4)]


def test_times_known_cases_and_the_last_run_are_shown(tmp_path: Path) -> None:
    """The table shows them if there are any; times are text in JSON."""
    times = pa.array([3_600_000_000 * hour for hour in range(EDGES.num_rows)], pa.timestamp("us"))
    edges = EDGES.append_column("at", times)
    pq.write_table(edges, tmp_path / "edges.parquet")
    (tmp_path / "labels.csv").write_text("key,side\nring 1 <0>,left\nring 1 <1>,left\nu00,left\n")
    asked = ("groups", tmp_path / "edges.parquet", "--out", tmp_path / "a", *QUICK, "--timestamp", "at")
    told = said(*asked, "--labels", tmp_path / "labels.csv")
    assert all(group["first_time"].endswith("Z") and group["since"] is None for group in told["groups"])
    assert {group["n_known"] for group in told["groups"]} == {0, 2}
    again = mbe(*asked, "--labels", tmp_path / "labels.csv").stdout
    assert "since" in again
    assert "same" in again
    assert "┃ known" in again
    plain = mbe("groups", tmp_path / "edges.parquet", "--out", tmp_path / "b", *QUICK).stdout
    assert "since" not in plain
    assert "┃ known" not in plain


def test_a_list_of_known_good_groups_is_reported(tmp_path: Path, edges_file: Path) -> None:
    rings = [f"ring {ring} <{u}>" for ring, n in ((0, 8), (1, 6)) for u in range(n)]
    (tmp_path / "allow.csv").write_text("key,side\n" + "".join(f"{key},left\n" for key in rings))
    shown = mbe("groups", edges_file, "--out", tmp_path / "a", *QUICK, "--allow", tmp_path / "allow.csv").stdout
    assert "muted      2 known good or labelled fine: no other is significant" in shown
    assert "rank" not in shown


def test_further_groups_are_counted_below_the_table(tmp_path: Path) -> None:
    pairs = [(f"{block}-{u}", f"{block}-{v}") for block in range(23) for u in range(4) for v in range(4)]
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"l": [left for left, _ in pairs], "r": [right for _, right in pairs]}), path)
    shown = mbe("groups", path, "--out", tmp_path / "a", *QUICK).stdout.replace("\n", "")
    assert "groups     3 more in " in shown


def test_if_changed(tmp_path: Path, edges_file: Path) -> None:
    options = ("groups", edges_file, "--out", tmp_path / "a", *QUICK, "--if-changed")
    assert not said(*options)["unchanged"]
    again = said(*options, code=5)
    assert again["unchanged"]
    assert len(again["groups"]) == 2


def test_every_option_of_the_section_is_there_without_its_prefix() -> None:
    of_groups = {each.key: each for each in options.GROUPING if each.key.startswith("groups.")}
    assert set(of_groups) == {each.key for each in options.GROUPS} - {"groups"}
    for prefixed in options.GROUPS[1:]:
        names = options.options_of(of_groups[prefixed.key])
        short = tuple(name.replace("--groups-", "--") for name in options.options_of(prefixed))
        assert names == (("--keys",) if short == ("--try-keys",) else short)
    every = [name for each in options.GROUPING for name in options.options_of(each)]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--limit", "0"), "--limit is '0'"),
        (("--rank-by", "edges"), "--rank-by is 'edges'"),
        (("--input", "x.csv"), "--input: gives the input's new place for a published run"),
        (("--left", "nobody"), "nobody"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, edges_file: Path, options: tuple[str, ...], message: str) -> None:
    assert message in refusal("groups", edges_file, "--out", tmp_path / "out", *options, "--quiet", code=2)
    assert not (tmp_path / "out" / "runs").exists()


def test_a_directory_of_parquet_files_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for part in range(2):
        pq.write_table(EDGES.slice(part * 100, 100), tmp_path / "in" / f"{part}.parquet")
    told = said("groups", tmp_path / "in", "--out", tmp_path / "a", *QUICK)
    assert told["input"]["rows_read"] == EDGES.num_rows


# --- groups of a published run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section",
    [{}, {"kind": "grown_cover", "chance_copies": 1}, {"rank_by": "surprise_per_vertex", "limit": 1}],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_groups_of_a_run_equal_those_of_a_run_with_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: dict[str, Any], seed: int
) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.views.regroup._MEMBERS", 16)
    edges, query = planted(seed), {"min_left": 1 + seed}
    made = settings(tmp_path / "a", groups=None, query=query, output={"members": bool(seed % 2)})
    source = run(made, edges).run_dir
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    result = regroup(source, {"groups": {"chance_copies": 0, **section}}, edges)
    asked = run(settings(tmp_path / "b", groups=section, query=query, output={"bicliques": False}), edges)
    assert tables(result.run_dir) == tables(asked.run_dir)
    assert result.manifest.counts == asked.manifest.counts
    assert result.manifest.content_fingerprint == asked.manifest.content_fingerprint
    assert result.manifest.config_fingerprint == asked.manifest.config_fingerprint
    assert result.manifest.made_of == source.name
    assert result.run_dir.parent == source.parent
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert_sound(result.run_dir)
    for given in (None, ingest(Config().input, edges)):
        report = verify_run(result.run_dir, given)
        assert "from run" in next(check.detail for check in report.checks if check.name == "bicliques")


def test_weights_and_times_are_those_of_the_input(tmp_path: Path) -> None:
    rows_of = {"weight": [float(n % 5 + 1) for n in range(EDGES.num_rows)], "at": list(range(EDGES.num_rows))}
    edges = pa.table({**{name: EDGES[name] for name in ("l", "r")}, **rows_of})
    columns = {"left": "l", "right": "r", "weight": "weight", "timestamp": "at"}
    source = run(settings(tmp_path / "a", groups=None, input=columns), edges).run_dir
    result = regroup(source, {"groups": {"chance_copies": 0}}, edges)
    asked = run(settings(tmp_path / "b", input=columns), edges)
    assert tables(result.run_dir) == tables(asked.run_dir)
    assert result.tables["groups"]["weight_total"].null_count == 0
    assert result.manifest.input == asked.manifest.input


def test_the_command_takes_a_run_or_its_directory(tmp_path: Path, source: Path) -> None:
    by_run = said("groups", source, "--quiet", "--limit", 1)
    manifest = read_manifest(by_run["run"])
    assert manifest.made_of == source.name
    assert manifest.config.section("groups").limit == 1
    assert not manifest.config.output.sort
    assert said("verify", tmp_path / "out", "--quiet")["run"] == by_run["run"]
    elsewhere = said("groups", source, "--quiet", "--out", tmp_path / "b", "--bicliques", "--threads", 1)
    assert Path(elsewhere["run"]).parent.parent == tmp_path / "b"
    assert (Path(elsewhere["run"]) / "bicliques").is_dir()
    assert source.name in (Path(elsewhere["run"]) / "report.html").read_text()
    assert said("verify", elsewhere["run"], "--quiet")["verified"]
    # The latest run of this directory has no bicliques, but the run it was made of is beside it.
    again = said("groups", tmp_path / "out", "--quiet", "--kind", "grown_cover")
    assert read_manifest(again["run"]).made_of == source.name
    assert said("groups", tmp_path / "b", "--quiet")["groups"]


def test_readers_find_the_bicliques_that_a_run_was_made_of(tmp_path: Path, source: Path) -> None:
    said("groups", source, "--quiet")
    assert said("top", tmp_path / "out")["bicliques"] == said("top", source)["bicliques"]
    assert mbe("export", tmp_path / "out", "--csv").stdout == mbe("export", source, "--csv").stdout
    shutil.rmtree(source)
    with pytest.raises(PublishError, match=f"; run {source.name}, from which it was made, is not in the same dir"):
        bicliques_parts(resolve_run(tmp_path / "out"))
    assert said("top", tmp_path / "out")["groups"]


@pytest.mark.parametrize("kind", ["both", "short_list"])
def test_the_input_is_enumerated_again_if_bicliques_were_not_saved(
    tmp_path: Path, edges_file: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = said("groups", edges_file, "--out", tmp_path / "a", *QUICK, "--min-left", 2, "--limit", 1)
    caplog.set_level("INFO", "mbe_stage.pipeline")
    heard: list[Any] = []
    result = regroup(tmp_path / "a", {"groups": {"kind": kind, "chance_copies": 0}}, on_progress=heard.append)
    assert heard[-1].work_done == 1.0
    assert f"{first['run']} was published without its bicliques; enumerating its input again" in caplog.text
    asked = run(settings(tmp_path / "b", groups={"kind": kind}, query={"min_left": 2}), EDGES)
    assert tables(result.run_dir) == tables(asked.run_dir)
    assert result.manifest.content_fingerprint == first["content_fingerprint"]
    assert (result.manifest.made_of, result.manifest.engine) == (None, "reference")
    assert not (result.run_dir / "bicliques").exists()
    verify_run(result.run_dir, ingest(Config().input, EDGES))
    pq.write_table(EDGES.slice(1), edges_file)
    refused(result.run_dir, InputError, "other edges")


def test_an_incomplete_run_without_bicliques_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = {"engine": "cpu", "max_bicliques": 60}
    config = settings(tmp_path / "a", "cpu", execution=limited, output={"bicliques": False})
    cut = run(config, planted(2)).run_dir
    refused(cut, PublishError, "is incomplete: it stopped at max_bicliques = 60, and another search", source=planted(2))
    whole = run(settings(tmp_path / "b", output={"bicliques": False}), EDGES).run_dir
    complete = of_run.enumerate_to
    for change, message in (
        ({"truncated": "stopped at time_limit_seconds = 1"}, "enumerated again, it stopped at time_limit_seconds = 1"),
        ({"content_fingerprint": "0"}, "the bicliques of its input, enumerated again, are not those of its manifest"),
    ):
        monkeypatch.setattr(
            of_run,
            "enumerate_to",
            lambda *given, change=change, **named: complete(*given, **named).model_copy(update=change),
        )
        refused(whole, PublishError, message, source=EDGES)


def test_no_engine_runs(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("nothing is enumerated")

    monkeypatch.setattr("mbe_stage.pipeline.execution.steps.stream", fail)
    result = regroup(source)
    assert result.manifest.engine == "reference"
    assert "read back" in result.manifest.seconds
    assert "enumerate" not in result.manifest.seconds
    assert_nothing_staged(tmp_path / "out")


def test_groups_of_a_truncated_run_are_marked(tmp_path: Path) -> None:
    limited = {"engine": "cpu", "max_bicliques": 60}
    source = run(settings(tmp_path, "cpu", groups=None, execution=limited), planted(2)).run_dir
    result = regroup(source, source=planted(2))
    assert result.manifest.truncated == read_manifest(source).truncated is not None
    assert "better groups may be missing" in (result.run_dir / "report.html").read_text()
    verify_run(result.run_dir, ingest(Config().input, planted(2)))


def test_the_check_reports_a_missing_source_run(source: Path) -> None:
    result = regroup(source)
    shutil.rmtree(source)
    assert any("bicliques: not written" in text for text in verify_run(result.run_dir).not_checked)
    verify_run(result.run_dir, ingest(Config().input, EDGES))


def refused(run_dir: Path, error: type[Exception], message: str, **given: Any) -> None:
    """Assert that nothing is published and that the existing runs remain."""
    runs = sorted(path.name for path in run_dir.parent.iterdir())
    with pytest.raises(error, match=message):
        regroup(run_dir, **given)
    assert sorted(path.name for path in run_dir.parent.iterdir()) == runs
    assert_nothing_staged(run_dir.parent.parent)


def test_an_input_that_has_changed_is_refused(source: Path, edges_file: Path) -> None:
    pq.write_table(EDGES.slice(1), edges_file)
    refused(source, InputError, r"other edges \(fingerprint .*expected its input, of fingerprint .*--input INPUT")


def test_a_moved_input_is_refused_and_may_be_named(tmp_path: Path, source: Path, edges_file: Path) -> None:
    edges_file.rename(tmp_path / "moved.parquet")
    refused(source, InputError, r"which no longer exists; .*--input INPUT")
    assert said("groups", source, "--quiet", "--input", tmp_path / "moved.parquet")["groups"]


def test_edges_in_memory_have_to_be_given_again(tmp_path: Path) -> None:
    source = run(settings(tmp_path, groups=None), EDGES).run_dir
    refused(source, InputError, "a run of edges in memory")
    refused(source, InputError, "other edges", source=planted(7))
    assert regroup(source, source=EDGES).manifest.derived["groups"]["groups"] == 2


def test_keys_of_another_type_are_other_edges(tmp_path: Path) -> None:
    """Their texts and the fingerprint are equal, but the order of the keys differs."""
    numbers = pa.table({"l": [1, 2, 10, 1], "r": [1, 1, 1, 2]})
    source = run(settings(tmp_path, groups=None), numbers).run_dir
    texts = pa.table({name: numbers[name].cast(pa.string()) for name in ("l", "r")})
    refused(source, InputError, "other edges", source=texts, sections={})


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"query": {"min_left": 2}}, r"query\.min_left changes the search"),
        ({"execution": {"max_bicliques": 2}}, r"execution\.max_bicliques changes the search"),
        ({"input": {"left": "l"}}, r"input\.left changes the search"),
        ({"groups": {"limit": 0}}, r"groups\.limit is 0"),
        ({"output": {"sort": True}}, r"output\.sort needs the table of bicliques"),
    ],
)
def test_sections_that_do_not_apply_to_runs_are_refused(source: Path, sections: Any, message: str) -> None:
    refused(source, ConfigError, message, sections=sections)


@pytest.mark.parametrize(
    "options", [("--min-left", 2), ("--left", "l"), ("--engine", "cpu"), ("--if-changed",), ("--max-bicliques", 3)]
)
def test_options_of_inputs_are_refused_for_runs(source: Path, options: tuple[Any, ...]) -> None:
    message = refusal("groups", source, *options, "--quiet", code=2)
    assert f"Invalid value for {options[0]}: is for an INPUT; the bicliques of the run" in message


def damaged(run_dir: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite the table of bicliques and make the manifest agree with its size."""
    (part,) = (run_dir / "bicliques").iterdir()
    pq.write_table(change(pq.read_table(part)), part)
    values = json.loads((run_dir / "manifest.json").read_text())
    entry = next(each for each in values["files"] if each["path"].startswith("bicliques/"))
    entry["bytes"] = part.stat().st_size
    (run_dir / "manifest.json").write_text(json.dumps(values))


def test_a_damaged_source_is_refused(source: Path) -> None:
    damaged(source, lambda table: table.slice(1))
    refused(source, PublishError, "its bicliques are not those of its manifest")
    part = source / "size_histogram.parquet"
    part.write_bytes(part.read_bytes() + b"?")
    refused(source, PublishError, r"size_histogram\.parquet has .* bytes, not .*; expected an undamaged run")


def test_members_that_are_no_vertices_are_refused(source: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        listed = table.to_pylist()
        listed[0]["left"][-1] = 10_000
        return pa.Table.from_pylist(listed, table.schema)

    damaged(source, change)
    refused(source, PublishError, "left has a vertex that is not in left_vertices")


def test_a_run_that_was_copied_needs_a_place(tmp_path: Path, source: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    with pytest.raises(ConfigError, match=r"is not where it was published; .*output\.directory"):
        regroup(copy)
    assert regroup(copy, {"output": {"directory": str(tmp_path / "b")}}).manifest.made_of == source.name


@pytest.mark.usefixtures("installed")
def test_a_run_of_another_problem_is_refused(tmp_path: Path) -> None:
    values = {"problem": "butterflies", "execution": {"engine": "cpu"}, "output": {"directory": str(tmp_path)}}
    result = run(Config.from_mapping(values), EDGES)
    with pytest.raises(PublishError, match="holds results of the problem 'butterflies'"):
        regroup(result.run_dir)


def test_tables_by_name(source: Path) -> None:
    result = regroup(source)
    assert set(result.tables) == {path.stem for path in result.run_dir.glob("*.parquet")}
    assert result.tables["groups"] == pq.read_table(result.run_dir / "groups.parquet")
    with pytest.raises(KeyError, match=r"'bicliques' is not a table of .*; expected one of .*groups"):
        result.tables["bicliques"]
    whole = RunResult(source, read_manifest(source)).tables
    assert whole["bicliques"].num_rows == read_manifest(source).n_found
    assert len(whole) == 4
    (source / "left_vertices.parquet").unlink()
    with pytest.raises(PublishError, match="cannot be read"):
        whole["left_vertices"]


def test_a_run_without_groups_has_none_to_list(source: Path) -> None:
    with pytest.raises(PublishError, match=r"has no groups; .*mbe groups"):
        listed_groups(source)
    edit(source, lambda values: values.update(made_of="20200101T000000Z-aaaaaa"))
    verify_run(source)
