"""`mbe verify` of groups: sound runs pass, and what is forged is found, in each table and each column."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import reference
from mbe_stage.groups.candidates import CandidateSink
from mbe_stage.groups.null_model import NullModel
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.groups import arrow as sink
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.groups_support import EDGES, planted, rows, settings
from tests.pipeline.output_support import crown_pairs
from tests.pipeline.test_problem_seam import edit, forge

Rows = list[dict[str, Any]]


def changed(column: str, change: Callable[[Any], Any], row: int = 0) -> Callable[[Rows], Rows]:
    """One value of a table is another."""

    def forged(table: Rows) -> Rows:
        new = [dict(each) for each in table]
        new[row][column] = change(new[row][column])
        assert new[row][column] != table[row][column]
        return new

    return forged


def exchanged(table: Rows) -> Rows:
    """The first two groups in each other's place, with ranks in order."""
    first, second, *others = table
    return [{**second, "rank": 1}, {**first, "rank": 2}, *others]


def without_first(table: Rows) -> Rows:
    """A list that leaves the best out."""
    return [{**row, "rank": row["rank"] - 1} for row in table[1:]]


FORGED: list[tuple[str, Any, str]] = [
    ("groups", changed("group_key", lambda key: key + 1), "its group_key is not in groups|group_key is"),
    ("groups", changed("rank", lambda rank: rank + 1), "rank is 2; recomputed 1"),
    ("groups", changed("kind", lambda _: "grown"), "kind is grown; recomputed short_list"),
    ("groups", changed("n_left", lambda n: n + 1), "n_left is"),
    ("groups", changed("n_right", lambda n: n - 1), "n_right is"),
    ("groups", changed("n_edges", lambda n: n - 1), "n_edges is"),
    ("groups", changed("density", lambda q: q / 2), "density is"),
    ("groups", changed("surprise", lambda s: s + 1e-4), "surprise is"),
    ("groups", changed("surprise", lambda _: math.nan), "surprise is"),
    ("groups", changed("significant", lambda _: False), "significant is"),
    ("groups", changed("p_bound", lambda p: p * 1.1), "p_bound is"),
    ("groups", changed("level", lambda _: "certain"), "level is"),
    ("groups", changed("evidence", lambda e: e + 1e-4), "evidence is"),
    ("groups", changed("residual_gain", lambda _: 1.0), "residual_gain of 1 groups of a short list"),
    ("groups", changed("expected_edges", lambda e: e * (1 + 1e-5)), "expected_edges is"),
    ("groups", changed("left_edge_share", lambda q: q / 2), "left_edge_share is"),
    ("groups", changed("median_right_degree", lambda d: d + 0.5), "median_right_degree is"),
    ("groups", changed("seed_biclique_key", lambda key: key - 1), "seed_biclique_key is"),
    ("groups", changed("n_bicliques", lambda n: n + 1), "n_bicliques is"),
    ("groups", changed("half_later", lambda _: False), "half_later is set without time buckets"),
    ("groups", changed("explanation", lambda text: text + "!"), "explanation is"),
    ("groups", exchanged, "out of order|ranks below"),
    ("groups", without_first, "its group_key is not in groups"),
    ("groups", lambda table: [*table, table[0]], "occurs twice"),
    ("group_members", changed("group_key", lambda key: key + 1), "its group_key is not in groups"),
    ("group_members", changed("side", lambda _: "right"), "out of order|there is no vertex|n_left is"),
    ("group_members", changed("vertex", lambda u: u + 10_000), "there is no vertex"),
    ("group_members", changed("vertex", lambda _: -1), "there is no vertex -1"),
    ("group_members", changed("key", lambda key: key + "?"), "key is"),
    ("group_members", changed("n_edges", lambda n: n + 1), "n_edges is"),
    ("group_members", changed("edge_share", lambda q: q / 2), "edge_share is"),
    ("group_members", lambda table: table[1:], "n_left is"),
    ("group_members", lambda table: [table[1], table[0], *table[2:]], "out of order"),
    ("vertex_scores", changed("side", lambda _: "right"), "is of the wrong side"),
    ("vertex_scores", changed("vertex", lambda u: u + 1), "vertex is"),
    ("vertex_scores", changed("key", lambda key: key + "?"), "key is"),
    ("vertex_scores", changed("share_size", lambda s: s * (1 + 1e-9)), "share_size is"),
    *(
        ("vertex_scores", changed(name, lambda s: s + 1e-4, row=row), f"{name} is")
        for name in ("score", "edge_share", "edge_sqrt")
        for row in (1, 20, -1)
    ),
    ("vertex_scores", changed("group_key", lambda key: key + 1, row=1), "group_key is"),
    ("vertex_scores", changed("group_key", lambda _: None, row=1), "group_key must be null exactly for"),
    ("vertex_scores", changed("group_key", lambda _: 7, row=20), "group_key must be null exactly for"),
    ("vertex_scores", changed("n_groups", lambda n: n + 1), "n_groups is"),
    ("vertex_scores", changed("group_edge_share", lambda q: q / 2, row=1), "group_edge_share is"),
    ("vertex_scores", changed("degree", lambda d: d + 1), "degree is"),
    ("vertex_scores", changed("degree_percentile", lambda p: p / 2), "degree_percentile is"),
    ("vertex_scores", lambda table: table[1:], "one per vertex"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a sound run."""
    run_dir = run(settings(tmp_path_factory.mktemp("sound")), EDGES).run_dir
    assert rows(run_dir, "vertex_scores")[1]["group_key"] is not None
    assert rows(run_dir, "vertex_scores")[20]["group_key"] is None
    return {path.relative_to(run_dir).as_posix(): path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.fixture
def run_dir(published: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in published.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(("table", "change", "message"), FORGED)
def test_forged_tables_are_found(run_dir: Path, table: str, change: Any, message: str) -> None:
    forge(run_dir, f"{table}.parquet", change)
    with pytest.raises(VerificationError, match=rf"(groups|group_members|vertex_scores)\.parquet.*({message})"):
        verify_run(run_dir)


def test_a_sound_run_passes(run_dir: Path) -> None:
    report = verify_run(run_dir, ingest(Config().input, EDGES))
    assert "of" in next(check.detail for check in report.checks if check.name == "groups")


@pytest.mark.parametrize("count", ["groups", "candidates_not_scored", "seeds_not_grown"])
def test_forged_counts_are_found(run_dir: Path, count: str) -> None:
    edit(run_dir, lambda values: values["derived"]["groups"].update({count: 1}))
    with pytest.raises(VerificationError, match=r"manifest\.json: derived\.groups is"):
        verify_run(run_dir)


def drop(run_dir: Path, n: int, last: bool = False) -> None:
    """All three tables as if some group had never been chosen."""
    keys = [row["group_key"] for row in rows(run_dir, "groups")]
    gone = set(keys[-n:] if last else keys[:n])
    forge(
        run_dir,
        "groups.parquet",
        lambda table: [
            {**row, "rank": rank} for rank, row in enumerate((row for row in table if row["group_key"] not in gone), 1)
        ],
    )
    forge(run_dir, "group_members.parquet", lambda table: [row for row in table if row["group_key"] not in gone])


@pytest.mark.parametrize("last", [False, True])
def test_a_group_that_is_left_out_is_missed(run_dir: Path, last: bool) -> None:
    drop(run_dir, 1, last)
    with pytest.raises(VerificationError, match=r"is missing: it overlaps no|group_key is .*; recomputed"):
        verify_run(run_dir)


def test_groups_in_another_order_are_found(run_dir: Path) -> None:
    keys = [row["group_key"] for row in rows(run_dir, "groups")]
    place = {keys[1]: 0, keys[0]: 1}
    forge(run_dir, "groups.parquet", exchanged)
    forge(
        run_dir,
        "group_members.parquet",
        lambda table: sorted(table, key=lambda row: place.get(row["group_key"], len(keys))),
    )
    with pytest.raises(VerificationError, match=r"groups\.parquet, row 0: group_key is .*; recomputed"):
        verify_run(run_dir)


@pytest.mark.parametrize(
    ("wide", "asked", "message"),
    [
        ({"max_overlap": 1.0}, {"max_overlap": 0.5}, "recomputed|one group too many"),
        ({"limit": 2}, {"limit": 1}, "one group too many"),
        ({"limit": 1}, {"limit": 100}, "is missing"),
        ({"rank_by": "surprise_per_vertex"}, {"rank_by": "surprise"}, "group_key is .*; recomputed"),
        (
            {"rank_by": "surprise_per_edge"},
            {"rank_by": "surprise_per_vertex"},
            "group_key is|is missing",
        ),
        ({"rank_by": "evidence"}, {"rank_by": "surprise_per_edge"}, "group_key is|is missing"),
    ],
)
def test_another_list_than_was_asked_for_is_found(
    tmp_path: Path, wide: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    source = planted(3, ((16, 3), (4, 4), (3, 7)))
    made = run(settings(tmp_path / "a", groups=wide), source).run_dir
    verify_run(made)
    edit(made, lambda values: values["config"]["groups"].update(asked))
    with pytest.raises(VerificationError, match=message):
        verify_run(made)


def test_bicliques_without_significance_are_no_groups(tmp_path: Path) -> None:
    """The tables of a run whose degrees explain everything, with one of its bicliques as a group."""
    source = pa.table({"l": ["a", "b", "b", "c"], "r": ["x", "x", "y", "z"]})
    made = run(settings(tmp_path), source).run_dir
    (first, *_) = pq.read_table(made / "bicliques").to_pylist()
    schema = pq.read_schema(made / "groups.parquet")
    zeros = {"int64": 0, "int32": 1, "double": 0.0, "string": "short_list", "bool": True}
    row = {field.name: None if field.nullable else zeros[str(field.type)] for field in schema}
    key = first["biclique_key"]
    row |= {
        "is_muted": False,
        "residual_gain": None,
        "group_key": key,
        "n_left": first["n_left"],
        "n_right": first["n_right"],
    }
    members = [
        {"group_key": key, "side": side, "vertex": u, "key": "?", "n_edges": 1, "edge_share": 1.0, "label": None}
        for side in ("left", "right")
        for u in first[side]
    ]
    forge(made, "groups.parquet", lambda _: [row])
    forge(made, "group_members.parquet", lambda _: members)
    with pytest.raises(VerificationError, match="one group too many"):
        verify_run(made)


@pytest.mark.parametrize("n_right", [4001, 601])
def test_both_round_the_same_logarithms(n_right: int) -> None:
    """The check rounds what it computes by its own means; here on a graph with thousands of degrees."""
    dice = [(i * i * 7919 + 31 * i) % n_right for i in range(60_000)]
    graph = BipartiteCSR.from_edges([i % 311 for i in range(60_000)], dice)
    model = NullModel.of(graph)
    null = reference.Null((graph.left_degrees, graph.right_degrees), graph.n_edges)
    assert null.log_edges == model.log_edges
    assert null.logs[0].tolist() == model.left_log_degrees.tolist()
    assert null.logs[1].tolist() == model.right_log_degrees.tolist()
    assert null.is_fitted == model.is_fitted == (n_right == 601)
    assert null.at_least[0].tolist() == model.left_at_least.tolist()
    assert null.at_least[1].tolist() == model.right_at_least.tolist()
    assert null.class_cost == model.class_cost
    sizes = np.arange(1, 50)
    names = null.cost_of_members(0, 5, sizes) + null.cost_of_members(1, 7, sizes)
    assert names.tolist() == model.costs_of_members(sizes, sizes, 5, 7).tolist()


@pytest.mark.parametrize("top", [1, 4, 20_000])
def test_writing_and_checking_agree_on_random_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    """Neither shares code with the other; a small top leaves candidates that are only the best of a vertex."""
    monkeypatch.setattr(sink, "CandidateSink", partial(CandidateSink, top=top))
    monkeypatch.setattr(reference, "TOP", top)
    n_groups = 0
    for seed in range(8):
        section = {"max_overlap": (0.2, 0.5, 1.0)[seed % 3], "limit": (100, 3)[seed % 2]}
        rank_by = ("surprise", "surprise_per_vertex", "surprise_per_edge", "evidence")[seed // 2]
        output = {"directory": str(tmp_path / str(seed)), "report": False}
        source = planted(seed, ((3 + seed, 5), (6, 3 + seed // 2), (4, 4)))
        made = run(settings(tmp_path, groups={**section, "rank_by": rank_by}, output=output), source).run_dir
        verify_run(made)
        n_groups += len(rows(made, "groups"))
    assert n_groups >= 16


def test_other_candidates_than_are_defined_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the 252 bicliques that tie for the best of a crown, its 20 vertices have at most so many as their best."""
    pairs = [*crown_pairs(10), *((u, u) for u in range(10, 1010))]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    made = run(settings(tmp_path / "all", "cpu"), source)
    monkeypatch.setattr(sink, "CandidateSink", partial(CandidateSink, top=1))
    fewer = run(settings(tmp_path / "one", "cpu"), source)
    assert made.manifest.derived["groups"]["significant_candidates"] >= 252
    assert fewer.manifest.derived["groups"]["significant_candidates"] <= 21
    verify_run(made.run_dir)
    with pytest.raises(VerificationError, match=r"recomputed|is missing|n_bicliques is|significant_candidates"):
        verify_run(fewer.run_dir)
    monkeypatch.setattr(reference, "TOP", 1)
    verify_run(fewer.run_dir)
    with pytest.raises(VerificationError, match=r"is not a candidate|n_bicliques is|significant_candidates"):
        verify_run(made.run_dir)
