"""A flow resumes the unfinished run of an earlier one, or starts over with a warning."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import pytest

from mbe_stage import pipeline, run_limits
from mbe_stage.flows.enumerate import configure, enumerate_bicliques_flow
from mbe_stage.pipeline.execution import unfinished
from mbe_stage.pipeline.execution.output_limit import OutputLimit
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.manifest import read_manifest, software_versions
from mbe_stage.pipeline.publish.run_store import RunStore
from tests.pipeline.resume_support import edges, ended_after

pytestmark = pytest.mark.usefixtures("prefect_server")

__all__ = ["edges"]

OVERRIDES = [
    "execution.engine=cpu",
    "execution.threads=2",
    "execution.block_bytes=2000",
    "output.report=false",
    "output.checkpoint_seconds=0.003",
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)


def flow(source: Path, out: Path, *overrides: str):
    return enumerate_bicliques_flow(
        input_path=str(source), output_directory=str(out), overrides=[*OVERRIDES, *overrides], return_state=True
    )


def test_a_flow_resumes(tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configure(None, str(edges), str(tmp_path / "out"), OVERRIDES)
    ended_after(2, config)
    with caplog.at_level(logging.INFO, "prefect.flow_runs"):
        state = flow(edges, tmp_path / "out")
    assert state.is_completed(), state.message
    assert any("resuming an interrupted run" in text for text in caplog.messages)
    manifest = read_manifest(state.result()["run"])
    assert any("and resumed:" in text for text in manifest.warnings)
    undisturbed = pipeline.run(configure(None, str(edges), str(tmp_path / "undisturbed"), OVERRIDES)).manifest
    assert manifest.content_fingerprint == undisturbed.content_fingerprint
    assert RunStore(tmp_path / "out").unfinished() == []


def test_a_flow_saves_its_results_on_sigterm(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGTERM long before a checkpoint is due: the flow saves a last one and ends as Prefect ends it."""
    n_looks = 0

    def sigterm_at_the_third_look(_: object) -> None:
        nonlocal n_looks
        n_looks += 1
        if n_looks == 3:
            signal.raise_signal(signal.SIGTERM)

    # The process's reaction to SIGTERM without Prefect, which passes it on.
    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(OutputLimit, "__call__", sigterm_at_the_third_look)
            with pytest.raises(KeyboardInterrupt):
                flow(edges, tmp_path / "out", "output.checkpoint_seconds=3600")
    finally:
        signal.signal(signal.SIGTERM, usual)
    (kept,) = list_unfinished(tmp_path / "out")
    assert kept.n_found > 0
    assert not kept.is_running
    assert RunStore(tmp_path / "out").runs() == []
    with caplog.at_level(logging.INFO, "prefect.flow_runs"):
        state = flow(edges, tmp_path / "out", "output.checkpoint_seconds=3600")
    assert state.is_completed(), state.message
    assert any(f"{kept.n_found:,} results" in text for text in read_manifest(state.result()["run"]).warnings)


def test_a_different_query_starts_over(tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture) -> None:
    staging_dir = ended_after(1, configure(None, str(edges), str(tmp_path / "out"), OVERRIDES))
    check_starts_over(edges, tmp_path / "out", staging_dir, "query.min_left was 1 and is 2", caplog, "query.min_left=2")


def test_a_different_version_starts_over(
    tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(unfinished, "software_versions", lambda: {**software_versions(), "numpy": "1.0"})
        staging_dir = ended_after(1, configure(None, str(edges), str(tmp_path / "out"), OVERRIDES))
    check_starts_over(edges, tmp_path / "out", staging_dir, "numpy was 1.0 and is ", caplog)


def check_starts_over(
    source: Path, out: Path, staging_dir: Path, told: str, caplog: pytest.LogCaptureFixture, *overrides: str
) -> None:
    """Check that the flow starts over, says why, and keeps the other unfinished run."""
    with caplog.at_level(logging.WARNING, "prefect.flow_runs"):
        state = flow(source, out, *overrides)
    assert state.is_completed(), state.message
    (warning,) = (text for text in caplog.messages if "an earlier run was interrupted" in text)
    assert f"{staging_dir}: cannot be resumed: " in warning
    assert told in warning
    assert not any("resumed" in text for text in read_manifest(state.result()["run"]).warnings)
    assert RunStore(out).unfinished() == [staging_dir]


def test_different_edges_start_over(tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "edges.csv"
    source.write_bytes(edges.read_bytes())
    ended_after(1, configure(None, str(source), str(tmp_path / "out"), OVERRIDES))
    source.write_text(source.read_text() + "u0,another\n")
    with caplog.at_level(logging.WARNING, "prefect.flow_runs"):
        state = flow(source, tmp_path / "out")
    assert state.is_completed(), state.message
    assert any("cannot be resumed: the edges of" in text for text in caplog.messages)
    assert not any("resumed" in text for text in read_manifest(state.result()["run"]).warnings)
    assert RunStore(tmp_path / "out").unfinished() == []
