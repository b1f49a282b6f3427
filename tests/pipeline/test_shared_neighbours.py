"""Runs of shared neighbours: tables compared with the specification, checks of forged tables, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.errors import ConfigError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import file_entry
from mbe_stage.pipeline.verify import VerifyReport, verify_run
from mbe_stage.shared_neighbours import reference
from tests.commands import Commands
from tests.pipeline.output_support import random_pairs

EDGES = random_pairs(7, 14, 9, 0.4)


def settings(out: Path, engine: str = "cpu", **asked: Any) -> Config:
    others = {name: asked.pop(name) for name in ("execution", "output", "input") if name in asked}
    return Config.from_mapping(
        {
            "problem": "shared_neighbours",
            "execution": {"engine": engine, **others.get("execution", {})},
            "output": {"directory": str(out), **others.get("output", {})},
            "input": others.get("input", {}),
            "shared_neighbours": asked,
        }
    )


def as_table(pairs: list[tuple[object, object]]) -> pa.Table:
    left, right = zip(*pairs, strict=True)
    return pa.table({"who": left, "what": right})


def rows(result: RunResult) -> list[dict[str, Any]]:
    return pq.read_table(result.run_dir / "pairs").to_pylist()


def checked(result: RunResult, edges: object = None) -> VerifyReport:
    config = result.manifest.config
    return verify_run(result.run_dir, None if edges is None else ingest(reading_of(config), edges))


def expected(pairs: list[tuple[object, object]], side: str, min_shared: int) -> dict[tuple[object, object], int]:
    own, other = (0, 1) if side == "left" else (1, 0)
    keys = sorted({pair[own] for pair in pairs})
    others = sorted({pair[other] for pair in pairs})
    ids = [keys.index(pair[own]) for pair in pairs], [others.index(pair[other]) for pair in pairs]
    graph = BipartiteCSR.from_edges(*ids)
    return {(keys[u], keys[v]): n for (u, v), n in reference.pairs(graph, min_shared).items()}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("min_shared", [1, 2, 4])
def test_tables_and_check(tmp_path: Path, side: str, min_shared: int) -> None:
    """Text keys on the left, integers on the right; both engines publish the same rows."""
    edges, wanted = as_table(EDGES), expected(EDGES, side, min_shared)
    asked = {"side": side, "min_shared": min_shared}
    made = [run(settings(tmp_path / engine, engine, **asked), edges) for engine in ("cpu", "reference")]
    for result in made:
        assert {(row["first"], row["second"]): row["shared"] for row in rows(result)} == wanted
        report = checked(result, edges)
        assert (report.n_found, report.n_against_input) == (len(wanted), len(wanted))
        assert "nothing missing" in {check.name for check in report.checks}
    assert rows(made[0]) == rows(made[1])
    assert made[0].manifest.content_fingerprint == made[1].manifest.content_fingerprint
    assert "the input is not given" in " ".join(checked(made[0]).not_checked)


@pytest.mark.parametrize("by", ["p_value", "jaccard", "cosine", "shared", None])
def test_the_best(tmp_path: Path, by: str | None) -> None:
    edges = as_table(EDGES)
    every = rows(run(settings(tmp_path / "all"), edges))
    asked = {"top": 5} if by is None else {"top": 5, "by": by}
    result = run(settings(tmp_path / "best", **asked), edges)
    name = by or "p_value"
    values = sorted((row[name] for row in every), reverse=name != "p_value")[:5]
    assert [row[name] for row in rows(result)] == pytest.approx(values)
    assert (result.manifest.counts["pairs"], result.manifest.counts["listed"]) == (len(every), 5)
    checked(result, edges)


def test_nothing_at_all(tmp_path: Path) -> None:
    for asked in ({}, {"top": 3}):
        result = run(settings(tmp_path / str(len(asked)), min_shared=50, **asked), as_table(EDGES))
        assert rows(result) == []
        assert checked(result, as_table(EDGES)).n_found == 0


def forged(result: RunResult, change: Callable[[pa.Table], pa.Table], **counts: int) -> None:
    """Rewrite the table and make the manifest agree with the file."""
    (part,) = (result.run_dir / "pairs").glob("*.parquet")
    pq.write_table(change(pq.read_table(part)), part, compression="zstd")
    path = result.run_dir / "manifest.json"
    manifest = json.loads(path.read_text())
    entry = file_entry(result.run_dir, part).model_dump(mode="json")
    manifest["files"] = [entry if each["path"] == entry["path"] else each for each in manifest["files"]]
    manifest["counts"] |= counts
    path.write_text(json.dumps(manifest))


def with_column(name: str, change: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        values = table[name].to_pylist()
        values[1] = change(values[1])
        return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return changed


@pytest.mark.parametrize(
    ("asked", "change", "counts", "said"),
    [
        ({}, with_column("shared", lambda n: n + 1), {}, "content_fingerprint|another number of shared"),
        ({}, with_column("jaccard", lambda n: n + 0.01), {}, "row 1 of all: jaccard is not what the input gives"),
        ({}, with_column("p_value", lambda n: n / 2), {}, "row 1 of all: p_value is not what the input gives"),
        ({}, with_column("first", lambda _: "nobody"), {}, "row 1 of all: first is no vertex of the input"),
        ({}, lambda table: table.take([1, 0, *range(2, table.num_rows)]), {}, "out of order, or there twice"),
        ({"top": 5}, lambda table: table.take([1, 0, 2, 3, 4]), {}, "is better than the row before it"),
        ({}, lambda table: table[:-1], {"pairs": -1, "listed": -1}, "content_fingerprint"),
        ({"min_shared": 2}, with_column("shared", lambda _: 1), {}, "too few shared neighbours"),
    ],
)
def test_forged_tables(tmp_path: Path, asked: dict, change: Any, counts: dict[str, int], said: str) -> None:
    edges = as_table(EDGES)
    result = run(settings(tmp_path, **asked), edges)
    right = dict(result.manifest.counts)
    forged(result, change, **{name: right[name] + by for name, by in counts.items()})
    with pytest.raises(VerificationError, match=said):
        checked(result, edges)


def test_missing_pairs_are_found(tmp_path: Path) -> None:
    """A run of fewer edges in place of the whole one; its tables agree with its manifest."""
    edges, fewer = as_table(EDGES), as_table([pair for pair in EDGES if pair[0] != "person 3"])
    for asked in ({}, {"top": 4, "by": "shared"}):
        whole = run(settings(tmp_path / f"all{len(asked)}", **asked), edges)
        part = run(settings(tmp_path / f"few{len(asked)}", **asked), fewer)
        manifest = json.loads((whole.run_dir / "manifest.json").read_text())
        other = json.loads((part.run_dir / "manifest.json").read_text())
        table = pq.read_table(part.run_dir / "pairs")
        forged(whole, lambda _, table=table: table)
        path = whole.run_dir / "manifest.json"
        manifest["files"] = json.loads(path.read_text())["files"]
        manifest |= {name: other[name] for name in ("counts", "content_fingerprint")}
        path.write_text(json.dumps(manifest))
        with pytest.raises(VerificationError):
            checked(whole, edges)


def test_by_the_command(tmp_path: Path, commands: Commands) -> None:
    path, out = tmp_path / "edges.csv", tmp_path / "out"
    path.write_text("who,what\n" + "".join(f"{who},{what}\n" for who, what in EDGES))
    wanted = expected(EDGES, "left", 2)
    done = commands.mbe(
        "project", path, "--side", "left", "--min-shared", 2, "--top", 4, "--out", out, "--json", "--quiet"
    )
    facts = json.loads(done.stdout)
    assert facts["pairs"] == len(wanted)
    assert commands.mbe("verify", out, "--quiet").returncode == 0
    shown = json.loads(commands.mbe("top", out, "--limit", 2, "--json").stdout)
    first, second = shown["pairs"]
    assert first["p_value"] <= second["p_value"]
    assert wanted[first["first"], first["second"]] == first["shared"]
    assert "The best pairs" in (out / "latest" / "report.html").read_text()
    counted = commands.mbe("project", path, "--min-shared", 2, "--count-only", "--quiet").stdout
    assert counted.startswith(f"{len(wanted)} pairs")


def test_counting(tmp_path: Path) -> None:
    assert count(settings(tmp_path, side="right"), as_table(EDGES)).n_found == len(expected(EDGES, "right", 1))


def test_invalid_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shared_neighbours.by ranks the best pairs: set shared_neighbours.top"):
        settings(tmp_path, by="jaccard")
    with pytest.raises(ConfigError, match="top"):
        settings(tmp_path, top=0)
