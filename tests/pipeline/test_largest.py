"""The largest bicliques, kept while streaming, equal those of the table."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.arrow.parts import batches_of
from mbe_stage.pipeline.problems.bicliques import largest
from mbe_stage.pipeline.problems.bicliques.arrow import ROWS
from mbe_stage.pipeline.problems.bicliques.largest import FEWEST, Largest
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import bicliques_parts
from mbe_stage.pipeline.report import bicliques as report
from mbe_stage.pipeline.report.tables import read_sizes
from mbe_stage.pipeline.views.near_copies import largest_distinct
from tests.mbe_stage import graphs


class Made:
    """Random bicliques in blocks, with few distinct sizes and so with many ties."""

    def __init__(self, seed: int, n: int, widest: int = 6) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = [rng.integers(1, widest, n, dtype=np.int32) for _ in "lr"]
        self.members = [
            np.concatenate([np.arange(size, dtype=np.int32) + i for i, size in enumerate(side)]) for side in self.sizes
        ]
        self.keys = rng.permutation(n).astype(np.int64) - n // 2
        self.edges = self.sizes[0].astype(np.int64) * self.sizes[1]

    def block(self, first: int, end: int) -> tuple[BicliqueBlock, np.ndarray, np.ndarray]:
        bounds = [np.concatenate([[0], np.cumsum(side)]) for side in self.sizes]
        left, right = (members[bound[first] : bound[end]] for members, bound in zip(self.members, bounds, strict=True))
        sizes = [side[first:end] for side in self.sizes]
        return BicliqueBlock(end - first, *sizes, left, right), self.edges[first:end], self.keys[first:end]

    def best(self, fewest: int) -> list[tuple[int, int, int]]:
        """Return key, edges and first left member of every biclique, the best first."""
        rows = [i for i in range(self.keys.size) if min(self.sizes[0][i], self.sizes[1][i]) >= fewest]
        rows.sort(key=lambda i: (-self.edges[i], self.keys[i]))
        return [(int(self.keys[i]), int(self.edges[i]), i) for i in rows]


def told(kept: Largest, fewest: int) -> list[tuple[int, int, int]]:
    found, _ = kept.first(fewest)
    assert all(one.left.size * one.right.size == one.n_edges for one in found)
    return [(one.key, one.n_edges, int(one.left[0])) for one in found]


@pytest.mark.parametrize("members", [1 << 20, 60])
@pytest.mark.parametrize("seed", range(6))
def test_merged_parts_have_no_gap(seed: int, members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largest, "_MOST", 12)
    monkeypatch.setattr(largest, "_MOST_MEMBERS", members)
    made = Made(seed, 300)
    bounds = sorted({0, 300, *np.random.default_rng(seed).integers(0, 300, 9).tolist()})
    parts = [Largest(2) for _ in range(3)]
    for i, (first, end) in enumerate(pairwise(bounds)):
        parts[i % 3].add(*made.block(first, end))
    whole = Largest(2)
    for part in parts:
        whole.merge(pickle.loads(pickle.dumps(part)))
    for fewest in FEWEST:
        expected, found = made.best(fewest), told(whole, fewest)
        assert found == expected[: len(found)]
        assert 4 <= len(found) <= 12
        assert not whole.first(fewest)[1]


def test_few_bicliques_are_all_kept() -> None:
    made = Made(1, 9, widest=3)
    kept = Largest()
    kept.add(*made.block(0, 5))
    kept.add(*made.block(5, 5))
    kept.add(*made.block(5, 9))
    for fewest in FEWEST:
        assert told(kept, fewest) == made.best(fewest)
        assert kept.first(fewest)[1]


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Any]:
    left, right = graphs.from_matrix(graphs.random_matrix(3, 30, 40, 0.35)).edges()
    path = tmp_path / "edges.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in zip(left.tolist(), right.tolist(), strict=True)))
    output = {"directory": str(tmp_path / "out")}
    asked = {"input": {"path": str(path)}, "execution": {"engine": "cpu"}, "output": output}
    run_dir = run(Config.model_validate(asked)).run_dir
    return run_dir, read_manifest(run_dir)


def test_the_report_shows_what_the_table_says(published: tuple[Path, Any]) -> None:
    run_dir, _ = published
    sizes, seen = read_sizes(run_dir / "size_histogram.parquet"), Largest()
    for part in bicliques_parts(run_dir):
        for batch in batches_of(part):
            block, keys = ROWS.block_of(batch)
            seen.add(block, block.left_sizes.astype(np.int64) * block.right_sizes, keys)
    for fewest in FEWEST:
        of_table, kept = (report._Largest(run_dir, sizes, 20, given).distinct(fewest) for given in (None, seen))
        assert len(of_table.bicliques) == 20
        assert kept == of_table


def test_a_run_reads_no_table_for_its_report(published: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _, manifest = published
    monkeypatch.setattr(report, "largest_distinct", lambda *_, **__: pytest.fail("the table was read"))
    assert "Near copies are left out" in (run(manifest.config).run_dir / "report.html").read_text()


def test_the_table_is_read_if_too_many_are_near_copies(published: tuple[Path, Any]) -> None:
    run_dir, _ = published
    sizes = read_sizes(run_dir / "size_histogram.parquet")
    nothing = Largest()
    made = Made(2, 2000)
    nothing.add(*made.block(0, 2000))
    # A thousand copies of one biclique.
    for kept in nothing._kept.values():
        kept.members = [kept.members[0]] * len(kept.members)
    found = report._Largest(run_dir, sizes, 20, nothing).distinct(2)
    assert found == largest_distinct(run_dir, 20, conditions=report.Conditions(min_left=2, min_right=2))
