"""Grown groups: their published tables and halos, and checks of forged tables."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage.groups.random_graphs import edges_of
from tests.pipeline.groups_support import blocks, rows, settings, sides_of
from tests.pipeline.test_groups_verify import changed
from tests.pipeline.test_problem_seam import edit, forge
from tests.pipeline.test_report import _Page

GROWN = {"kind": "grown_cover"}


EDGES = blocks()


def grown(out: Path, engine: str = "reference", **sections: Any) -> Config:
    return settings(out, engine, **{"groups": GROWN, **sections})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run_dir = run(grown(tmp_path_factory.mktemp("sound")), EDGES).run_dir
    assert len(rows(run_dir, "groups")) >= 2
    return {path.relative_to(run_dir).as_posix(): path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.fixture
def run_dir(published: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in published.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_blocks_with_missing_edges_are_found(run_dir: Path) -> None:
    groups, members = rows(run_dir, "groups"), rows(run_dir, "group_members")
    accounts = [
        {row["key"] for row in members if row["group_key"] == group["group_key"] and row["side"] == "left"}
        for group in groups
    ]
    for number, size in ((0, 12), (1, 9)):
        block = {f"block {number} <{u}>" for u in range(size)}
        assert max(len(block & found) / len(block | found) for found in accounts) >= 0.75
    assert all(group["kind"] == "grown_cover" for group in groups)
    assert groups[0]["density"] < 1
    assert (
        f"{groups[0]['n_edges']} of {groups[0]['n_left'] * groups[0]['n_right']} possible" in groups[0]["explanation"]
    )


def test_scores_cores_and_edges_are_those_of_the_specification(run_dir: Path) -> None:
    edges = ingest(Config().input, EDGES)
    graph = edges.graph()
    null, explained = edges_of(graph), set()
    bicliques = {row["biclique_key"]: row for row in pq.read_table(run_dir / "bicliques").to_pylist()}
    members, pairs = rows(run_dir, "group_members"), rows(run_dir, "group_edges")
    for group in rows(run_dir, "groups"):
        of_group = [row for row in members if row["group_key"] == group["group_key"]]
        sides = tuple(tuple(row["vertex"] for row in of_group if row["side"] == side) for side in ("left", "right"))
        assert group["surprise"] == null.score(sides) / 2**24 > 0
        present = null.present(sides)
        explained |= present
        stated = {(row["left"], row["right"]) for row in pairs if row["group_key"] == group["group_key"]}
        assert stated == set(present)
        assert group["n_edges"] == len(stated)
        core = bicliques[group["core_key"]]
        assert all(set(core[side]) <= set(members) for side, members in zip(("left", "right"), sides, strict=True))
        assert {(row["side"], row["vertex"]) for row in of_group if row["is_core"]} == {
            (side, vertex) for side in ("left", "right") for vertex in core[side]
        }
        for row in of_group:
            own = int(row["side"] == "right")
            assert row["n_edges"] == sum(pair[own] == row["vertex"] for pair in stated)
    for row in rows(run_dir, "vertex_scores"):
        own = int(row["side"] == "right")
        n_explained = sum(pair[own] == row["vertex"] for pair in explained)
        assert row["group_edge_share"] == pytest.approx(n_explained / row["degree"])


def test_halos_are_neighbours_outside_the_group_best_first(run_dir: Path) -> None:
    graph = ingest(Config().input, EDGES).graph()
    groups, halo = sides_of(run_dir), rows(run_dir, "group_halo")
    keys = [[row["key"] for row in rows(run_dir, f"{side}_vertices")] for side in ("left", "right")]
    assert [key for key in groups if any(row["group_key"] == key for row in halo)] == list(
        dict.fromkeys(row["group_key"] for row in halo)
    )
    for key, sides in groups.items():
        for own, side in enumerate(("left", "right")):
            of_side = [row for row in halo if (row["group_key"], row["side"]) == (key, side)]
            assert [row["place"] for row in of_side] == list(range(1, len(of_side) + 1))
            assert len(of_side) == len({row["vertex"] for row in of_side} - sides[own]) <= 60
            for row in of_side:
                others = (graph.neighbours_of_right if own else graph.neighbours_of_left)(row["vertex"]).tolist()
                assert row["n_edges"] == len(sides[1 - own].intersection(others))
                assert row["key"] == str(keys[own][row["vertex"]])
            gains = [row["gain"] for row in of_side]
            assert gains == sorted(gains, reverse=True)
    assert {row["side"] for row in halo} == {"left", "right"}


def test_they_are_checked_with_and_without_the_input(run_dir: Path) -> None:
    alone = verify_run(run_dir)
    with_input = verify_run(run_dir, ingest(Config().input, EDGES))
    for report in (alone, with_input):
        assert {"groups", "group members", "vertex scores"} <= {check.name for check in report.checks}
        assert any("growing is not repeated" in text for text in report.not_checked)
    assert any("edges of groups" in text for text in alone.not_checked)
    assert not any("edges of groups" in text for text in with_input.not_checked)


def test_the_report_shows_which_edges_are_absent(run_dir: Path) -> None:
    html = (run_dir / "report.html").read_text(encoding="utf-8")
    groups = rows(run_dir, "groups")
    shapes = [attributes for tag, attributes in _Page(html).tags if tag == "path" and attributes["class"] == "absent"]
    holes = [group["n_left"] * group["n_right"] - group["n_edges"] for group in groups]
    # A stroke for each run of absent edges in a row, eight pixels an edge.
    drawn = [sum(map(int, re.findall("h([0-9]+)", str(shape["d"])))) for shape in shapes]
    assert drawn == [8 * n for n in holes if n]


def halved_surprise(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Halve every value, so that no rank changes."""
    return [{**row, "grown_surprise": row["grown_surprise"] / 2} for row in table]


