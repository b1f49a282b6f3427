"""Runs of (p, q)-counts: tables compared with a brute force; output, refusals, limits and checks."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from mbe_stage.errors import EngineUnavailable, MemoryBudgetExceeded
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.config.model import load_config
from mbe_stage.pipeline.errors import ConfigError, InputError, VerificationError
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.execution.tiers import on_a_tier_that_fits
from mbe_stage.pipeline.large_numbers import digits_text, number_of
from mbe_stage.pipeline.problems.pq_counts import trial
from mbe_stage.pipeline.problems.pq_counts.memory import check_local_memory, local_bytes, most_of_cell
from mbe_stage.pipeline.problems.pq_counts.section import MOST_CELLS, PqCountsSection
from mbe_stage.pipeline.problems.pq_counts.tables import columns_of_digits, columns_of_integers
from mbe_stage.pipeline.publish.manifest import file_entry
from mbe_stage.pipeline.verify import VerifyReport, verify_run
from mbe_stage.pq_counts import engine_cpu, engine_cuda
from mbe_stage.pq_counts.digits import digits_of
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail

Cell = tuple[int, int]
BICLIQUES = tuple[frozenset[Any], frozenset[Any]]


def made(seed: int = 1, n_left: int = 8, n_right: int = 7, share: float = 0.5) -> pa.Table:
    """A random graph with text on one side and integers on the other."""
    dice = random.Random(seed)
    pairs = [(f"<{u}>", 7 * v - 20) for u in range(n_left) for v in range(n_right) if dice.random() < share]
    pairs = pairs or [("<0>", -20)]
    return pa.table({"l": [left for left, _ in pairs], "r": pa.array([right for _, right in pairs], pa.int64())})


def complete(n_left: int, n_right: int) -> pa.Table:
    left, right = np.divmod(np.arange(n_left * n_right), n_right)
    return pa.table({"l": left, "r": right})


EDGES = made()


def bicliques(source: pa.Table, cell: Cell, held: tuple[tuple, tuple] = ((), ())) -> list[BICLIQUES]:
    """Return every (p, q)-biclique of a graph, by keys: all pairs of sets that have all edges."""
    edges = set(zip(source["l"].to_pylist(), source["r"].to_pylist(), strict=True))
    left, right = ({edge[side] for edge in edges} for side in (0, 1))
    return [
        (frozenset(us), frozenset(vs))
        for us in combinations(sorted(left), cell[0])
        if set(held[0]) <= set(us)
        for vs in combinations(sorted(right), cell[1])
        if set(held[1]) <= set(vs) and all((u, v) in edges for u in us for v in vs)
    ]


def settings(out: Path | str, engine: str = "reference", **asked: Any) -> Config:
    others = {name: asked.pop(name) for name in ("execution", "output", "input") if name in asked}
    values: dict[str, Any] = {
        "problem": "pq_counts",
        "execution": {"engine": engine, **others.get("execution", {})},
        "output": {"directory": str(out), **others.get("output", {})},
        "input": others.get("input", {}),
        "pq_counts": asked,
    }
    return Config.from_mapping(values)


def published(out: Path, engine: str = "reference", source: object = EDGES, **asked: Any) -> RunResult:
    return run(settings(out, engine, **asked), source)


def checked(result: RunResult, source: object = EDGES) -> VerifyReport:
    return verify_run(result.run_dir, ingest(Config().input, source))


def rows(run_dir: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(run_dir / f"{name}.parquet").to_pylist()


def counts_of(run_dir: Path) -> dict[Cell, int]:
    return {(row["p"], row["q"]): int(Decimal(row["count_text"])) for row in rows(run_dir, "pq_counts")}


def mbe(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app.app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def said(*arguments: object) -> dict[str, Any]:
    return json.loads(mbe(*arguments, "--json", "--quiet").stdout.splitlines()[-1])


def refusal(*arguments: object, code: int = 2) -> str:
    result = mbe(*arguments, "--quiet", code=code)
    assert "Traceback" not in result.output
    return result.stderr.splitlines()[-1]


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.parquet"
    pq.write_table(EDGES, path)
    return path


# --- tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("seed", range(6))
def test_tables_are_what_a_brute_force_counts(tmp_path: Path, engine: str, seed: int) -> None:
    dice = random.Random(seed)
    source = made(seed, dice.randrange(1, 9), dice.randrange(1, 8), dice.choice([0.2, 0.5, 0.9]))
    result = published(tmp_path, engine, source, p=4, q=3, table=True, local="edges")
    cells = [(p, q) for p in range(1, 5) for q in range(1, 4)]
    expected = {cell: bicliques(source, cell) for cell in cells}
    assert counts_of(result.run_dir) == {cell: len(found) for cell, found in expected.items()}
    assert [(row["p"], row["q"]) for row in rows(result.run_dir, "pq_counts")] == cells

    edges = ingest(Config().input, source)
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    vertices = rows(result.run_dir, "pq_vertices")
    assert [(row["p"], row["q"], row["side"], row["vertex"], row["key"], row["count"]) for row in vertices] == [
        (*cell, side, i, str(key), Decimal(sum(key in found[is_right] for found in expected[cell])))
        for cell in cells
        for is_right, (side, keys) in enumerate((("left", left), ("right", right)))
        for i, key in enumerate(keys)
    ]
    assert [tuple(row.values())[:5] for row in rows(result.run_dir, "pq_edges")] == [
        (left[u], right[v], *cell, Decimal(sum(left[u] in us and right[v] in vs for us, vs in expected[cell])))
        for cell in cells
        for u, v in zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True)
    ]
    assert all(row["count_text"] == str(row["count"]) for row in [*vertices, *rows(result.run_dir, "pq_edges")])

    report = checked(result, source)
    assert (report.problem, report.n_found, report.n_against_input) == ("pq_counts", 12, 12)
    assert not any("against the input" in text for text in report.not_checked)
    sums = result.manifest.counts
    assert (sums.counts, sums.above_zero) == (12, sum(map(bool, expected.values())))
    assert number_of(sums.largest) == len(expected[sums.largest_p, sums.largest_q]) == max(map(len, expected.values()))


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_a_table_has_the_single_counts(tmp_path: Path, engine: str) -> None:
    source = made(7, 9, 8)
    whole = counts_of(published(tmp_path / "a", engine, source, p=3, q=3, table=True).run_dir)
    for (p, q), n in whole.items():
        result = published(tmp_path / "b", engine, source, p=p, q=q)
        assert counts_of(result.run_dir) == {(p, q): n}
        assert result.manifest.n_found == 1
        assert checked(result, source).n_against_input == 1
    assert checked(published(tmp_path / "a", engine, source, p=3, q=3, table=True), source).n_against_input == 9


def test_engines_publish_the_same(tmp_path: Path) -> None:
    asked = {"p": 5, "q": 5, "table": True, "local": "edges", "containing_left": ["<1>"]}
    runs = [published(tmp_path / engine, engine, **asked) for engine in ("reference", "cpu")]
    assert len({each.manifest.content_fingerprint for each in runs}) == 1
    assert len({each.manifest.config_fingerprint for each in runs}) == 1
    other = published(tmp_path / "cpu", "cpu", p=5, q=4, table=True)
    assert other.manifest.content_fingerprint != runs[0].manifest.content_fingerprint


@pytest.mark.parametrize("held", [(("<1>",), ()), ((), (1,)), (("<1>", "<3>"), (8,)), (("<0>",), (1, 15))])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_bicliques_that_contain_given_vertices(tmp_path: Path, engine: str, held: tuple[tuple, tuple]) -> None:
    asked = {"p": 3, "q": 3, "table": True, "containing_left": held[0], "containing_right": held[1]}
    result = published(tmp_path, engine, **asked)
    assert counts_of(result.run_dir) == {
        (p, q): len(bicliques(EDGES, (p, q), held)) for p in range(1, 4) for q in range(1, 4)
    }
    assert checked(result).n_against_input == 9


def test_filters_of_edges_are_those_of_all(tmp_path: Path) -> None:
    dice = random.Random(3)
    weights = [dice.randrange(10) for _ in range(EDGES.num_rows)]
    config = settings(tmp_path, p=2, q=2, input={"weight": "w", "min_weight": 3})
    result = run(config, EDGES.append_column("w", pa.array(weights)))
    strong = EDGES.filter(pa.array([weight >= 3 for weight in weights]))
    assert counts_of(result.run_dir) == {(2, 2): len(bicliques(strong, (2, 2)))}


def test_counts_beyond_38_digits_are_null_and_have_a_text(tmp_path: Path) -> None:
    """C(70, 35)^2 and, for a star, C(140, 70) have 41 digits each; a larger star has 6,019 digits."""
    square = published(tmp_path / "a", "cpu", complete(70, 70), p=35, q=35)
    (row,) = rows(square.run_dir, "pq_counts")
    assert row["count"] is None
    assert row["count_text"] == str(comb(70, 35) ** 2)
    assert checked(square, complete(70, 70)).n_found == 1
    star = complete(1, 140)
    result = published(tmp_path / "b", "cpu", star, p=1, q=70, local="edges")
    assert [row["count"] for row in rows(result.run_dir, "pq_counts")] == [None]
    texts = [row["count_text"] for row in rows(result.run_dir, "pq_edges")]
    assert texts == [str(comb(139, 69))] * 140
    assert checked(result, star).n_against_input == 1
    large = complete(1, 20_000)
    result = published(tmp_path / "c", "cpu", large, p=1, q=10_000)
    assert counts_of(result.run_dir) == {(1, 10_000): comb(20_000, 10_000)}
    assert len(rows(result.run_dir, "pq_counts")[0]["count_text"]) == 6_019
    assert checked(result, large).n_against_input == 1
    assert "(6,019 digits)" in (result.run_dir / "report.html").read_text()


def test_numbers_as_columns() -> None:
    dice = random.Random(5)
    numbers = [dice.getrandbits(dice.randrange(1, 200)) for _ in range(500)]
    numbers += [0, 2**64 - 1, 2**64, 10**38 - 1, 10**38, 2**128 - 1, 2**128, 2**160]
    for count_column, text in (columns_of_integers(numbers), columns_of_digits(digits_of(numbers, 8))):
        assert text.to_pylist() == [str(number) for number in numbers]
        assert count_column.to_pylist() == [Decimal(n) if n < 10**38 else None for n in numbers]
    assert columns_of_integers([])[1].to_pylist() == []


def test_the_content_fingerprint_tells_local_counts_apart(tmp_path: Path) -> None:
    prints = {
        local: published(tmp_path / local, p=2, q=2, local=local).manifest.content_fingerprint
        for local in ("none", "vertices", "edges")
    }
    assert len(set(prints.values())) == 3
    again = published(tmp_path / "again", source=EDGES.take(list(range(EDGES.num_rows))[::-1]), p=2, q=2, local="edges")
    assert again.manifest.content_fingerprint == prints["edges"]


# --- limits -------------------------------------------------------------------------------------------------------


def test_a_time_limit_gives_lower_bounds_and_says_so(tmp_path: Path, edges_file: Path) -> None:
    source = made(2, 60, 50, 0.5)
    limited = {"engine": "cpu", "time_limit_seconds": 1e-9, "threads": 1}
    result = published(tmp_path / "a", "cpu", source, p=4, q=4, execution=limited)
    whole = count(settings(tmp_path, "cpu", p=4, q=4), source)
    assert whole.result_text is not None
    assert result.manifest.truncated == "stopped at time_limit_seconds = 1e-09"
    assert counts_of(result.run_dir)[4, 4] < whole.result_text.values["counts"][0]["count"]
    page = (result.run_dir / "report.html").read_text()
    assert "Every count is a lower bound." in page
    assert "There are at least <b" in page
    report = checked(result, source)
    assert any("lower bounds only: the run is incomplete" in text for text in report.not_checked)
    pq.write_table(source, edges_file)
    told = mbe("count-pq", edges_file, "-p", 4, "-q", 4, "--engine", "cpu", "--time-limit", 1e-9, "--quiet").stdout
    assert told.startswith("at least ")
    assert "INCOMPLETE stopped at time_limit_seconds" in told
    values = said("count-pq", edges_file, "-p", 4, "-q", 4, "--engine", "cpu", "--time-limit", 1e-9)
    assert values["lower_bounds"] is True
    listed = mbe("runs", tmp_path / "a").stdout
    assert ">= " in listed


def test_local_counts_that_do_not_fit_are_refused_before_the_search(tmp_path: Path, edges_file: Path) -> None:
    source = made(3, 300, 300, 0.1)
    asked = {"p": 40, "q": 40, "table": True, "local": "edges"}
    with pytest.raises(MemoryBudgetExceeded, match=r"local counts of edges need [\d,]+ bytes") as refused:
        published(tmp_path, source=source, **asked, execution={"memory_budget": "1MiB"})
    remedy = "raise it, ask for one count instead of 1,600, or set pq_counts.local to vertices"
    assert str(refused.value).endswith(f"execution.memory_budget is 1,048,576: {remedy}")
    edges = ingest(Config().input, source)
    degrees = edges.graph().left_degrees, edges.graph().right_degrees
    assert refused.value.needed_bytes == local_bytes(PqQuery(1, 40, 1, 40), Detail.EDGES, *degrees)
    pq.write_table(source, edges_file)
    options = ["-p", 40, "-q", 40, "--table", "--local", "edges", "--out", tmp_path / "o"]
    assert "--memory-budget is" in refusal("count-pq", edges_file, *options, "--memory-budget", "1MiB", code=4)
    assert not (tmp_path / "o" / "latest").exists()


@pytest.mark.parametrize(
    ("detail", "size", "remedy"),
    [
        (Detail.VERTICES, 1, "raise it"),
        (Detail.VERTICES, 8, "raise it, or ask for one count instead of 64"),
        (Detail.EDGES, 1, "raise it, or set pq_counts.local to vertices"),
        (Detail.EDGES, 8, "raise it, ask for one count instead of 64, or set pq_counts.local to vertices"),
    ],
)
def test_a_refusal_of_local_counts_names_cheaper_settings(detail: Detail, size: int, remedy: str) -> None:
    query = PqQuery.of(3, 3) if size == 1 else PqQuery(1, size, 1, size)
    with pytest.raises(MemoryBudgetExceeded) as refused:
        check_local_memory(query, detail, (np.array([2, 3]), np.array([1, 1, 3])), 10)
    assert str(refused.value).endswith(f"is 10: {remedy}")


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_cell_is_an_upper_bound(seed: int) -> None:
    graph = ingest(Config().input, made(seed, 7, 6, 0.7)).graph()
    source = made(seed, 7, 6, 0.7)
    for p in range(1, 5):
        for q in range(1, 5):
            most = most_of_cell(p, q, graph.left_degrees, graph.right_degrees)
            assert most >= len(bicliques(source, (p, q)))
    assert most_of_cell(1, 1, graph.left_degrees, graph.right_degrees) == graph.n_edges


def test_missing_local_counts_are_not_published_as_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbe_stage.pq_counts import reference

    whole = reference.run

    def only_leaves(*given: Any, **more: Any) -> Any:
        return (block for block in whole(*given, **more) if block.local is None)

    monkeypatch.setattr(reference, "run", only_leaves)
    with pytest.raises(EngineUnavailable, match="says nothing of vertices and edges"):
        published(tmp_path, p=2, q=2, local="vertices")
    assert not (tmp_path / "latest").exists()


# --- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"p": 0}, "pq_counts.p is 0: expected 1 or more"),
        ({"q": -1}, "pq_counts.q is -1"),
        ({"p": 10**10}, "pq_counts.p is 10000000000: expected 1 to 1,048,576"),
        ({"p": 300, "q": 300, "table": True}, f"asks for 90,000 counts; expected at most {MOST_CELLS:,}"),
        ({"local": "all"}, "pq_counts.local is 'all'"),
        ({"min_left": 2}, "pq_counts.min_left: unknown key"),
        ({"table": 3}, "pq_counts.table is 3"),
    ],
)
def test_invalid_settings_are_refused_in_one_line(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings("out", **section)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_options_of_bicliques_are_refused_with_the_reason(edges_file: Path) -> None:
    reason = "where results are numbers and no list, and p and q are the only sizes; leave it out"
    for option in ("--min-left", "--min-right", "--max-left", "--max-right", "--min-edges", "--max-bicliques"):
        message = refusal("count-pq", edges_file, option, 3)
        assert message.startswith(f"error: command line: {option}: is for the problem bicliques")
        assert message.endswith(reason)
    with pytest.raises(ConfigError, match=r"query\.min_edges: is for the problem bicliques.*only sizes"):
        Config.from_mapping({"problem": "pq_counts", "query": {"min_edges": 3}})


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no left vertex 'nobody' \(pq_counts\.containing_left\)"):
        published(tmp_path, containing_left="nobody")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"p": 40}, "no right vertex has 40 neighbours; the most is {right}"),
        ({"q": 41}, "no left vertex has 41 neighbours; the most is {left}"),
        ({"containing_left": ["<0>", "<1>", "<2>"]}, "3 left vertices have to be in it, which are more than p = 2"),
    ],
)
def test_a_count_of_0_says_why(tmp_path: Path, edges_file: Path, asked: dict[str, Any], reason: str) -> None:
    graph = ingest(Config().input, EDGES).graph()
    words = reason.format(left=graph.left_degrees.max(), right=graph.right_degrees.max())
    result = published(tmp_path / "o", "cpu", **asked)
    assert set(counts_of(result.run_dir).values()) == {0}
    assert words.removeprefix("no ") in (result.run_dir / "report.html").read_text()
    assert checked(result).n_against_input == 1
    options = [text for key, value in asked.items() for text in _options(key, value)]
    shown = mbe("count-pq", edges_file, *options, "--quiet").stdout
    assert shown.startswith("0 (")
    assert f"zero       {words}" in shown
    values = said("count-pq", edges_file, *options)
    assert values["why_zero"] == [words]
    assert said("count-pq", edges_file, *options, "--out", tmp_path / "o")["why_zero"] == [words]


def _options(key: str, value: Any) -> list[str]:
    option = f"-{key}" if len(key) == 1 else f"--{key.replace('_', '-')}"
    return [text for each in (value if isinstance(value, list) else [value]) for text in (option, str(each))]


# --- the command --------------------------------------------------------------------------------------------------


def test_without_a_directory_the_command_counts(
    tmp_path: Path, edges_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    n = len(bicliques(EDGES, (2, 3)))
    shown = mbe("count-pq", edges_file, "-p", 2, "-q", 3, "--engine", "cpu", "-v").stdout
    assert shown.startswith(f"{n} (2, 3)-bicliques in 8 left x 7 right, {EDGES.num_rows} edges")
    assert not (tmp_path / "out").exists()
    told = said("count-pq", edges_file, "-p", 2, "-q", 3, "--engine", "cpu")
    assert told["counts"] == [{"p": 2, "q": 3, "count": n, "count_text": str(n)}]
    assert (told["problem"], told["lower_bounds"], told["why_zero"], told["run"]) == ("pq_counts", False, [], None)
    for option in (["--local", "vertices"], ["--if-changed"]):
        message = refusal("count-pq", edges_file, *option)
        assert f"{option[0]}: needs a published run" in message
        assert "--out" in message


def test_a_table_on_the_terminal(edges_file: Path) -> None:
    shown = mbe("count-pq", edges_file, "-p", 3, "-q", 2, "--table", "--engine", "cpu", "--quiet").stdout
    assert "6 numbers of (p, q)-bicliques up to (3, 2), the largest " in shown
    lines = [line.replace("│", " ").split() for line in shown.splitlines() if line.startswith("│")]
    assert lines == [[str(p), *(f"{len(bicliques(EDGES, (p, q))):,}" for q in (1, 2))] for p in (1, 2, 3)]


def test_with_a_directory_the_command_publishes(tmp_path: Path, edges_file: Path) -> None:
    out = tmp_path / "o"
    options = ["-p", 3, "-q", 2, "--table", "--local", "edges", "--engine", "reference", "--out", out]
    told = said("count-pq", edges_file, *options)
    assert [row["count"] for row in told["counts"]] == [
        len(bicliques(EDGES, (p, q))) for p in (1, 2, 3) for q in (1, 2)
    ]
    run_dir = Path(told["run"])
    assert {path.name for path in run_dir.glob("*.parquet")} == {
        *("pq_counts.parquet", "pq_vertices.parquet", "pq_edges.parquet")
    }
    verified = said("verify", run_dir)
    assert (verified["verified"], verified["counts"], verified["checked_against_input"]) == (True, 6, 6)
    mbe("count-pq", edges_file, *options, "--quiet", "--if-changed", code=app.UNCHANGED)
    (listed,) = json.loads(mbe("runs", out, "--json").stdout)["runs"]
    assert (listed["problem"], listed["counts"], listed["damaged"]) == ("pq_counts", 6, None)
    assert "holds results of the problem 'pq_counts'" in refusal_of_top(run_dir)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"problem: pq_counts\ninput: {{path: {edges_file}}}\nexecution: {{engine: cpu}}\n"
        f"pq_counts: {{p: 3, q: 2, table: true}}\noutput: {{directory: {tmp_path / 'p'}}}\n"
    )
    assert said("run", config)["counts"] == told["counts"]


def refusal_of_top(run_dir: Path) -> str:
    return mbe("top", run_dir, code=3).stderr


def test_json_has_null_for_counts_that_readers_would_round(edges_file: Path) -> None:
    pq.write_table(complete(30, 30), edges_file)
    (row,) = said("count-pq", edges_file, "-p", 15, "-q", 15, "--engine", "cpu")["counts"]
    assert row == {"p": 15, "q": 15, "count": None, "count_text": str(comb(30, 15) ** 2)}


def test_a_graph_is_inspected(edges_file: Path) -> None:
    asked = ["--problem", "pq_counts", "--set", "pq_counts.p=3", "--set", "pq_counts.local=edges", "--engine", "cpu"]
    facts = said("inspect", edges_file, *asked)
    tried, graph = facts["trial"], ingest(Config().input, EDGES).graph()
    assert tried["complete"] is True
    assert tried["counts"][0]["count"] == len(bicliques(EDGES, (3, 2)))
    assert tried["left_paths"] == int((graph.right_degrees**2).sum())
    assert tried["right_paths"] == int((graph.left_degrees**2).sum())
    shown = mbe("inspect", edges_file, *asked, "--quiet").stdout
    assert "which is all" in shown
    assert "of memory are set aside" in shown
    assert "a full run is quick: the trial counted all of them, and local counts" in shown
    assert tried["local_left_out"] is False
    beside = facts["expected_memory_bytes"] - facts["read_memory_bytes"]
    assert beside - (1 << 30) == facts["tables_bytes"] == tried["local_bytes"] > 0
    pq.write_table(made(2, 200, 200, 0.5), edges_file)
    cut = said("inspect", edges_file, *asked, "--set", "pq_counts.q=9", "--set", "pq_counts.p=9", "--trial", 0.05)
    assert cut["trial"]["complete"] is False
    larger = ["--set", "pq_counts.p=9", "--set", "pq_counts.q=9", "--trial", 0.05, "--quiet"]
    assert "at least" in mbe("inspect", edges_file, *asked, *larger).stdout


def test_a_trial_includes_local_counts(edges_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is asked for the same detail as by a run."""
    asked_for, whole = [], engine_cpu.run

    def noted(*given: Any, **more: Any) -> Any:
        asked_for.append(given[3])
        return whole(*given, **more)

    monkeypatch.setattr(engine_cpu, "run", noted)
    asked = ["inspect", edges_file, "--problem", "pq_counts", "--engine", "cpu", "--quiet"]
    for local, detail in (("none", Detail.COUNTS), ("vertices", Detail.VERTICES), ("edges", Detail.EDGES)):
        mbe(*asked, "--set", f"pq_counts.local={local}")
        assert asked_for.pop() == detail


