"""Runs into stores that are ended early and resumed: saved results stay on this machine."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the extra object-stores is not installed")
pytest.importorskip("moto", reason="the server for tests of object stores is not installed")
pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")

from mbe_stage.pipeline import Config, PublishError, RunResult, run
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.stores.open_store import opened_run, store_at
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline import crash_child
from tests.pipeline.resume_support import (
    Killed,
    assert_as_undisturbed,
    config_for,
    edges,
    output_of_run,
    undisturbed,
    values,
    whatever_they_cost,
)
from tests.pipeline.stores.server import Bucket
from tests.pipeline.test_cli import mbe

__all__ = ["edges", "undisturbed", "whatever_they_cost"]


def ended_after(n_records: int, config: Config) -> Path:
    """Start a run and end it once `n_records` are on the disk; return its staging directory."""
    out = config.output.directory

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        with_records = [each for each in list_unfinished(out) if len(each.records) >= n_records]
        if with_records:
            raise Killed

    with pytest.raises(Killed):
        run(config, on_progress=on_progress)
    (kept,) = list_unfinished(out)
    return kept.staging_dir


def assert_whole(result: RunResult, out: str, undisturbed: Path, edges: Path) -> None:
    assert result.address.startswith(f"{out}/runs/")
    with opened_run(out) as published:
        assert_as_undisturbed(published, undisturbed, edges)
    assert list_unfinished(out) == []


def test_ended_and_resumed(bucket: Bucket, edges: Path, undisturbed: Path) -> None:
    out = f"{bucket.url}/out"
    config = config_for(out, edges, output=output_of_run(undisturbed))
    staging_dir = ended_after(2, config)
    assert bucket.listed() == []
    (begun_run,) = list_unfinished(out)
    assert list_unfinished(f"{bucket.url}/other") == []
    result = run(config, resume=True)
    assert any(f"{begun_run.n_found:,} results" in text for text in result.manifest.warnings)
    assert not staging_dir.exists()
    assert_whole(result, out, undisturbed, edges)


@pytest.mark.slow
def test_killed_and_resumed(bucket: Bucket, tmp_path: Path, edges: Path) -> None:
    out, output = f"{bucket.url}/out", {"members": True}
    settings = values(out, edges, output=output, execution={"block_bytes": 5_000})
    undisturbed = run(
        config_for(tmp_path / "undisturbed", edges, output={**output, "checkpoint_seconds": None})
    ).run_dir
    environment = {**os.environ, "PYTHONPATH": str(Path(crash_child.__file__).parents[2])}
    child = begun(
        [sys.executable, crash_child.__file__, json.dumps(settings), str(edges), "slow-blocks"],
        stdin=-1,
        text=True,
        env=environment,
    )
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    end = time.monotonic() + PATIENCE
    while not (found := list_unfinished(out)) or not found[0].records:
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    output_of(child)
    (kept,) = list_unfinished(out)
    assert not kept.is_running
    # Another command that uses the store leaves the saved results alone.
    assert mbe("runs", out).exit_code == 0
    result = run(Config.from_mapping(settings), resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings)
    assert_whole(result, out, undisturbed, edges)


def test_a_run_ended_by_a_limit_is_resumed(bucket: Bucket, edges: Path, undisturbed: Path) -> None:
    out, output = f"{bucket.url}/out", output_of_run(undisturbed)
    limited = config_for(out, edges, output=output, execution={"max_bicliques": 2000})
    cut = run(limited, on_progress=lambda _: time.sleep(0.002))
    assert cut.manifest.n_found == 2000
    (kept,) = list_unfinished(out)
    # The staging directory is in the directory of the store that this result holds.
    result = run(config_for(out, edges, output=output), resume=True)
    assert any(f"{kept.n_found:,} results" in text for text in result.manifest.warnings)
    assert sorted(cut.tables) == sorted(result.tables), "the copy of the earlier run is still there"
    assert_whole(result, out, undisturbed, edges)


def test_runs_of_other_writers_are_left_alone(bucket: Bucket, edges: Path) -> None:
    config = config_for(f"{bucket.url}/out", edges)
    staging_dir = ended_after(1, config)
    first, second = store_at(f"{bucket.url}/out"), store_at(f"{bucket.url}/out")
    with first.begin(staging_dir=staging_dir) as staging:
        moved = staging.path.parent
        assert [each.staging_dir for each in list_unfinished(f"{bucket.url}/out") if each.is_running] == [moved]
        assert second.clean() == []
        for taken in (staging_dir, moved):
            with (
                pytest.raises(PublishError, match="is being written by another process"),
                second.begin(staging_dir=taken),
            ):
                pass
    first.close()
    second.close()
    assert run(config, resume=True).manifest.warnings
    assert list_unfinished(f"{bucket.url}/out") == []


def test_the_commands(bucket: Bucket, edges: Path) -> None:
    out = f"{bucket.url}/out"
    staging_dir = ended_after(1, config_for(out, edges))
    (unfinished,) = json.loads(mbe("runs", out, "--json").stdout)["unfinished"]
    assert unfinished["run"] == str(staging_dir)
    assert unfinished["found"] > 0
    assert json.loads(mbe("clean", out, "--json").stdout)["removed"] == [str(staging_dir)]
    staging_dir = ended_after(1, config_for(out, edges))
    # The saved results have expired, and the next run removes them.
    run(config_for(out, edges, output={"keep_unfinished_days": 0}))
    assert not staging_dir.exists()
    assert list_unfinished(out) == []
