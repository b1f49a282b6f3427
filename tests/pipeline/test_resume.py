"""Runs ended early and resumed: nothing is lost, nothing comes twice, and changed queries or inputs are refused."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

import pytest

from benchmarks import checkpoints
from mbe_stage import InvalidArgument
from mbe_stage import engines as registry
from mbe_stage.bicliques import engine_cpu
from mbe_stage.pipeline import Config, PublishError, RunStore, run
from mbe_stage.pipeline.backends.arrow import parts
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.execution import job
from mbe_stage.pipeline.execution import unfinished as unfinished_module
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished, staging_to_resume
from mbe_stage.pipeline.publish import manifest
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.mbe_stage.small_gpu import SmallGpu
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.pipeline.resume_support import (
    SORTED_TOO,
    Killed,
    assert_as_undisturbed,
    config_for,
    edges,
    ended_after,
    is_sorted,
    output_of_run,
    undisturbed,
    values,
    whatever_they_cost,
)
from tests.pipeline.test_cli import mbe

__all__ = ["edges", "undisturbed", "whatever_they_cost"]


@SORTED_TOO
def test_saved_results_are_not_searched_again(tmp_path, edges, undisturbed, caplog) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    staging_dir = ended_after(2, config)
    (begun,) = list_unfinished(tmp_path)
    assert begun.staging_dir == staging_dir
    assert begun.n_found > 0
    assert not begun.is_running
    assert 0 < begun.work_done < 1
    told = []
    with caplog.at_level(logging.INFO, "mbe_stage.pipeline"):
        result = run(config, on_progress=told.append, resume=True)
    assert told[0].n_found >= begun.n_found
    assert told[-1].n_found == result.manifest.counts.bicliques
    assert any("resumed" in text for text in caplog.messages)
    assert any(f"{begun.n_found:,} results" in text for text in result.manifest.warnings)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(tmp_path)


def test_recorded_files_are_not_read_again_for_the_manifest(tmp_path, edges, monkeypatch) -> None:
    read = []
    real = manifest.file_entry
    monkeypatch.setattr(manifest, "file_entry", lambda run, path: read.append(path.name) or real(run, path))
    config = config_for(tmp_path, edges)
    booked = {entry.path.rpartition("/")[2] for entry in read_journal(ended_after(2, config))[1][0].files}
    result = run(config, resume=True)
    assert booked
    assert not booked & set(read)
    assert "left_vertices.parquet" in read
    assert_sound(result.run_dir)


def test_checkpoints_are_counted_by_the_benchmark(tmp_path, edges) -> None:
    with checkpoints._noting_checkpoints() as noted:
        staging_dir = ended_after(1, config_for(tmp_path, edges))
    assert len(noted) >= len(read_journal(staging_dir)[1]) > 0


def test_an_engine_with_another_order_of_roots_is_refused(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    with pytest.raises(InvalidArgument, match="an engine with the same order of roots"):
        run(config_for(tmp_path, edges, execution={"engine": "reference"}), resume=True)
    assert RunStore(tmp_path).unfinished() == [staging_dir]
    assert run(config_for(tmp_path, edges), resume=True).manifest.warnings


@pytest.mark.parametrize(
    ("sections", "changed"),
    [
        ({"query": {"min_left": 2}}, "query.min_left was 1 and is 2"),
        ({"output": {"sort": True}}, "output.sort was False and is True"),
        ({"output": {"compression": "snappy"}}, "compression was 'zstd' and is 'snappy'"),
    ],
)
def test_another_query_is_refused(tmp_path, edges, sections, changed) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    with pytest.raises(PublishError) as refusal:
        run(config_for(tmp_path, edges, **sections), resume=True)
    assert changed in str(refusal.value)
    assert "without --resume" in str(refusal.value)
    assert RunStore(tmp_path).unfinished() == [staging_dir], "it is left unchanged"


def test_expired_runs_are_removed_when_resuming(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    for path in (*staging_dir.rglob("*"), staging_dir):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    resumed = run(config_for(tmp_path, edges, query={"min_left": 2}), resume=True)
    assert resumed.manifest.warnings == ()
    assert RunStore(tmp_path).unfinished() == []


def test_other_edges_are_refused(tmp_path, edges) -> None:
    copy = tmp_path / "edges.csv"
    copy.write_bytes(edges.read_bytes())
    config = config_for(tmp_path / "out", copy)
    staging_dir = ended_after(1, config)
    copy.write_text(copy.read_text() + "u0,another\n")
    with pytest.raises(PublishError, match=r"the edges of .*edges.csv have changed since"):
        run(config, resume=True)
    assert RunStore(tmp_path / "out").unfinished() == [staging_dir]
    # Without `--resume`, a run starts over and leaves the interrupted one alone.
    assert run(config).manifest.warnings == ()
    assert RunStore(tmp_path / "out").unfinished() == [staging_dir]


def test_other_software_is_refused(tmp_path, edges, monkeypatch) -> None:
    config = config_for(tmp_path, edges)
    ended_after(1, config)
    versions = {**unfinished_module.software_versions(), "numpy": "1.0"}
    monkeypatch.setattr(unfinished_module, "software_versions", lambda: versions)
    with pytest.raises(PublishError, match=r"numpy was .* and is 1\.0"):
        run(config, resume=True)


def test_nothing_to_resume_starts_over(tmp_path, edges, caplog) -> None:
    assert run(config_for(tmp_path, edges), resume=True).manifest.counts.bicliques
    assert any("no run to resume" in text for text in caplog.messages)


@pytest.mark.usefixtures("installed")
def test_problems_without_checkpoints_say_so(tmp_path, edges) -> None:
    config = Config.from_mapping({**values(tmp_path, edges), "problem": "butterflies"})
    with pytest.raises(ConfigError, match="whose runs write no checkpoints"):
        run(config, resume=True)


@pytest.mark.parametrize(
    "sections",
    [
        {"output": {"checkpoint_seconds": None}},
        {"execution": {"engine": "reference"}},
        {"output": {"checkpoint_seconds": 1e6}},
    ],
)
def test_runs_without_checkpoints_leave_nothing(tmp_path, edges, sections) -> None:
    seen = []

    def on_progress(_: object) -> None:
        seen.append(RunStore(tmp_path).unfinished())
        if len(seen) > 20:
            raise Killed

    with pytest.raises(Killed):
        run(config_for(tmp_path, edges, **sections), on_progress=on_progress)
    assert not any(seen)
    assert_nothing_staged(tmp_path)


@SORTED_TOO
def test_a_full_disk_in_the_middle(tmp_path, edges, undisturbed, monkeypatch) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    staging_dir = ended_after(2, config)
    n_kept = len(read_journal(staging_dir)[1])
    is_full = {"value": True}
    real = parts.PartNames.take

    def take(self: parts.PartNames) -> Path:
        return Path("/dev/full") if is_full["value"] else real(self)

    monkeypatch.setattr(parts.PartNames, "take", take)
    with pytest.raises(PublishError, match=r"[Nn]o space left"):
        run(config, resume=True)
    is_full["value"] = False
    assert len(read_journal(staging_dir)[1]) >= n_kept, "saved results stay"
    result = run(config, resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_runs_of_other_processes_are_left_alone(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    staging_dir = ended_after(1, config)
    with RunStore(tmp_path).begin(staging_dir=staging_dir):
        assert [each.is_running for each in list_unfinished(tmp_path)] == [True]
        with (
            pytest.raises(PublishError, match="is being written by another process"),
            RunStore(tmp_path).begin(staging_dir=staging_dir),
        ):
            pass
        assert RunStore(tmp_path).clean() == []
        # Nothing can be resumed, so the run starts over.
        assert run(config, resume=True).manifest.warnings == ()
    assert RunStore(tmp_path).unfinished() == [staging_dir]


def test_another_process_is_quicker(tmp_path, edges, monkeypatch) -> None:
    """The interrupted run is free when it is found, but is being written once the edges are read."""
    config = config_for(tmp_path, edges)
    staging_dir = ended_after(1, config)
    found = iter([staging_dir])
    monkeypatch.setattr(job, "staging_to_resume", lambda *given: next(found, None) or staging_to_resume(*given))
    with RunStore(tmp_path).begin(staging_dir=staging_dir):
        assert run(config, resume=True).manifest.warnings == ()
    assert RunStore(tmp_path).unfinished() == [staging_dir]


def test_expired_runs_are_removed_by_the_next_run(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    staging_dir = ended_after(1, config)
    run(config)
    assert RunStore(tmp_path).unfinished() == [staging_dir]
    run(config_for(tmp_path, edges, output={"keep_unfinished_days": 0}))
    assert_nothing_staged(tmp_path)


@pytest.mark.parametrize(("days", "is_kept"), [(4.9, True), (5.1, False)])
def test_unfinished_runs_are_kept_for_the_configured_days(tmp_path, edges, days, is_kept) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    written = time.time() - days * 24 * 3600
    os.utime(staging_dir / JOURNAL_NAME, (written, written))
    run(config_for(tmp_path, edges, query={"min_left": 3}, output={"keep_unfinished_days": 5}))
    assert RunStore(tmp_path).unfinished() == ([staging_dir] if is_kept else [])


def test_the_commands(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    listed = json.loads(mbe("runs", tmp_path, "--json").stdout)
    (unfinished,) = listed["unfinished"]
    assert unfinished["run"] == str(staging_dir)
    assert unfinished["running"] is False
    assert unfinished["found"] > 0
    said = mbe("runs", tmp_path).stdout
    assert staging_dir.name in said
    assert "--resume" in said
    options = ["--header", "--engine", "cpu", "--out", tmp_path, "--no-report"]
    refused = mbe("enumerate", edges, *options, "--min-left", 2, "--resume")
    assert refused.exit_code == 3
    assert "query.min_left was 1 and is 2" in " ".join(refused.stderr.split())
    assert mbe("enumerate", edges, *options, "--resume").exit_code == 0
    assert "unfinished" not in json.loads(mbe("runs", tmp_path, "--json").stdout)
    ended_after(1, config_for(tmp_path, edges))
    assert "removed" in mbe("clean", tmp_path).stdout
    assert json.loads(mbe("clean", tmp_path, "--json").stdout)["removed"] == []
    assert mbe("enumerate", edges, *options, "--resume", "--count-only").exit_code == 2


def test_only_output_directories_are_cleaned(tmp_path, edges) -> None:
    missing = tmp_path / "nonexistent"
    for place, reason in {missing: "does not exist", edges: "is a file"}.items():
        refused = mbe("clean", place)
        assert refused.exit_code == 3
        assert f"{place}: {reason}; expected an output directory" in " ".join(refused.stderr.split())
    assert not missing.exists()
    assert "nothing to remove" in mbe("clean", tmp_path).stdout


class DeviceThatTakesBarriers(SmallGpu):
    """Stands in for the CUDA engine, with the roots and barriers of the engine `cpu`."""

    TAKES_BARRIER = True

    def run(self, graph, query, execution, detail, tasks=None, *, barrier=None):
        return engine_cpu.run(graph, query, execution, detail, tasks, barrier=barrier)


def test_another_engine_resumes_a_run(tmp_path, edges, undisturbed, monkeypatch) -> None:
    """Between `cuda` and `cpu`, with tables in host memory; each saves more results."""
    engine, load = DeviceThatTakesBarriers(), registry._load
    monkeypatch.setattr(registry, "_load", lambda problem, name: engine if name == "cuda" else load(problem, name))
    output = output_of_run(undisturbed)
    staging_dir = ended_after(1, config_for(tmp_path, edges, output=output, execution={"engine": "cuda"}))
    (n_first,) = (each.n_found for each in list_unfinished(tmp_path))

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        if list_unfinished(tmp_path)[-1].n_found > n_first:
            raise Killed

    with pytest.raises(Killed):
        run(config_for(tmp_path, edges, output=output), on_progress=on_progress, resume=True)
    assert RunStore(tmp_path).unfinished() == [staging_dir]
    result = run(config_for(tmp_path, edges, output=output, execution={"engine": "cuda"}), resume=True)
    assert result.manifest.engine == "cuda"
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
