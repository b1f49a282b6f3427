"""The largest bicliques, streamed over many row groups, equal those of a full sort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.publish.schemas import BICLIQUES
from mbe_stage.pipeline.views import top
from mbe_stage.pipeline.views.top import Conditions, find_vertex, largest_bicliques

N_LEFT, N_RIGHT = 30, 12


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Rows as a run has them; members are random, since reading does not need maximality."""
    rng = np.random.default_rng(5)
    keys = rng.choice(10**6, 900, replace=False) - 5 * 10**5
    return [_row(rng, int(key)) for key in keys]


def _row(rng: np.random.Generator, key: int) -> dict:
    n_left, n_right = rng.integers(1, 7, 2).tolist()
    left = sorted(rng.choice(N_LEFT, n_left, replace=False).tolist())
    right = sorted(rng.choice(N_RIGHT, n_right, replace=False).tolist())
    return {
        "biclique_key": key,
        "left": left,
        "right": right,
        "n_left": n_left,
        "n_right": n_right,
        "n_edges": n_left * n_right,
    }


@pytest.fixture
def run(tmp_path: Path, rows: list[dict], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three parts with several row groups each, read in batches smaller than a row group."""
    monkeypatch.setattr(top, "_ROWS", 17)
    monkeypatch.setattr(top, "_MEMBER_ROWS", 13)
    (tmp_path / "bicliques").mkdir()
    for part in range(3):
        table = pa.Table.from_pylist(rows[300 * part : 300 * (part + 1)], schema=BICLIQUES)
        pq.write_table(table, tmp_path / "bicliques" / f"part-{part:05}.parquet", row_group_size=70)
    left = pa.table({"vertex": range(N_LEFT), "key": [f"L{i}" for i in range(N_LEFT)]})
    right = pa.table({"vertex": range(N_RIGHT), "key": [10 * i - 20 for i in range(N_RIGHT)]})
    pq.write_table(left, tmp_path / "left_vertices.parquet")
    pq.write_table(right, tmp_path / "right_vertices.parquet")
    return tmp_path


def test_row_groups_that_hold_nothing_large_are_not_read(
    run: Path, rows: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in sorted((run / "bicliques").iterdir()):
        table = pq.read_table(part).sort_by([("n_edges", "ascending")])
        pq.write_table(table, part, row_group_size=70)
    read, batches = [], top._batches
    monkeypatch.setattr(top, "_batches", lambda *asked: (read.append(asked), batches(*asked))[1])
    found = largest_bicliques(run, 7)
    assert [(b.n_edges, b.key) for b in found] == _expected(rows, 7)
    # In each part, the last of its five row groups holds the large ones.
    assert 1 <= len(read) <= 3


def test_files_without_statistics_are_read_whole(run: Path, rows: list[dict]) -> None:
    for part in sorted((run / "bicliques").iterdir()):
        pq.write_table(pq.read_table(part), part, row_group_size=70, write_statistics=False)
    assert [(b.n_edges, b.key) for b in largest_bicliques(run, 7)] == _expected(rows, 7)


def _expected(rows: list[dict], limit: int) -> list[tuple[int, int]]:
    best = sorted(rows, key=lambda row: (-row["n_edges"], row["biclique_key"]))[:limit]
    return [(row["n_edges"], row["biclique_key"]) for row in best]


@pytest.mark.parametrize(("by", "column"), [("edges", "n_edges"), ("left", "n_left"), ("right", "n_right")])
@pytest.mark.parametrize("limit", [1, 7, 250, 5000])
def test_largest(run: Path, rows: list[dict], by: str, column: str, limit: int) -> None:
    expected = sorted(rows, key=lambda row: (-row[column], row["biclique_key"]))[:limit]
    found = largest_bicliques(run, limit, by)
    assert [(b.key, b.n_edges) for b in found] == [(row["biclique_key"], row["n_edges"]) for row in expected]
    assert [b.left for b in found] == [tuple(f"L{u}" for u in row["left"]) for row in expected]
    assert [b.right for b in found] == [tuple(10 * v - 20 for v in row["right"]) for row in expected]


@pytest.mark.parametrize(("side", "key", "vertex"), [("left", "L17", 17), ("right", "-20", 0), ("right", "30", 5)])
def test_of_a_vertex(run: Path, rows: list[dict], side: str, key: str, vertex: int) -> None:
    assert find_vertex(run, key) == find_vertex(run, key, side) == (side, vertex)
    expected = sorted(
        (row for row in rows if vertex in row[side]), key=lambda row: (-row["n_edges"], row["biclique_key"])
    )
    found = largest_bicliques(run, 1000, conditions=Conditions(side, vertex))
    assert [b.key for b in found] == [row["biclique_key"] for row in expected]


def test_minimum_sizes(run: Path, rows: list[dict]) -> None:
    expected = [row for row in rows if row["n_left"] >= 4 and row["n_right"] >= 5]
    found = largest_bicliques(run, 1000, conditions=Conditions(min_left=4, min_right=5))
    assert {b.key for b in found} == {row["biclique_key"] for row in expected}


def test_no_such_vertex(run: Path) -> None:
    for key in ("L99", "31", "3.5", "99999999999999999999"):
        with pytest.raises(InputError, match="on either side"):
            find_vertex(run, key)
    with pytest.raises(InputError, match="on the right side"):
        find_vertex(run, "L17", "right")


def test_vertex_on_both_sides(run: Path) -> None:
    pq.write_table(pa.table({"vertex": [0], "key": ["L17"]}), run / "right_vertices.parquet")
    with pytest.raises(InputError, match="--side"):
        find_vertex(run, "L17")


def test_no_tables(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="no table of bicliques"):
        largest_bicliques(tmp_path, 3)
    with pytest.raises(PublishError, match="no such table"):
        find_vertex(tmp_path, "x")
