"""The limit of a run's output covers every place where it writes."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.output_limit import output_limit


def test_parts_of_workers_count(tmp_path: Path) -> None:
    config = Config.model_validate({"input": {"path": "edges.csv"}, "execution": {"max_output_bytes": 1_000}})
    run_path, beside = tmp_path / "run", tmp_path / "run.0123abcd.parts" / "lease"
    run_path.mkdir()
    beside.mkdir(parents=True)
    (run_path / "part").write_bytes(bytes(600))
    assert output_limit(config, run_path, None)() is None
    (beside / "part").write_bytes(bytes(400))
    assert output_limit(config, run_path, None)() == "stopped at max_output_bytes = 1000"


def test_the_used_share_counts_only_what_this_process_may_write(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.execution.output_limit._LOOK_SECONDS", 0.0)
    config = Config.model_validate({"input": {"path": "edges.csv"}, "execution": {"max_output_bytes": 1_000}})
    run_path = tmp_path / "run"
    run_path.mkdir()
    (run_path / "kept").write_bytes(bytes(600))
    limit = output_limit(config, run_path, None)
    assert limit.share() == 0.0
    (run_path / "part").write_bytes(bytes(300))
    assert limit.share() == 0.75
    assert limit() is None
    (run_path / "another").write_bytes(bytes(300))
    assert limit.share() == 1.5
    assert limit() is not None
