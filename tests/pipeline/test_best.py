"""Runs of the best bicliques: tables compared with the specification, checks of forged tables, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.best import reference
from mbe_stage.bicliques.best.problem import SCORES
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import ConfigError, InputError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.best.collector import to_query
from mbe_stage.pipeline.problems.best.publication import PUBLICATION
from mbe_stage.pipeline.problems.best.section import BestSection
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import file_entry
from mbe_stage.pipeline.verify import VerifyReport, verify_run
from mbe_stage.run_limits import LimitWatch
from tests.commands import Commands
from tests.mbe_stage.graphs import random_matrix


def table(seed: int = 5) -> pa.Table:
    """Text keys on the left, integers on the right; the first edge has two rows."""
    left, right = np.nonzero(random_matrix(seed, 14, 11, 0.5))
    left, right = np.append(left, left[0]), np.append(right, right[0])
    weights = np.random.default_rng(seed).integers(1, 9, left.size) / 4
    return pa.table({"who": [f"p{u:02}" for u in left], "what": right, "worth": weights})


def config(out: Path, engine: str = "cpu", **asked: Any) -> Config:
    execution = {"engine": engine, **asked.pop("execution", {})}
    source = {"weight": "worth"} if asked.get("by") == "weight" else {}
    values = {"input": source, "execution": execution, "output": {"directory": str(out)}}
    return Config.from_mapping({"problem": "best", "best": asked, **values})


def checked(result: RunResult, edges: object = None) -> VerifyReport:
    return verify_run(result.run_dir, None if edges is None else ingest(reading_of(result.manifest.config), edges))


def rows(result: RunResult) -> list[dict[str, Any]]:
    return pq.read_table(result.run_dir / "best.parquet").to_pylist()


@pytest.mark.parametrize("by", SCORES)
def test_tables_and_check(tmp_path: Path, by: str) -> None:
    edges, asked = table(), {"by": by, "k": 7, "min_left": 3}
    asked |= {"edges": {"overlap": 0.5}, "vertices": {"missing": 1}}.get(by, {})
    result = run(config(tmp_path, **asked), edges)
    given = ingest(reading_of(result.manifest.config), edges)
    wanted = reference.best(given.graph(), to_query(result.manifest.config.problem_section, given))
    keys = given.left_keys.to_pylist(), given.right_keys.to_pylist()
    assert [(row["value"], row["biclique_key"], row["left_keys"], row["right_keys"]) for row in rows(result)] == [
        (value, key, [keys[0][u] for u in left], [keys[1][v] for v in right]) for value, key, left, right in wanted
    ]
    counts = result.manifest.counts
    assert (counts.best, counts.highest, counts.bound) == (7, wanted[0][0], wanted[-1][0])
    report = checked(result, edges)
    assert report.n_found == report.n_against_input == 7
    assert "nothing better" in {each.name for each in report.checks}
    assert any("no closure of these" in text for text in report.not_checked)
    assert checked(result).not_checked[0].startswith("complete and maximal")
    assert rows(run(config(tmp_path / "plain", "reference", **asked), edges)) == rows(result)


def test_fewer_than_asked_for_and_none(tmp_path: Path) -> None:
    few, none = (run(config(tmp_path / str(n), min_left=n, k=999), table()) for n in (5, 12))
    assert 0 < few.manifest.n_found == len(rows(few)) < 999
    assert (rows(none), none.manifest.counts.highest, none.manifest.counts.gap) == ([], None, "none")
    for result in (few, none):
        checked(result, table())


def forged(result: RunResult, change: Callable[[pa.Table], pa.Table], counts: dict[str, Any]) -> None:
    """Rewrite the table and make the manifest agree with the file."""
    part, path = result.run_dir / "best.parquet", result.run_dir / "manifest.json"
    pq.write_table(change(pq.read_table(part)), part, compression="zstd")
    manifest = json.loads(path.read_text())
    entry = file_entry(result.run_dir, part).model_dump(mode="json")
    manifest["files"] = [entry if each["path"] == entry["path"] else each for each in manifest["files"]]
    manifest["counts"] |= counts
    path.write_text(json.dumps(manifest))


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    def changed(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(name)
        return rows.set_column(
            place, rows.schema.field(name), pa.array(change(rows[name].to_pylist()), rows.schema.field(name).type)
        )

    return changed


@pytest.mark.parametrize(
    ("asked", "change", "counts", "said"),
    [
        ({}, with_column("value", lambda all_: [all_[0] + 1, *all_[1:]]), {}, "row 0: value is not that of its edges"),
        ({"by": "weight"}, with_column("value", lambda all_: [all_[0] + 1, *all_[1:]]), {"highest": -1}, "counts."),
        ({"by": "surprise"}, with_column("value", lambda all_: [x + 1 for x in all_]), {}, "counts."),
        ({}, with_column("rank", lambda all_: all_[::-1]), {}, "row 0: rank is not its place"),
        ({}, with_column("n_left", lambda all_: [all_[0] + 1, *all_[1:]]), {}, "n_left is"),
        ({}, with_column("left_keys", lambda all_: [["nobody"], *all_[1:]]), {}, "no vertex of the input"),
        ({}, lambda rows: rows.take([1, 0, 2, 3]), {}, "rank is not|out of order"),
        ({}, lambda rows: rows[:3], {"best": 3, "bound": None}, "counts.|content_fingerprint"),
        ({}, lambda rows: rows, {"bound": 99}, "counts."),
        ({}, lambda rows: rows, {"best": 5}, "counts."),
    ],
)
def test_forged_tables(tmp_path: Path, asked: dict, change: Any, counts: dict[str, Any], said: str) -> None:
    result = run(config(tmp_path, k=4, **asked), table())
    forged(result, change, counts)
    with pytest.raises(VerificationError, match=said):
        checked(result, table())


def put_in_place_of(whole: RunResult, other: RunResult) -> None:
    rows = pq.read_table(other.run_dir / "best.parquet")
    facts = json.loads((other.run_dir / "manifest.json").read_text())
    forged(whole, lambda _: rows, facts["counts"])
    path = whole.run_dir / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"content_fingerprint": facts["content_fingerprint"]}))


def test_consistent_tables_that_are_not_the_best_are_refused(tmp_path: Path) -> None:
    edges = table()
    for name, asked, other, source, said in (
        # From fewer edges: a row is not maximal, or the best is missing.
        ("fewer", {"k": 3}, {"k": 3}, edges[::2], "is not maximal|a better one is missing"),
        ("narrower", {"k": 2, "min_right": 2}, {"k": 2, "min_right": 5}, edges, "a better one is missing"),
        ("overlap", {"k": 4, "overlap": 0.3}, {"k": 4}, edges, "shares more than 0.3 of its edges with row"),
        ("sizes", {"k": 2, "min_left": 7}, {"k": 2}, edges, "does not meet the run's query"),
        ("more", {"k": 2}, {"k": 3}, edges, "has 3 rows; the query asks for 2"),
    ):
        whole = run(config(tmp_path / name / "a", **asked), edges)
        put_in_place_of(whole, run(config(tmp_path / name / "b", **other), source))
        with pytest.raises(VerificationError, match=said):
            checked(whole, edges)


def test_a_time_limit_publishes_the_best_so_far_and_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the run once everything left is below the best, a block of 12 x 12 in a sparse graph."""
    matrix, seen = random_matrix(3, 60, 60, 0.1), []
    matrix[:12, :12] = True
    left, right = np.nonzero(matrix)
    edges, reason = pa.table({"u": left, "v": right}), "stopped at time_limit_seconds = 9"
    run(config(tmp_path, k=2, execution={"threads": 1}), edges, on_progress=seen.append)
    # The last progress report with one row, when the bound of the remaining bands is below it.
    n_alone = sum(each.n_found == 1 for each in seen)
    seen.clear()
    monkeypatch.setattr(LimitWatch, "reached", lambda *_: reason if len(seen) >= n_alone - 1 else None)
    limited = config(tmp_path, k=2, execution={"threads": 1, "time_limit_seconds": 9})
    result = run(limited, edges, on_progress=seen.append)
    counts = result.manifest.counts
    assert result.manifest.truncated == reason
    assert (counts.highest, counts.bound, counts.gap) == (144, 144, "144, proven")
    assert any("the run is incomplete" in text for text in checked(result, edges).not_checked)


