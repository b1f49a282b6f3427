"""What a run may write is looked at wherever it writes."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.output_limit import output_limit


def test_what_workers_write_beside_the_run_counts(tmp_path: Path) -> None:
    config = Config.model_validate({"input": {"path": "edges.csv"}, "execution": {"max_output_bytes": 1_000}})
    run_path, beside = tmp_path / "run", tmp_path / "run.0123abcd.parts" / "lease"
    run_path.mkdir()
    beside.mkdir(parents=True)
    (run_path / "part").write_bytes(bytes(600))
    assert output_limit(config, run_path, None)() is None
    (beside / "part").write_bytes(bytes(400))
    assert output_limit(config, run_path, None)() == "stopped at max_output_bytes = 1000"


def test_how_much_of_it_is_used_up_is_told_of_what_this_process_may_write(tmp_path: Path, monkeypatch) -> None:
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
