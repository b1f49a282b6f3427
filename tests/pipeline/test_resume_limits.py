"""Runs ended by a limit and resumed with a larger one: the whole result is published, without duplicates."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mbe_stage import MemoryBudgetExceeded
from mbe_stage.bicliques.cpu.worker import Worker
from mbe_stage.pipeline import Config, PublishError, RunStore, read_manifest, run
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish import staging as publish_module
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.output_support import assert_nothing_staged, assert_sound, published_rows
from tests.pipeline.resume_support import (
    assert_as_undisturbed,
    config_for,
    edges,
    ended_after,
    is_sorted,
    output_of_run,
    undisturbed,
    whatever_they_cost,
)
from tests.pipeline.test_cli import mbe

__all__ = ["edges", "undisturbed", "whatever_they_cost"]


def slowly(_: object, seconds: float = 0.002) -> None:
    """Leave time for checkpoints before the end."""
    time.sleep(seconds)


def keys_of(run_dir: Path) -> set[int]:
    keys = [row["biclique_key"] for row in published_rows(run_dir)]
    assert len(keys) == len(set(keys))
    return set(keys)


def assert_cut(result: RunResult, reason: str, undisturbed: Path) -> None:
    """Assert a sound, truncated run with some of the results, and saved results that can be resumed."""
    assert result.manifest.truncated == reason
    assert_sound(result.run_dir)
    verify_run(result.run_dir)
    assert keys_of(result.run_dir) < keys_of(undisturbed)
    (kept,) = list_unfinished(result.run_dir.parents[1])
    assert 0 < kept.n_found <= result.manifest.n_found
    assert not kept.is_running


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.2, 0.95))])
def test_a_limit_of_results(tmp_path, edges, undisturbed, share) -> None:
    n = read_manifest(undisturbed).counts.bicliques
    output, most = output_of_run(undisturbed), int(share * n)
    limited = config_for(tmp_path, edges, output=output, execution={"max_bicliques": most})
    first = run(limited, on_progress=slowly)
    assert_cut(first, f"stopped at max_bicliques = {most}", undisturbed)
    assert first.manifest.n_found == most
    bytes_before = {path: path.read_bytes() for path in first.run_dir.rglob("*") if path.is_file()}
    # The same limit ends it there again; a larger one ends it later.
    for larger in (most, (most + n) // 2):
        config = config_for(tmp_path, edges, output=output, execution={"max_bicliques": larger})
        again = run(config, on_progress=slowly, resume=True)
        assert_cut(again, f"stopped at max_bicliques = {larger}", undisturbed)
        assert again.manifest.n_found == larger
    result = run(config_for(tmp_path, edges, output=output), resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(tmp_path)
    assert bytes_before == {path: path.read_bytes() for path in first.run_dir.rglob("*") if path.is_file()}


def test_a_limit_below_the_saved_results_is_refused(tmp_path, edges) -> None:
    run(config_for(tmp_path, edges, execution={"max_bicliques": 2000}), on_progress=slowly)
    (kept,) = list_unfinished(tmp_path)
    with pytest.raises(PublishError, match=rf"it already has {kept.n_found:,} results, and execution\.max_bicliques"):
        run(config_for(tmp_path, edges, execution={"max_bicliques": kept.n_found - 1}), resume=True)
    assert RunStore(tmp_path).unfinished() == [kept.staging_dir]
    # A limit of exactly the saved number is accepted.
    result = run(config_for(tmp_path, edges, execution={"max_bicliques": kept.n_found}), resume=True)
    assert result.manifest.n_found == kept.n_found


def test_a_limit_of_time(tmp_path, edges, undisturbed) -> None:
    output = output_of_run(undisturbed)
    n_before, seconds = 0, 0.05
    # The limit is per process, so each one gets further with the same limit.
    for _ in range(8):
        limited = config_for(tmp_path, edges, output=output, execution={"time_limit_seconds": seconds})
        cut = run(limited, on_progress=partial(slowly, seconds=seconds / 25), resume=bool(n_before))
        if cut.manifest.truncated is None:
            break
        if not n_before and not list_unfinished(tmp_path):
            # The machine was too busy for a barrier in time.
            seconds *= 2
            continue
        assert_cut(cut, f"stopped at time_limit_seconds = {seconds}", undisturbed)
        assert cut.manifest.n_found > n_before
        n_before = cut.manifest.n_found
        (kept,) = list_unfinished(tmp_path)
        # The run ended at a barrier, so all published results are saved.
        assert kept.n_found == n_before
    assert n_before
    if RunStore(tmp_path).unfinished():
        cut = run(config_for(tmp_path, edges, output=output), resume=True)
    assert_as_undisturbed(cut.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_a_limit_of_bytes(tmp_path, edges, undisturbed, monkeypatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.execution.output_limit._LOOK_SECONDS", 0.0)
    output = output_of_run(undisturbed)
    limited = config_for(tmp_path, edges, output=output, execution={"max_output_bytes": 60_000})
    cut = run(limited, on_progress=slowly)
    assert_cut(cut, "stopped at max_output_bytes = 60000", undisturbed)
    (kept,) = list_unfinished(tmp_path)
    assert kept.n_found == cut.manifest.n_found, "it ended at a barrier"
    # Existing output counts, so the same limit ends the run at once.
    again = run(limited, on_progress=slowly, resume=True)
    assert again.manifest.truncated == cut.manifest.truncated
    larger = config_for(tmp_path, edges, output=output, execution={"max_output_bytes": "1GB"})
    result = run(larger, resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"problem": "pq_counts"}, r"execution\.max_output_bytes: limits rows .* problem 'pq_counts' has none"),
        ({"groups": {}, "output": {"bicliques": False}}, r"max_output_bytes: .* output\.bicliques leaves them out"),
    ],
)
def test_a_limit_of_bytes_without_output_is_refused(values, message) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_mapping({**values, "execution": {"max_output_bytes": 10}})


class FullBudget:
    """Refuses memory from the `n`-th block on, like a search that has outgrown its budget."""

    def __init__(self, n: int) -> None:
        self.n_left = n

    def in_place_of(self, flush: Any) -> Any:
        def flushed(worker: Any) -> None:
            flush(worker)
            self.n_left -= 1
            if self.n_left < 0:
                raise MemoryBudgetExceeded("the CPU engine needs 9,000 bytes of working memory, more than its budget")

        return flushed


def test_memory_runs_out_in_the_middle(tmp_path, edges, undisturbed, monkeypatch) -> None:
    output, reason = output_of_run(undisturbed), "stopped at the memory budget: the CPU engine needs 9,000 bytes"
    staging_dir = ended_after(1, config_for(tmp_path, edges, output=output))
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_flush", FullBudget(40).in_place_of(Worker._flush))
        failing = config_for(tmp_path, edges, output=output, execution={"on_limit": "fail"})
        with pytest.raises(PublishError, match=rf"{reason}.*execution\.on_limit is 'fail'"):
            run(failing, on_progress=slowly, resume=True)
        assert RunStore(tmp_path).unfinished() == [staging_dir]
        assert RunStore(tmp_path).runs() == []
        patch.setattr(Worker, "_flush", FullBudget(40).in_place_of(Worker._flush))
        cut = run(config_for(tmp_path, edges, output=output), on_progress=slowly, resume=True)
    assert cut.manifest.truncated is not None
    assert cut.manifest.truncated.startswith(reason)
    assert_cut(cut, cut.manifest.truncated, undisturbed)
    larger = config_for(tmp_path, edges, output=output, execution={"memory_budget": "2GiB"})
    result = run(larger, resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_a_run_cut_short_by_memory_is_not_unchanged(tmp_path, edges, monkeypatch) -> None:
    config = config_for(tmp_path, edges)
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_flush", FullBudget(20).in_place_of(Worker._flush))
        assert run(config, on_progress=slowly).manifest.truncated
    again = run(config, if_changed=True)
    assert not again.unchanged
    assert again.manifest.truncated is None
    assert run(config, if_changed=True).unchanged


def test_memory_runs_out_before_the_first_result(tmp_path, edges, monkeypatch) -> None:
    def refused(_worker: Any) -> None:
        raise MemoryBudgetExceeded("the CPU engine needs 9,000 bytes of working memory, more than its budget")

    monkeypatch.setattr(Worker, "_flush", refused)
    with pytest.raises(MemoryBudgetExceeded):
        run(config_for(tmp_path, edges), on_progress=slowly)
    assert RunStore(tmp_path).runs() == []


def test_results_of_a_run_failed_by_a_limit_are_kept(tmp_path, edges, undisturbed) -> None:
    output = output_of_run(undisturbed)
    limited = {"max_bicliques": 2000, "on_limit": "fail"}
    with pytest.raises(PublishError, match=r"max_bicliques = 2000, and execution\.on_limit is 'fail'"):
        run(config_for(tmp_path, edges, output=output, execution=limited), on_progress=slowly)
    assert RunStore(tmp_path).runs() == []
    assert list_unfinished(tmp_path)[0].n_found
    result = run(config_for(tmp_path, edges, output=output, execution={"on_limit": "fail"}), resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_the_published_run_may_be_removed(tmp_path, edges, undisturbed) -> None:
    """Its files have a second name as long as they can be resumed."""
    output = {**output_of_run(undisturbed), "keep_runs": 1}
    cut = run(config_for(tmp_path, edges, output=output, execution={"max_bicliques": 2000}), on_progress=slowly)
    run(config_for(tmp_path, edges, output=output, query={"min_left": 5}))
    assert not cut.run_dir.exists()
    result = run(config_for(tmp_path, edges, output=output), resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_a_file_system_without_hard_links(tmp_path, edges, monkeypatch, caplog) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(publish_module.os, "link", refused)
    cut = run(config_for(tmp_path, edges, execution={"max_bicliques": 2000}), on_progress=slowly)
    assert cut.manifest.truncated
    assert any("Operation not supported" in text for text in caplog.messages)
    assert_nothing_staged(tmp_path)


def test_a_run_is_published_even_if_saved_results_cannot_be_moved(tmp_path, edges, monkeypatch, caplog) -> None:
    usual = publish_module.os.rename

    def refused(source: Path, target: Path) -> None:
        if Path(source).name == publish_module.KEPT:
            raise OSError(28, "No space left on device")
        usual(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(publish_module.os, "rename", refused)
        cut = run(config_for(tmp_path, edges, execution={"max_bicliques": 2000}), on_progress=slowly)
    assert RunStore(tmp_path).latest() == cut.run_dir
    assert any("not in their place yet (No space left on device)" in text for text in caplog.messages)
    (kept,) = list_unfinished(tmp_path)
    resumed = run(config_for(tmp_path, edges), resume=True)
    assert any(f"{kept.n_found:,} results" in text for text in resumed.manifest.warnings)
    assert resumed.manifest.truncated is None
    assert_nothing_staged(tmp_path)


def test_the_commands_name_a_larger_limit(tmp_path, edges) -> None:
    run(config_for(tmp_path, edges, execution={"max_bicliques": 2000}), on_progress=slowly)
    assert "--resume" in mbe("runs", tmp_path).stdout
    options = ["--header", "--engine", "cpu", "--out", tmp_path, "--no-report", "--max-output-bytes", "1GB"]
    assert mbe("enumerate", edges, *options, "--resume").exit_code == 0
    manifest = read_manifest(RunStore(tmp_path).runs()[-1])
    assert manifest.truncated is None
    assert manifest.config.execution.max_output_bytes == 10**9
    assert pq.read_table(RunStore(tmp_path).runs()[-1] / "bicliques").num_rows == manifest.n_found
