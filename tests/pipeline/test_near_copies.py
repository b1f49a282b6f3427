"""The largest bicliques without near copies: by definition on random rows, in the command and in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from mbe_stage.pipeline import run
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.report.markdown import essence
from mbe_stage.pipeline.views import near_copies
from mbe_stage.pipeline.views.near_copies import largest_distinct
from mbe_stage.pipeline.views.top import ALL, Biclique, BicliqueIds, Conditions, Measure, largest_bicliques
from tests.pipeline.groups_support import planted, settings
from tests.pipeline.output_support import crown_pairs
from tests.pipeline.test_problem_seam import mbe, refusal, said


def by_definition(run_dir: Path, limit: int, by: Measure, conditions: Conditions) -> tuple[list[int], int]:
    """Return the keys, and how many were left out before the last of them."""
    kept: list[Biclique] = []
    left_out = 0
    for one in largest_bicliques(run_dir, 10**6, by, conditions):
        if len(kept) == limit:
            break
        left = set(one.left)
        overlaps = [len(left & set(other.left)) / len(left | set(other.left)) for other in kept]
        if max(overlaps, default=0.0) >= 0.5:
            left_out += 1
        else:
            kept.append(one)
    return [one.key for one in kept], left_out


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(settings(tmp_path_factory.mktemp("run"), groups=None), planted(3)).run_dir


@pytest.mark.parametrize("seed", range(2))
def test_largest_without_near_copies_by_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """More rows may have to be read than at first, and any threshold of wide rows gives the same."""
    monkeypatch.setattr(near_copies, "LOOKED_THROUGH", 1)
    monkeypatch.setattr(near_copies, "_MORE", 2)
    run_dir = run(settings(tmp_path, groups=None), planted(seed)).run_dir
    for by in get_args(Measure):
        for conditions in (ALL, Conditions(min_left=2, min_right=2), Conditions("right", 3)):
            for limit in (1, 3, 10, 1000):
                wanted = by_definition(run_dir, limit, by, conditions)
                for wide in (1, 3, 6, 4_096)[(seed + limit) % 2 :: 2]:
                    monkeypatch.setattr(near_copies, "_WIDE", wide)
                    found = largest_distinct(run_dir, limit, by, conditions)
                    assert ([biclique.key for biclique in found.bicliques], found.n_copies) == wanted
    assert largest_distinct(run_dir, 1000).n_copies > 0


def test_the_search_for_copies_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest left sides of a crown differ in two members each."""
    pairs = crown_pairs(6)
    crown = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    run_dir = run(settings(tmp_path, groups=None), crown).run_dir
    seen: list[int] = []
    real = near_copies.largest_ids

    def noted(run_path: Path, limit: int, *asked: Any, **more: Any) -> list[BicliqueIds]:
        seen.append(limit)
        return real(run_path, limit, *asked, **more)

    monkeypatch.setattr(near_copies, "LOOKED_THROUGH", 1)
    monkeypatch.setattr(near_copies, "largest_ids", noted)
    found = largest_distinct(run_dir, 19, "left", most=20)
    assert seen == [19, 20]
    assert len(found.bicliques) + found.n_copies == 20
    assert len(found.bicliques) < 19
    largest_distinct(run_dir, 30, "left", most=20)
    assert seen == [19, 20, 30]


def test_half_in_common_is_a_copy_and_less_is_none(tmp_path: Path) -> None:
    """Left sides of four and three members: two in common of five are less than half, three of four are more."""
    pairs = [(u, "a") for u in range(4)] + [(u, "b") for u in (0, 1, 2)] + [(u, "c") for u in (2, 3, 9)]
    source = pa.table({"l": [u for u, _ in pairs], "r": [v for _, v in pairs]})
    out = run(settings(tmp_path, groups=None), source).run_dir
    found = largest_distinct(out, 10, "left")
    assert [len(one.left) for one in found.bicliques] == [4, 3, 1]
    assert {9, 2, 3} == set(found.bicliques[1].left)


def test_the_command_shows_them_when_asked(run_dir: Path) -> None:
    distinct = [one.key for one in largest_distinct(run_dir, 5).bicliques]
    whole = [one.key for one in largest_bicliques(run_dir, 5)]
    assert distinct != whole
    assert [row["biclique_key"] for row in said("top", run_dir, "--limit", 5)["bicliques"]] == whole
    assert [row["biclique_key"] for row in said("top", run_dir, "--limit", 5, "--copies")["bicliques"]] == whole
    assert [row["biclique_key"] for row in said("top", run_dir, "--limit", 5, "--no-copies")["bicliques"]] == distinct
    plain, every = (mbe("top", run_dir, "--limit", 5, *more).stdout for more in ((), ("--copies",)))
    for key in set(distinct) | set(whole):
        assert (str(key) in plain, str(key) in every) == (key in distinct, key in whole)
    assert "of these; --copies shows them too" in plain
    assert "left out" not in every
    csv = mbe("top", run_dir, "--limit", 5, "--csv").stdout
    assert csv == mbe("top", run_dir, "--limit", 5, "--csv", "--copies").stdout
    assert csv != mbe("top", run_dir, "--limit", 5, "--csv", "--no-copies").stdout
    assert "no such option" in refusal("top", run_dir, "--copied", code=2).lower()


def test_the_report_lists_each_family_once(run_dir: Path) -> None:
    page = (run_dir / "report.html").read_text()
    section = page[page.index('<section id="largest">') : page.index('<section id="vertices">')]
    assert "Near copies are left out" in section
    manifest = json.loads((run_dir / "manifest.json").read_text())
    shown = [one.key for one in largest_distinct(run_dir, manifest["config"]["output"]["top"]).bicliques]
    assert all(f"<code>{key}</code>" in section for key in shown)


def test_the_essence_lists_each_family_once(run_dir: Path) -> None:
    lines = essence(run_dir, read_manifest(run_dir))
    listed = lines[lines.index("## The largest, by edges, near copies left out") + 4 :]
    sizes = [f"{len(one.left):,} × {len(one.right):,}" for one in largest_distinct(run_dir, 5).bicliques]
    assert [line.split("|")[1].strip() for line in listed if line.startswith("|")] == sizes


def test_few_of_a_large_result_are_searched() -> None:
    assert near_copies.affordable(10_000_000, 20) == near_copies.MOST
    assert near_copies.affordable(10_000_001, 20) == 40
