"""What a run may write is looked at wherever it writes."""

from __future__ import annotations

from pathlib import Path

from pipeline.config import Config
from pipeline.output_limit import output_limit


def test_what_workers_write_beside_the_run_counts(tmp_path: Path) -> None:
    config = Config.model_validate({"input": {"path": "edges.csv"}, "execution": {"max_output_bytes": 1_000}})
    run_path, beside = tmp_path / "run", tmp_path / "run.0123abcd.parts" / "lease"
    run_path.mkdir()
    beside.mkdir(parents=True)
    (run_path / "part").write_bytes(bytes(600))
    assert output_limit(config, run_path, None)() is None
    (beside / "part").write_bytes(bytes(400))
    assert output_limit(config, run_path, None)() == "stopped at max_output_bytes = 1000"