def test_inspect_predicts_a_refusal(edges_file: Path) -> None:
    pq.write_table(made(3, 300, 300, 0.1), edges_file)
    size = ["--set", "pq_counts.p=40", "--set", "pq_counts.q=40", "--set", "pq_counts.table=true"]
    asked = ["inspect", edges_file, "--problem", "pq_counts", "--engine", "cpu", *size, "--memory-budget", "64MiB"]
    asked += ["--set", "pq_counts.local=edges"]
    facts, shown = said(*asked), mbe(*asked, "--quiet").stdout
    with pytest.raises(MemoryBudgetExceeded) as refused:
        published(edges_file.parent, source=made(3, 300, 300, 0.1), p=40, q=40, table=True, local="edges",
                  execution={"memory_budget": "64MiB"})  # fmt: skip
    assert facts["trial"]["local_left_out"] is True
    assert facts["tables_bytes"] == refused.value.needed_bytes > 64 << 20
    assert facts["expected_memory_bytes"] == facts["read_memory_bytes"] + facts["tables_bytes"] + (64 << 20)
    assert "refused    a run of this ends here: local counts of edges need " in shown
    assert "raise it, ask for one count instead of 1,600" in shown
    assert " without local counts (cpu: " in shown
    assert "a full run is quick" not in shown
    assert "a run of this ends here" in mbe(*asked, "--quiet", "--trial", 0).stdout


