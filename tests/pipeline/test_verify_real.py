"""Real graphs: the published number of maximal bicliques, and every one of them checked independently."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbe_stage.pipeline import Config, InputConfig, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.fields import standing_notes

SMALL = {
    "southern_women": 63,
    "corporate_leadership": 66,
    "club_membership": 60,
    "moreno_crime": 620,
    "unicodelang": 460,
    "ucforum": 16_261,
}
LARGE = {
    "marvel": 206_135,
    "movielens_ti": 140_266,
    "dbpedia_writer": 57_222,
    "youtube": 1_826_587,
    "actor_movies": 1_075_444,
    "github_half": 691_250,
    "mushroom": 238_709,
    "BMS_WebView2": 1_691_049,
}


@pytest.mark.parametrize(
    ("name", "n_bicliques"),
    [*SMALL.items(), *(pytest.param(name, n, marks=pytest.mark.slow) for name, n in LARGE.items())],
)
def test_published_count_and_verification(data_dir: Path, tmp_path: Path, name: str, n_bicliques: int) -> None:
    path = str(data_dir / f"{name}.npz")
    config = Config.from_mapping({"input": {"path": path}, "output": {"directory": str(tmp_path), "report": False}})
    result = run(config)
    assert result.manifest.counts.bicliques == n_bicliques
    report = verify_run(result.run_dir, ingest(InputConfig(path=path)))
    assert report.n_against_input == n_bicliques
    assert report.not_checked == standing_notes(result.manifest)