def test_several_processes_are_refused(tmp_path: Path) -> None:
    for execution in ({"workers": 2}, {"cluster": "tcp://127.0.0.1:1"}):
        with pytest.raises(ConfigError, match=r"in one process, on one device; leave out execution\.workers, "):
            run(config(tmp_path, execution={"runner": "dask", **execution}), table())
    with pytest.raises(ConfigError, match="on one device"):
        PUBLICATION.weighs(config(tmp_path, "auto", execution={"devices": "0"}))


def test_the_documents_cover_best() -> None:
    root = Path(__file__).parents[2]
    for name in ("zensical.toml", "llms.txt"):
        assert "docs/how-to/best.md" in (root / name).read_text(), name
    tables = (root / "docs" / "reference" / "tables.md").read_text().partition("### best.parquet")[2]
    assert "float64 by weight and surprise" in tables
    assert "best --by weight" in (root / "pipeline" / "cli" / "options.py").read_text()
    assert all(name in PUBLICATION.instead for name in BestSection.model_fields)


def test_invalid_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"best\.by is weight: needs the weight column"):
        run(Config.from_mapping({"problem": "best", "best": {"by": "weight"}}), table())
    with pytest.raises(ConfigError, match=r"best\.k"):
        config(tmp_path, k=0)
    minus = table().set_column(2, "worth", pa.array([-1.0] * len(table())))
    with pytest.raises(InputError, match=r"row 1 of those that are kept, from .* has the weight -1"):
        run(config(tmp_path, by="weight"), minus)


def test_by_the_command(tmp_path: Path, commands: Commands) -> None:
    path, out = tmp_path / "edges.csv", tmp_path / "out"
    path.write_text("who,what\n" + "".join(f"{who},{what}\n" for who, what, _ in zip(*table().columns, strict=True)))
    said = commands.mbe("best", path, "--by", "balance", "-k", 3, "--out", out, "--quiet").stdout.splitlines()
    assert said[0].startswith("3 best bicliques in 14 left x 11 right")
    assert {"highest", "bound", "sizes      at least 2 x 2"} <= {*said, *(line.partition(" ")[0] for line in said)}
    facts = json.loads(commands.mbe("top", out, "--limit", 2, "--json").stdout)["best"]
    assert [row["rank"] for row in facts] == [1, 2]
    some = facts[0]["left_keys"][0]
    named = json.loads(commands.mbe("top", out, "--vertex", some, "--json").stdout)["best"]
    assert all(some in row["left_keys"] for row in named)
    report = (out / "latest" / "report.html").read_text()
    assert "the best 3 by balance" in report
    assert f"balance {facts[0]['value']}" in report
    assert commands.mbe("verify", out, "--quiet").returncode == 0