def test_local_counts_without_memory_are_left_out_of_the_trial(
    edges_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = engine_cpu.run

    def refusing(*given: Any, **more: Any) -> Any:
        if given[3] > Detail.COUNTS:
            raise MemoryBudgetExceeded("no room for edges")
        return whole(*given, **more)

    monkeypatch.setattr(engine_cpu, "run", refusing)
    asked = ["inspect", edges_file, "--problem", "pq_counts", "--engine", "cpu", "--set", "pq_counts.local=edges"]
    shown = mbe(*asked, "--quiet").stdout
    assert "local      the trial left them out: no room for edges" in shown
    assert "a full run is quick" not in shown


@pytest.mark.parametrize(
    ("told_of", "expected"),
    [
        # The first hundredths of the work take half a second each, those of the second half a tenth.
        ([(0.0, 0.0), (0.5, 0.01), (1.0, 0.02), (1.5, 0.07), (2.0, 0.12)], 2.0 + 88 * 0.1),
        ([(0.0, 0.0), (1.0, 0.1), (2.0, 0.2)], 10.0),
        ([(0.0, 0.0), (0.5, 0.5), (1.0, 0.5), (2.0, 0.505)], None),
        ([(0.0, 0.0)], None),
    ],
)
def test_the_pace_is_that_of_the_second_half(told_of: list[tuple[float, float]], expected: float | None) -> None:
    assert trial.expected_seconds(told_of) == pytest.approx(expected)


def test_the_pace_of_counts_says_nothing_of_local_counts() -> None:
    """Half of the work takes a second and a half; then each hundredth takes a quarter of a second."""
    told_of = [(0.0, 0.0), (1.0, 0.4), (1.5, 0.5), (1.75, 0.51), (2.0, 0.52)]
    assert trial.expected_seconds(told_of, 0.5) == pytest.approx(2.0 + 48 * 0.25)
    assert trial.expected_seconds(told_of[:3], 0.5) is None
    assert trial.expected_seconds(told_of[:2], 0.5) is None


# --- the report ---------------------------------------------------------------------------------------------------


def test_the_report_has_the_table_and_the_busiest_vertices(tmp_path: Path) -> None:
    result = published(tmp_path, p=4, q=4, table=True, local="edges")
    page = (result.run_dir / "report.html").read_text()
    for p in range(1, 5):
        for q in range(1, 5):
            n = len(bicliques(EDGES, (p, q)))
            assert (f"<title>{p} left × {q} right: {n}</title>" in page) == (n > 0)
    found = bicliques(EDGES, (2, 2))
    busiest = max(sum(f"<{u}>" in us for us, _ in found) for u in range(8))
    assert f'<td title="{busiest}">{busiest}</td>' in page
    assert "<h2>The vertices in most (2, 2)-bicliques</h2>" in page
    assert "<h2>The edges in most (2, 2)-bicliques</h2>" in page
    assert "<dt>counts</dt><dd>4 × 4</dd>" in page
    assert "&lt;0&gt;" in page
    assert "<0>" not in page


def test_a_report_of_zeros(tmp_path: Path) -> None:
    crossing = pa.table({"l": [1, 2], "r": [1, 2]})
    page = (published(tmp_path, source=crossing, p=2, q=2, local="vertices").run_dir / "report.html").read_text()
    assert "No vertex or edge is in a biclique of the query." in page
    assert "0</b> (2, 2)-bicliques." in page


# --- the check ----------------------------------------------------------------------------------------------------


def forge(run_dir: Path, name: str, change: Any) -> None:
    """Rewrite a table and make the manifest agree with it."""
    path = run_dir / f"{name}.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path, compression="zstd")
    values = json.loads((run_dir / "manifest.json").read_text())
    entry = json.loads(file_entry(run_dir, path).model_dump_json())
    values["files"] = [entry if each["path"] == path.name else each for each in values["files"]]
    (run_dir / "manifest.json").write_text(json.dumps(values))


def with_number(place: int, change: int) -> Any:
    def changed(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
        number = int(table[place]["count_text"]) + change
        table[place] |= {"count": Decimal(number), "count_text": str(number)}
        return table

    return changed


def with_value(name: str, value: Any) -> Any:
    return lambda table: [*table[:2], {**table[2], name: value}, *table[3:]]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("pq_counts", with_number(0, 1), "add up to"),
        ("pq_counts", with_value("count", Decimal(1)), "expected the same whole number"),
        ("pq_counts", with_value("count", None), "expected the same whole number"),
        ("pq_counts", with_value("count_text", "007"), "expected the same whole number"),
        ("pq_counts", with_value("count_text", "-1"), "expected the same whole number"),
        ("pq_counts", with_value("q", 9), "row 2: "),
        ("pq_counts", lambda table: table[1:], "row 0: "),
        ("pq_counts", lambda table: [*table, table[0]], "expected 6 rows in all"),
        ("pq_vertices", with_number(3, 1), "add up to"),
        ("pq_vertices", with_value("key", "somebody"), "row 2: key is 'somebody'"),
        ("pq_vertices", with_value("side", "right"), "row 2: side is 'right'; expected 'left'"),
        ("pq_vertices", lambda table: table[1:], "rows; expected 15 for each of 6 counts"),
        ("pq_edges", with_number(3, 1), "the edges of (p, q)"),
        ("pq_edges", with_value("p", 3), "row 2: p is 3"),
        ("pq_edges", lambda table: [*table[:2], table[3], table[2], *table[4:]], "row 2: "),
    ],
)
@pytest.mark.parametrize("with_input", [True, False])
def test_forged_tables_are_found(tmp_path: Path, name: str, change: Any, words: str, with_input: bool) -> None:
    run_dir = published(tmp_path, p=3, q=2, table=True, local="edges").run_dir
    forge(run_dir, name, change)
    with pytest.raises(VerificationError) as found:
        verify_run(run_dir, ingest(Config().input, EDGES) if with_input else None)
    # Without the input, tables are checked against each other, and another one may be blamed.
    if with_input:
        assert words in str(found.value)