FORGED: list[tuple[str, Any, str]] = [
    ("groups", changed("kind", lambda _: "short_list"), "a biclique lacks edges"),
    ("groups", changed("core_key", lambda _: None), "core_key is None"),
    ("groups", changed("n_bicliques", lambda _: 0), "n_bicliques is 0"),
    ("group_members", changed("is_core", lambda is_core: not is_core), "is_core is"),
    ("group_edges", changed("left", lambda _: 10_000), "there is no vertex 10000"),
    ("group_edges", lambda table: [table[0], *table], "out of order"),
    ("group_edges", lambda table: table[1:], "the number of edges is"),
    ("group_halo", changed("gain", lambda gain: gain + 1e-4), "gain is"),
    ("group_halo", lambda table: [table[1], table[0], *table[2:]], "(place|side) is"),
    ("vertex_scores", halved_surprise, "grown_surprise is below the surprise of the vertex's groups"),
]


@pytest.mark.parametrize(("table", "change", "message"), FORGED)
def test_forged_tables_are_found(run_dir: Path, table: str, change: Any, message: str) -> None:
    forge(run_dir, f"{table}.parquet", change)
    with pytest.raises(VerificationError, match=message):
        verify_run(run_dir, ingest(Config().input, EDGES))


def test_an_absent_edge_is_found(run_dir: Path) -> None:
    """Replace an edge by an absent one beside it."""
    pairs = rows(run_dir, "group_edges")
    there = {(row["left"], row["right"]) for row in pairs}
    place = next(
        i
        for i, (row, after) in enumerate(pairwise(pairs))
        if row["left"] == after["left"] and after["right"] - row["right"] == 2
    )
    absent = pairs[place]["right"] + 1
    assert (pairs[place]["left"], absent) not in there
    forge(run_dir, "group_edges.parquet", changed("right", lambda _: absent, row=place + 1))
    with pytest.raises(VerificationError, match="is not an edge of the input"):
        verify_run(run_dir, ingest(Config().input, EDGES))


@pytest.mark.parametrize(
    ("section", "message"),
    [({"groups": {"limit": 1}}, "one group too many"), ({"query": {"min_left": 10}}, "does not meet the run's query")],
)
def test_other_groups_than_were_asked_for_are_found(run_dir: Path, section: dict[str, Any], message: str) -> None:
    edit(run_dir, lambda values: [values["config"][name].update(keys) for name, keys in section.items()])
    with pytest.raises(VerificationError, match=message):
        verify_run(run_dir)


def test_the_least_sizes_of_the_query_hold(tmp_path: Path) -> None:
    made = run(grown(tmp_path, query={"min_left": 4, "min_right": 5}), EDGES).run_dir
    groups = rows(made, "groups")
    assert groups
    assert all(row["n_left"] >= 4 and row["n_right"] >= 5 for row in groups)
    verify_run(made)
