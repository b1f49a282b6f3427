"""The extension points of the pipeline: a problem and a derived output of another package, end to end.

The toys are found by their entry points (`tests/conftest.py`, `installed`); their checks share no code with the
writers of their tables.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import logging
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mbe_stage import MemoryBudgetExceeded, engines
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.errors import ConfigError, EngineUnavailable, PublishError, VerificationError
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.compiling import host_steps
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.installed import forget_publications
from mbe_stage.pipeline.publish.manifest import config_fingerprint, file_entry, read_manifest
from mbe_stage.pipeline.verify import compile_steps as verify_steps
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.problem import forget
from tests.mbe_stage.processes import run_module
from tests.patience import completed
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.toys.butterflies import engine_cpu, reference
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.smaller_sides import collector as sides_collector

pytestmark = pytest.mark.usefixtures("installed")

ROOT = Path(__file__).parents[2]
SECTIONS = (
    {},
    {"min_butterflies": 3},
    {"max_butterflies": 5, "degrees": True},
    {"min_share": 0.3, "order": "butterflies"},
)


def made(seed: int = 1, n_left: int = 14, n_right: int = 11, share: float = 0.4) -> pa.Table:
    """A random graph with text on one side and integers on the other."""
    dice = random.Random(seed)
    pairs = [(f"<{u}>", 7 * v - 20) for u in range(n_left) for v in range(n_right) if dice.random() < share]
    return pa.table({"l": [left for left, _ in pairs], "r": pa.array([right for _, right in pairs], pa.int64())})


EDGES = made()


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(EDGES, path)
    return path


def settings(out: Path, engine: str = "reference", **sections: Any) -> Config:
    values: dict[str, Any] = {"execution": {"engine": engine}, "output": {"directory": str(out)}}
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section} if isinstance(section, dict) else section
    return Config.from_mapping(values)


def butterflies(out: Path, engine: str = "reference", source: object = EDGES, **sections: Any) -> RunResult:
    return run(settings(out, engine, problem="butterflies", **sections), source)


def expected(section: dict[str, Any], source: pa.Table = EDGES) -> dict[tuple, int]:
    """Return the butterflies of the selected edges, by keys, from the specification."""
    edges = ingest(Config().input, source)
    graph = edges.graph()
    query = EdgeQuery(**{key: value for key, value in section.items() if key not in ("order", "degrees")})
    degrees = graph.left_degrees.tolist(), graph.right_degrees.tolist()
    return {
        (edges.left_keys[u].as_py(), edges.right_keys[v].as_py()): n
        for (u, v), n in reference.butterflies(graph).items()
        if query.accepts(n, (degrees[0][u] - 1) * (degrees[1][v] - 1))
    }


def rows(run_dir: Path, name: str = "edges.parquet") -> list[dict[str, Any]]:
    return pq.read_table(run_dir / name).to_pylist()


def found(run_dir: Path) -> dict[tuple, int]:
    table = rows(run_dir)
    by_edge = {(row["left"], row["right"]): row["butterflies"] for row in table}
    assert len(by_edge) == len(table)
    return by_edge


def mbe(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app.app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def said(*arguments: object, code: int = 0) -> dict[str, Any]:
    return json.loads(mbe(*arguments, "--json", code=code).stdout.splitlines()[-1])


def refusal(*arguments: object, code: int) -> str:
    result = mbe(*arguments, code=code)
    assert "Traceback" not in result.output
    return result.stderr.splitlines()[-1]


# --- a problem ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_a_run_of_another_problem(tmp_path: Path, engine: str, section: dict[str, Any]) -> None:
    result = butterflies(tmp_path, engine, butterflies=section)
    manifest, wanted = result.manifest, expected(section)
    assert found(result.run_dir) == wanted
    assert (manifest.problem, manifest.n_found, manifest.engine) == ("butterflies", len(wanted), engine)
    assert manifest.counts == {
        "counted": len(wanted),
        "in_butterflies": sum(n > 0 for n in wanted.values()),
        "most": max(wanted.values()),
    }
    assert manifest.comparison is None
    assert_sound(result.run_dir)
    assert {path.name for path in result.run_dir.iterdir()} == {"edges.parquet", "manifest.json", "report.html"}
    table = pq.read_schema(result.run_dir / "edges.parquet").names
    assert table == [
        "left",
        "right",
        "butterflies",
        *(["left_degree", "right_degree"] if section.get("degrees") else []),
    ]
    numbers = [row["butterflies"] for row in rows(result.run_dir)]
    if section.get("order") == "butterflies":
        assert numbers == sorted(numbers, reverse=True)
    counted = count(settings(tmp_path, engine, problem="butterflies", butterflies=section), EDGES)
    assert (counted.problem, counted.n_found) == ("butterflies", len(wanted))
    report = verify_run(result.run_dir, ingest(Config().input, EDGES))
    assert (report.problem, report.n_found, report.n_against_input) == ("butterflies", len(wanted), len(wanted))
    assert [check.name for check in report.checks][-3:] == ["nothing missing", "manifest fields", "reading"]


def test_its_report_does_not_mention_bicliques(tmp_path: Path) -> None:
    page = (butterflies(tmp_path).run_dir / "report.html").read_text()
    assert "<h2>The edges in most butterflies</h2>" in page
    assert "<th><bdi>&lt;" in page
    assert "<h2>How it was made</h2>" in page
    assert "iclique" not in page.split("</style>")[1]
    assert "<dt>most butterflies of an edge</dt>" in page


def test_its_command_and_its_section_ask_the_same(tmp_path: Path, edges_file: Path) -> None:
    options = [
        "--min-butterflies",
        2,
        "--max-butterflies",
        9,
        "--min-share",
        0.1,
        "--order",
        "butterflies",
        "--degrees",
    ]
    told = said("butterflies", edges_file, "--out", tmp_path / "a", "--engine", "cpu", *options, "--quiet")
    section = {"min_butterflies": 2, "max_butterflies": 9, "min_share": 0.1, "order": "butterflies", "degrees": True}
    assert told["problem"] == "butterflies"
    assert told["counted"] == len(expected({**section})) > 0
    assert "bicliques" not in told
    config = tmp_path / "c.yaml"
    config.write_text(
        f"problem: butterflies\ninput: {{path: {edges_file}}}\nexecution: {{engine: reference}}\n"
        f"butterflies: {json.dumps(section)}\noutput: {{directory: {tmp_path / 'b'}}}\n"
    )
    again = said("run", config, "--quiet")
    assert again["content_fingerprint"] == told["content_fingerprint"]
    runs = [read_manifest(Path(each["run"])) for each in (told, again)]
    assert runs[0].config_fingerprint == runs[1].config_fingerprint
    assert runs[0].config.problem_section.model_dump() == section
    mbe("run", config, "--quiet", "--if-changed", code=app.UNCHANGED)
    other = said("run", config, "--quiet", "--set", "butterflies.order=edges", "--if-changed")
    assert not other["unchanged"]
    assert said("run", config, "--quiet", "--count-only")["counted"] == told["counted"]
    assert said("inspect", edges_file, "--problem", "butterflies", "--trial", 1, "--quiet")["input"]["n_edges"] > 0


def test_the_help_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = mbe("butterflies", "--help").stdout
    for words in (
        "Fewest butterflies of an edge",
        "Most butterflies",
        "Least share",
        "Order of the rows",
        "degrees of both",
    ):
        assert words in shown
    assert "butterflies" in mbe("--help").stdout
    assert "smaller side" in mbe("enumerate", "--help").stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [("--min-butterflies", -1), ("--min-share", 1.5), ("--order", "left"), ("--min-butterflies", 10**9)],
)
def test_wrong_options_are_one_line(tmp_path: Path, edges_file: Path, option: str, value: object) -> None:
    message = refusal("butterflies", edges_file, "--out", tmp_path / "o", option, value, "--quiet", code=2)
    assert message
    assert not (tmp_path / "o" / "runs").exists()


def test_texts_use_the_words_of_the_problem(tmp_path: Path, edges_file: Path) -> None:
    out = tmp_path / "o"
    told = mbe("butterflies", edges_file, "--out", out, "--engine", "reference", "--quiet").stdout
    assert f"{EDGES.num_rows} edges counted in" in told
    assert "mbe verify" in told
    assert "iclique" not in told
    assert "counted" in mbe("runs", out).stdout
    mbe("enumerate", edges_file, "--out", out, "--engine", "reference", "--quiet", "--smaller-sides")
    (first, second) = said("runs", out)["runs"]
    assert (first["problem"], first["counted"]) == ("butterflies", EDGES.num_rows)
    assert (second["problem"], second["asked"]) == ("bicliques", {"smaller_sides": {}})
    assert second["bicliques"] == len(maximal_bicliques(ingest(Config().input, EDGES).graph()))
    assert "found" in mbe("runs", out).stdout


def test_commands_for_bicliques_refuse_its_runs(tmp_path: Path) -> None:
    mine = butterflies(tmp_path / "a").run_dir
    ours = run(settings(tmp_path / "b"), EDGES).run_dir
    for arguments in (
        ("top", mine),
        ("export", mine, "--csv"),
        ("diff", mine, ours),
        ("diff", ours, mine),
        ("diff", mine, mine),
    ):
        message = refusal(*arguments, code=3)
        assert message.startswith(
            f"error: {mine}: holds results of the problem 'butterflies'; expected a run of bicliques"
        )


def test_runs_of_two_problems_in_one_directory_are_kept_apart(tmp_path: Path) -> None:
    for config in (settings(tmp_path), settings(tmp_path, problem="butterflies")):
        first = run(config, EDGES)
        assert not first.unchanged
        assert run(config, EDGES, if_changed=True).unchanged
    assert run(settings(tmp_path), EDGES, if_changed=True).unchanged is False
    compared = run(settings(tmp_path), EDGES).manifest.comparison
    assert compared is not None
    assert (compared.n_same, compared.counts) == (sides().total(), {})


def test_auto_skips_tiers_that_do_not_support_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: None)
    assert tiers.choose_tier(Config().execution).name == "rapids"
    assert tiers.choose_tier(Config().execution, "butterflies").name in ("cuda", "cpu")
    with pytest.raises(EngineUnavailable, match="the problem 'butterflies' cannot write tables in device memory"):
        butterflies(tmp_path, "rapids")


class TooSmall:
    """Stands in for a CUDA engine on a GPU that is too small."""

    unavailable_reason = staticmethod(lambda: None)
    device = staticmethod(lambda _: "a small GPU")
    compile_steps = staticmethod(lambda *_: ())

    @staticmethod
    def run(*_: object) -> Any:
        raise MemoryBudgetExceeded("too small a GPU")
        yield


def test_another_engine_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = engines._load
    monkeypatch.setattr(engines, "_load", lambda problem, name: TooSmall if name == "cuda" else load(problem, name))
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "not here")
    result = butterflies(tmp_path, "auto")
    assert result.manifest.engine == "cpu"
    assert "too small a GPU" in result.manifest.warnings[0]
    assert found(result.run_dir) == expected({})
    with pytest.raises(MemoryBudgetExceeded, match="too small a GPU"):
        butterflies(tmp_path, "cuda")


def test_a_truncated_run_is_marked(tmp_path: Path) -> None:
    source = made(2, 60, 40)
    result = butterflies(tmp_path, "cpu", source, execution={"engine": "cpu", "time_limit_seconds": 1e-9})
    wanted = expected({}, source)
    assert result.manifest.truncated == "stopped at time_limit_seconds = 1e-09"
    assert 0 < len(found(result.run_dir)) < len(wanted)
    assert found(result.run_dir).items() <= wanted.items()
    assert "there may be more counted: counts are lower bounds." in (result.run_dir / "report.html").read_text()
    report = verify_run(result.run_dir, ingest(Config().input, source))
    assert any("the run is incomplete" in text for text in report.not_checked)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_run_without_results(tmp_path: Path, engine: str) -> None:
    edges = ingest(Config().input, EDGES)
    result = butterflies(tmp_path / "a", engine, butterflies={"min_butterflies": 150})
    assert (result.manifest.n_found, rows(result.run_dir)) == (0, [])
    assert verify_run(result.run_dir, edges).n_found == 0
    ours = run(settings(tmp_path / "b", engine, smaller_sides={}, query={"min_left": 99}), EDGES)
    assert ours.manifest.derived == {"smaller_sides": {"sizes": 0, "bicliques": 0}}
    assert rows(ours.run_dir, "smaller_sides.parquet") == []
    verify_run(ours.run_dir, edges)


def test_an_input_without_edges_is_refused_in_one_line(tmp_path: Path) -> None:
    empty = tmp_path / "e.parquet"
    pq.write_table(EDGES.slice(0, 0), empty)
    for command in ("butterflies", "enumerate"):
        assert "no edges" in refusal(command, empty, "--out", tmp_path / "o", "--quiet", code=2)
    assert not (tmp_path / "o" / "runs").exists()


# --- a derived output ---------------------------------------------------------------------------------------------


def sides(source: pa.Table = EDGES) -> Counter[int]:
    """Count the bicliques by their smaller side, from the specification."""
    return Counter(
        min(len(left), len(right)) for left, right in maximal_bicliques(ingest(Config().input, source).graph())
    )


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("output", [{}, {"sort": True, "members": True}], ids=str)
def test_a_derived_output(tmp_path: Path, engine: str, output: dict[str, Any]) -> None:
    result = run(settings(tmp_path, engine, smaller_sides={}, output={"directory": str(tmp_path), **output}), EDGES)
    table = rows(result.run_dir, "smaller_sides.parquet")
    assert {row["size"]: row["n_bicliques"] for row in table} == sides()
    largest: dict[int, int] = {}
    for row in rows(result.run_dir, "bicliques"):
        size = min(row["n_left"], row["n_right"])
        largest[size] = max(row["biclique_key"], largest.get(size, row["biclique_key"]))
    assert {row["size"]: row["largest_key"] for row in table} == largest
    assert result.manifest.derived == {"smaller_sides": {"sizes": len(table), "bicliques": sides().total()}}
    assert "<h2>How many of each smaller side</h2>" in (result.run_dir / "report.html").read_text()
    assert_sound(result.run_dir)
    report = verify_run(result.run_dir, ingest(Config().input, EDGES))
    assert "smaller sides" in [check.name for check in report.checks]


def test_its_options_and_its_section_ask_the_same(tmp_path: Path, edges_file: Path) -> None:
    common = ("--engine", "reference", "--quiet")
    options = ("--smaller-sides-at-least", 2, "--no-smaller-sides-largest-key")
    told = said("enumerate", edges_file, "--out", tmp_path / "a", *options, *common)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"input: {{path: {edges_file}}}\nexecution: {{engine: cpu}}\noutput: {{directory: {tmp_path / 'b'}}}\n"
        "smaller_sides: {at_least: 2, largest_key: false}\n"
    )
    again = said("run", config, "--quiet")
    at_least_two = [{"size": size, "n_bicliques": n} for size, n in sorted(sides().items()) if size >= 2]
    for each in (told, again):
        assert rows(Path(each["run"]), "smaller_sides.parquet") == at_least_two
        assert each["derived"]["smaller_sides"]["sizes"] == len(at_least_two)
        assert said("verify", each["run"], "--quiet")["verified"]
    fingerprints = {read_manifest(Path(each["run"])).config_fingerprint for each in (told, again)}
    assert len(fingerprints) == 1
    assert fingerprints != {config_fingerprint(settings(tmp_path, smaller_sides={}))}


def test_an_output_that_is_not_requested_changes_nothing(tmp_path: Path) -> None:
    without = run(settings(tmp_path / "a"), EDGES)
    asked = run(settings(tmp_path / "b", smaller_sides={}), EDGES)
    assert {path.name for path in asked.run_dir.iterdir()} - {path.name for path in without.run_dir.iterdir()} == {
        "smaller_sides.parquet"
    }
    assert without.manifest.derived == {}
    assert without.manifest.content_fingerprint == asked.manifest.content_fingerprint
    # The fingerprint of the defaults from before there were other problems.
    assert config_fingerprint(Config()) == "764213ca21744c074f8c5caf5c1824ba2af4798b03f67bc83725cef4d58bd86c"
    section = '<section id="smaller-sides">'
    before, after = ((each.run_dir / "report.html").read_text() for each in (without, asked))
    assert section not in before
    assert after.count("<section") == before.count("<section") + 1


def test_a_truncated_run_has_the_derived_output_of_its_results(tmp_path: Path) -> None:
    limits = {"engine": "cpu", "max_bicliques": 7}
    result = run(settings(tmp_path, smaller_sides={}, execution=limits), EDGES)
    assert result.manifest.truncated == "stopped at max_bicliques = 7"
    assert result.manifest.derived["smaller_sides"]["bicliques"] == 7
    held = Counter(min(row["n_left"], row["n_right"]) for row in rows(result.run_dir, "bicliques"))
    assert {row["size"]: row["n_bicliques"] for row in rows(result.run_dir, "smaller_sides.parquet")} == held
    verify_run(result.run_dir, ingest(Config().input, EDGES))


def test_every_problem_is_compiled_ahead(tmp_path: Path) -> None:
    own = {step.what for step in engine_cpu.compile_steps()}
    assert own <= {step.what for step in host_steps("cpu")}
    assert own <= {step.what for step in host_steps("cpu", but_with="cudf")}
    assert not own & {step.what for step in host_steps("cpu", but_with="arrow")}
    ours = {step.what for step in host_steps("cpu", "publish", Config())}
    assert ours
    assert not own & ours
    asked = {step.what for step in host_steps("cpu", "publish", Config(problem="butterflies"))}
    assert asked == own
    assert {step.what for step in verify_steps(butterflies(tmp_path).manifest)} < {step.what for step in verify_steps()}


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("method", ["accept", "finish", "__init__"])
def test_an_output_that_raises_fails_the_run_in_one_line(
    tmp_path: Path, edges_file: Path, monkeypatch: pytest.MonkeyPatch, engine: str, method: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no idea\nwhat to do")

    monkeypatch.setattr(sides_collector.SidesCollector, method, fail)
    out = tmp_path / "o"
    message = refusal("enumerate", edges_file, "--out", out, "--smaller-sides", "--engine", engine, "--quiet", code=3)
    assert message.startswith("error: derived output 'smaller_sides': RuntimeError: no idea what to do; expected")
    assert not list((out / "runs").iterdir()) if (out / "runs").exists() else True
    assert not (out / "latest").exists()
    assert_nothing_staged(out)


def test_an_output_with_invalid_counts_fails_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides_collector.SidesCollector, "finish", lambda _: {"sizes": "many"})
    with pytest.raises(PublishError, match=r"derived output 'smaller_sides': gives .* expected counts by name"):
        run(settings(tmp_path, smaller_sides={}), EDGES)
    assert_nothing_staged(tmp_path)


# --- further failures ---------------------------------------------------------------------------------------------


def add_entry(installed: Path, line: str) -> None:
    file = installed / "toys-1.dist-info" / "entry_points.txt"
    file.write_text(file.read_text() + line + "\n")
    forget()
    forget_publications()


SECOND = """
from mbe_stage.problem import DerivedOutput
from tests.toys.smaller_sides.publication import PUBLICATION as FIRST
from tests.pipeline.plugins import changed
OUTPUT = DerivedOutput("second_sides", "bicliques", "second:PUBLICATION")
PUBLICATION = changed(FIRST, name="second_sides")
"""


def test_two_writers_of_one_table_are_refused_before_anything_is_read(tmp_path: Path, installed: Path) -> None:
    (installed / "second.py").write_text(SECOND)
    add_entry(installed, "second_sides = second:OUTPUT")
    both = settings(tmp_path / "o", smaller_sides={}, second_sides={}, input={"path": "/nowhere"})
    with pytest.raises(ConfigError, match=r"s\w+_sides and s\w+_sides both write smaller_sides\.parquet; expected one"):
        run(both)
    assert not (tmp_path / "o").exists()
    run(settings(tmp_path / "o", smaller_sides={}), EDGES)


@pytest.mark.parametrize(
    "line",
    ["broken = nowhere:PROBLEM", "broken = tests.conftest:TOYS", "bicliques = tests.toys.butterflies.problem:PROBLEM"],
)
def test_a_broken_entry_point_is_left_out_with_a_warning(
    tmp_path: Path, installed: Path, edges_file: Path, caplog: pytest.LogCaptureFixture, line: str
) -> None:
    add_entry(installed, line)
    with caplog.at_level(logging.WARNING):
        told = said("butterflies", edges_file, "--out", tmp_path / "o", "--engine", "reference", "--quiet")
    assert told["counted"] == EDGES.num_rows
    assert f"the entry point '{line.split()[0]}' of mbe_stage.problems" in caplog.text
    assert said("enumerate", edges_file, "--out", tmp_path / "p", "--engine", "reference", "--quiet")["bicliques"]


def test_a_publication_that_cannot_be_imported_fails_only_its_users(
    tmp_path: Path, installed: Path, edges_file: Path
) -> None:
    (installed / "second.py").write_text(SECOND.replace("second:PUBLICATION", "nowhere:PUBLICATION"))
    add_entry(installed, "second_sides = second:OUTPUT")
    told = said("enumerate", edges_file, "--out", tmp_path / "o", "--engine", "reference", "--smaller-sides", "--quiet")
    assert said("verify", told["run"], "--quiet")["verified"]


def test_a_run_of_a_missing_package_is_listed_but_not_checked(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = butterflies(tmp_path / "a").run_dir
    ours = run(settings(tmp_path / "b", smaller_sides={}), EDGES).run_dir
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(installed)])
    forget()
    forget_publications()
    for run_dir, name in ((mine, "the problem 'butterflies'"), (ours, "the derived output 'smaller_sides'")):
        message = refusal("verify", run_dir, "--quiet", code=3)
        assert name in message
        assert "not installed here" in message
        assert "install the package" in message
    (listed,) = said("runs", tmp_path / "a")["runs"]
    assert (listed["problem"], listed["butterflies"], listed["damaged"]) == ("butterflies", None, None)
    assert "butterflies" in mbe("runs", tmp_path / "a").stdout
    assert said("top", ours)["bicliques"]
    assert run(settings(tmp_path / "a"), EDGES, if_changed=True).unchanged is False


def forge(run_dir: Path, name: str, change: Any) -> None:
    """Rewrite a table and make the manifest agree with it."""
    table = pq.read_table(run_dir / name)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), run_dir / name)
    values = json.loads((run_dir / "manifest.json").read_text())
    entry = json.loads(file_entry(run_dir, run_dir / name).model_dump_json())
    values["files"] = [entry if each["path"] == name else each for each in values["files"]]
    (run_dir / "manifest.json").write_text(json.dumps(values))


def edit(run_dir: Path, change: Any) -> None:
    values = json.loads((run_dir / "manifest.json").read_text())
    change(values)
    (run_dir / "manifest.json").write_text(json.dumps(values))


def one_more(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    column = "butterflies" if "butterflies" in table[0] else "n_bicliques"
    return [{**table[0], column: table[0][column] + 1}, *table[1:]]


@pytest.mark.parametrize("change", [one_more, lambda table: table[1:], lambda table: [*table, table[0]]])
def test_its_check_finds_forged_tables(tmp_path: Path, change: Any) -> None:
    edges = ingest(Config().input, EDGES)
    mine = butterflies(tmp_path / "a").run_dir
    forge(mine, "edges.parquet", change)
    with pytest.raises(VerificationError):
        verify_run(mine, edges)
    ours = run(settings(tmp_path / "b", smaller_sides={}), EDGES).run_dir
    forge(ours, "smaller_sides.parquet", change)
    with pytest.raises(VerificationError, match=r"smaller_sides\.parquet, row"):
        verify_run(ours, edges)


def test_another_input_is_not_that_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"input\.fingerprint is"):
        verify_run(butterflies(tmp_path).run_dir, ingest(Config().input, made(5)))


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["counts"].update(counted="many"),
        lambda values: values["counts"].update(counted=1.5),
        lambda values: values.update(counts={"edges": 3}),
        lambda values: values.update(counts=7),
        lambda values: values.update(derived={"smaller_sides": 3}),
        lambda values: values["config"]["butterflies"].update(min_butterflies="few"),
        lambda values: values["config"]["butterflies"].update(unknown=1),
    ],
)
def test_damaged_counts_and_sections_are_one_line(tmp_path: Path, change: Any) -> None:
    mine = butterflies(tmp_path, butterflies={"min_butterflies": 1}).run_dir
    edit(mine, change)
    for arguments in (("verify", mine, "--quiet"), ("diff", mine, mine)):
        assert "the run is damaged: publish it again" in refusal(*arguments, code=3)
    assert "DAMAGED" in " ".join(mbe("runs", tmp_path).stdout.split())


@pytest.mark.parametrize("wrong", ["many", None, 1.5])
def test_damaged_counts_of_bicliques_are_one_line(tmp_path: Path, wrong: object) -> None:
    ours = run(settings(tmp_path), EDGES).run_dir
    edit(ours, lambda values: values["counts"].update(bicliques=wrong))
    message = refusal("verify", ours, "--quiet", code=3)
    assert message.startswith(f"error: {ours / 'manifest.json'}: counts: bicliques: ")


def test_a_run_published_before_there_were_problems_is_read(tmp_path: Path) -> None:
    old = run(settings(tmp_path), EDGES).run_dir
    edit(old, lambda values: (values.pop("derived"), values["config"].pop("problem")))
    assert read_manifest(old).problem == "bicliques"
    assert verify_run(old, ingest(Config().input, EDGES)).n_bicliques == sides().total()
    assert run(settings(tmp_path), EDGES, if_changed=True).unchanged


# --- other processes ----------------------------------------------------------------------------------------------


def test_a_plain_mbe_sees_the_toys(tmp_path: Path, edges_file: Path, installed_environment: dict[str, str]) -> None:
    def process(*arguments: object) -> dict[str, Any]:
        program = [sys.executable, "-c", "from mbe_stage.pipeline.cli.entry import main; main()"]
        done = completed([*program, *arguments, "--json", "--quiet"], env=installed_environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    told = process("butterflies", edges_file, "--out", "a", "--engine", "cpu")
    assert found(tmp_path / told["run"]) == expected({})
    assert said("verify", tmp_path / told["run"], "--quiet")["counted"] == EDGES.num_rows
    ours = process("enumerate", edges_file, "--out", "b", "--engine", "cpu", "--smaller-sides")
    assert {row["size"]: row["n_bicliques"] for row in rows(tmp_path / ours["run"], "smaller_sides.parquet")} == sides()


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
def test_a_run_with_the_cuda_engine_on_the_emulator(tmp_path: Path, installed: Path) -> None:
    said_by = run_module("tests.toys.butterflies.emulated_run", str(installed), str(tmp_path)).splitlines()
    (reference_run, cuda_run) = (json.loads(line) for line in said_by if line.startswith("["))
    assert (reference_run[0], cuda_run[0]) == ("reference", "cuda")
    assert reference_run[1:] == cuda_run[1:]
    assert reference_run[2] == reference_run[3] > 20


# --- callers know no problem --------------------------------------------------------------------------------------

# The backend has to use networkx's names of functions.
_OF_NETWORKX = "networkx_backend/"


def test_no_caller_knows_a_problem() -> None:
    for path in [*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "flows").rglob("*.py")]:
        name = path.relative_to(ROOT).as_posix().removeprefix("pipeline/")
        text = path.read_text()
        for toy in (*(() if name.startswith(_OF_NETWORKX) else ("butterfl",)), "smaller_sides", "tests.toys"):
            assert toy not in text, f"{path} knows {toy}"
        for node in ast.walk(ast.parse(text)):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            constants = [each.value for each in compared if isinstance(each, ast.Constant)]
            assert "bicliques" not in constants, f"{path}:{node.lineno} branches on the name of a problem"