def test_numbers_that_add_up_and_are_wrong_are_found(tmp_path: Path) -> None:
    """One vertex has one more and another one fewer in all tables, so only the input reveals it."""
    run_dir = published(tmp_path, p=2, q=2, local="vertices").run_dir
    forge(run_dir, "pq_vertices", lambda table: with_number(1, -1)(with_number(0, 1)(table)))
    with pytest.raises(VerificationError, match="left vertex 0 is in"):
        verify_run(run_dir, ingest(Config().input, EDGES))
    with pytest.raises(VerificationError, match="content_fingerprint is"):
        verify_run(run_dir)


def test_without_the_input_tables_are_checked_against_each_other(tmp_path: Path) -> None:
    report = verify_run(published(tmp_path, p=3, q=3, table=True, local="edges").run_dir)
    assert "local counts" in [check.name for check in report.checks]
    assert report.n_against_input == 0
    assert any("counts against the input: the input is not given" in text for text in report.not_checked)


@pytest.mark.slow
def test_counts_too_expensive_to_recount_are_listed(tmp_path: Path) -> None:
    """There is neither a closed form nor a matrix product with 3 or more on both sides."""
    source = made(4, 250, 250, 0.6)
    result = published(tmp_path, "cpu", source, p=3, q=3, table=True)
    report = checked(result, source)
    assert report.n_against_input == 8
    assert any("1 of 9, the first of (p, q) = (3, 3)" in text for text in report.not_checked)


# --- numbers as text ----------------------------------------------------------------------------------------------


def test_numbers_of_any_length_are_written_and_read() -> None:
    for number in (0, 7, 10**4299, 10**4300, 3**20_000):
        assert number_of(digits_text(number)) == number
    for text in ("", "00", "01", "-1", "1.0", "1e5", " 1", "١"):
        assert number_of(text) is None


def test_the_shipped_defaults_are_those_of_the_model() -> None:
    """The section is a comment in `configs/default.yaml`, since bicliques have another one."""
    root = Path(__file__).parents[2] / "configs"
    lines = (root / "default.yaml").read_text(encoding="utf-8").splitlines()
    first = lines.index("# pq_counts:")
    section = lines[first : first + 1 + len(PqCountsSection.model_fields)]
    values = yaml.safe_load("\n".join(line.removeprefix("# ") for line in section))["pq_counts"]
    assert PqCountsSection(**values) == PqCountsSection()
    assert set(values) == set(PqCountsSection.model_fields)
    assert all("#" in line.removeprefix("# ") for line in section[1:])
    shipped = load_config(root / "pq_counts.yaml")
    assert (shipped.problem, shipped.problem_section.table, shipped.problem_section.local) == (
        "pq_counts",
        True,
        "vertices",
    )


def test_a_stopped_search_names_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    source = made(2, 60, 50, 0.5)
    with caplog.at_level("WARNING"):
        count(settings("out", "cpu", p=4, q=4, execution={"time_limit_seconds": 1e-9, "threads": 1}), source)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "the result is incomplete (kinds of leaves of the search tree: " in message


def test_auto_takes_the_gpu_for_local_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a machine with a GPU."""
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "no cuDF here")
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: None)

    def chosen(engine: str, local: str) -> str:
        return on_a_tier_that_fits(settings("out", engine, local=local), lambda tier, _warnings, _note: tier.name)

    for local in ("none", "vertices", "edges"):
        assert (chosen("auto", local), chosen("cuda", local), chosen("cpu", local)) == ("cuda", "cuda", "cpu")


@pytest.mark.skipif(engine_cuda.unavailable_reason() is None, reason="there is a GPU")
def test_without_a_gpu_its_engine_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="engine 'cuda' cannot run here"):
        published(tmp_path / "cuda", "cuda", p=2, q=2)
    assert published(tmp_path / "auto", "auto", p=2, q=2).manifest.engine == "cpu"
