"""Reading within a memory budget is resumed after the last saved step; the published tables stay the same."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.flows.enumerate import read_edges as flow_reads
from mbe_stage.pipeline import Config, RunResult, run
from mbe_stage.pipeline.backends.arrow.spooled import SavedState
from mbe_stage.pipeline.clean import core
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import ingest_within as within
from mbe_stage.pipeline.execution import saved_reading
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.saved_reading import SavedSteps
from mbe_stage.pipeline.execution.tiers import tier_named
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.manifest import sha256_of
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.patience import completed
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import Killed, ended_after, whatever_they_cost

__all__ = ["whatever_they_cost"]

MIB = 1 << 20
INPUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "texts": {"input": {"left": "x"}},
    "files": {"input": {"path": "two"}},
    "directory": {"input": {"path": "many"}},
    "by": {"input": {"right": ["v", "w"], "by": "g"}},
    "groups": {
        "input": {"weight": "w", "timestamp": "t", "time_bucket": "1d", "min_weight": 2},
        "groups": {"chance_copies": 1},
    },
}


@pytest.fixture(autouse=True)
def little_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows fit into memory, 250 edges fit into the smallest budget, and there are many parts."""
    monkeypatch.setattr(within, "_ROW_BYTES", MIB)
    monkeypatch.setattr(core, "_EDGE_BYTES", MIB // 250)
    monkeypatch.setattr(core, "_FEWEST_ROWS", 64)


@pytest.fixture
def table() -> pa.Table:
    random = np.random.default_rng(11)
    dense = np.divmod(np.arange(300) % 48, 8)
    left, right = np.append(random.integers(0, 90, 300), dense[0]), np.append(random.integers(0, 60, 300), dense[1])
    seconds = np.append(random.integers(0, 30 * 86_400, 300), random.integers(0, 86_400, 300)) + 1_700_000_000
    columns = {"u": left, "v": right, "w": random.integers(1, 6, 600), "g": left % 2}
    return pa.table(columns | {"x": [f"k{i}" for i in left], "t": pa.array(seconds, pa.timestamp("s"))})


@pytest.fixture
def edges(tmp_path: Path, table: pa.Table) -> Path:
    directory = tmp_path / "input"
    (directory / "many").mkdir(parents=True)
    pq.write_table(table, directory / "e.parquet")
    for number, half in enumerate((table.slice(0, 250), table.slice(250))):
        csv.write_csv(half, directory / f"{number}.csv")
        pq.write_table(half, directory / "many" / f"{number}.parquet")
    return directory / "e.parquet"


def config_of(edges: Path, out: Path, budget: int | None = MIB, **others: Any) -> Config:
    given = {"path": str(edges), "left": "u", "right": "v", **others.pop("input", {})}
    paths: dict[str, object] = {"two": [str(edges.parent / f"{k}.csv") for k in range(2)]}
    given["path"] = paths.get(given["path"], str(edges.parent / given["path"]))
    values = {
        "input": given,
        "query": {"min_left": 4, "min_right": 4},
        "execution": {"engine": "cpu", "threads": 1, "block_bytes": 1024, "memory_budget": budget},
        "output": {"directory": str(out), "checkpoint_seconds": 1e-6, "sort": True},
    }
    return Config.model_validate({**values, **others})


def killed_after(monkeypatch: pytest.MonkeyPatch, n_steps: int, config: Config) -> None:
    """End a run after its `n_steps`-th step, which is saved by then."""
    saved, save = list[str](), SavedSteps.save

    def then_end(self: SavedSteps, step: str, state: SavedState) -> None:
        save(self, step, state)
        saved.append(step)
        if len(saved) == n_steps:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SavedSteps, "save", then_end)
        with pytest.raises(Killed):
            run(config)


def staging_of(config: Config) -> Path:
    """Return the staging directory of the only unfinished run."""
    (unfinished,) = list_unfinished(str(config.output.directory))
    return unfinished.staging_dir


# What a run resumed after so many steps does not repeat.
REPEATED = {1: [(within, "read_edges")], 2: [(core.NumberedRows, "parts"), (core, "leave_out_pairs")]}


def resumed(monkeypatch: pytest.MonkeyPatch, n_steps: int, config: Config) -> RunResult:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a saved step is repeated")

    with monkeypatch.context() as patch:
        for owner, name in (each for n in range(1, n_steps + 1) for each in REPEATED[n]):
            patch.setattr(owner, name, refuse)
        return run(config, resume=True)


def assert_same(found: RunResult, whole: RunResult) -> None:
    one, other = found.manifest, whole.manifest
    assert one.content_fingerprint == other.content_fingerprint
    assert (one.counts, one.derived) == (other.counts, other.derived)
    assert replace(one.input, n_edges_held=None) == replace(other.input, n_edges_held=None)
    names = [sorted(each.path for each in of.files if each.path.endswith(".parquet")) for of in (one, other)]
    assert names[0] == names[1]
    for name in names[0]:
        first, second = (pq.read_table(of.run_dir / name) for of in (found, whole))
        unknown = [] if one.input.n_edges_held is None else ["two_hop_degree"]
        first, second = (
            of.drop_columns([name for name in unknown if name in of.column_names]) for of in (first, second)
        )
        assert first.equals(second), name


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("n_steps", [1, 2])
def test_saved_steps_are_not_repeated(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, kind: str, n_steps: int
) -> None:
    whole = run(config_of(edges, tmp_path / "whole", None, **INPUTS[kind]))
    # Groups need every edge, so none are left out.
    config = config_of(edges, tmp_path / "out", 16 * MIB if kind == "groups" else MIB, **INPUTS[kind])
    # Edges of later buckets are a step of their own.
    killed_after(monkeypatch, n_steps + (kind == "groups" and n_steps == 2), config)
    assert_same(resumed(monkeypatch, n_steps, config), whole)
    assert_nothing_staged(tmp_path / "out")


def test_a_run_that_is_killed_goes_on(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(config_of(edges, tmp_path / "whole", None))
    config = config_of(edges, tmp_path / "out", 16 * MIB)
    code = f"""
import os, signal
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.execution import ingest_within, saved_reading

ingest_within._ROW_BYTES = {MIB}
save = saved_reading.SavedSteps.save
saved_reading.SavedSteps.save = lambda *given: (save(*given), os.kill(os.getpid(), signal.SIGKILL))
run(Config.model_validate_json({config.model_dump_json()!r}))
"""
    assert completed([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (unfinished,) = list_unfinished(str(tmp_path / "out"))
    assert not unfinished.records
    assert_same(resumed(monkeypatch, 1, config), whole)


def dense(path: Path) -> Path:
    """Write a graph of thousands of bicliques."""
    left, right = np.nonzero(np.random.default_rng(4).random((20, 20)) < 0.8)
    pq.write_table(pa.table({"u": left, "v": right}), path)
    return path


def test_a_search_that_is_resumed_reads_nothing(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"query": {"min_left": 1, "min_right": 1}}
    config = config_of(dense(edges), tmp_path / "out", 16 * MIB, **everything)
    ended_after(2, config)
    found = resumed(monkeypatch, 2, config)
    assert "was interrupted and resumed" in found.manifest.warnings[0]
    assert_same(found, run(config_of(edges, tmp_path / "whole", None, **everything)))


def test_a_refused_run_goes_on_with_a_larger_budget(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"query": {"min_left": 1, "min_right": 1}}
    with pytest.raises(MemoryBudgetExceeded, match="can matter to a result") as refused:
        run(config_of(edges, tmp_path / "out", **sizes))
    larger = config_of(edges, tmp_path / "out", refused.value.needed_bytes, **sizes)
    assert_same(resumed(monkeypatch, 2, larger), run(config_of(edges, tmp_path / "whole", None, **sizes)))


def test_a_smaller_budget_leaves_out_edges_that_were_saved(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(monkeypatch, 2, config_of(edges, tmp_path / "out", 16 * MIB))
    found = resumed(monkeypatch, 1, config_of(edges, tmp_path / "out"))
    assert found.manifest.input.n_edges_held is not None
    assert_same(found, run(config_of(edges, tmp_path / "whole", None)))


def test_other_content_of_the_same_size_and_time_is_read(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = edges.with_name("0.csv")
    before = path.stat()
    config = config_of(path, tmp_path / "out")
    killed_after(monkeypatch, 2, config)
    path.write_text(path.read_text().replace("7,", "8,"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert_same(run(config, resume=True), run(config_of(path, tmp_path / "whole", None)))


@pytest.mark.parametrize("n_steps", [1, 2])
@pytest.mark.parametrize(
    "others",
    [
        {"input": {"left": "x"}},
        {"input": {"right": ["v", "g"]}},
        {"input": {"weight": "w", "min_weight": 4}},
        {"input": {"timestamp": "t", "time_from": "2023-11-20"}},
    ],
    ids=lambda others: next(iter(others["input"])),
)
def test_other_settings_are_read_anew(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, n_steps: int, others: dict[str, Any]
) -> None:
    killed_after(monkeypatch, n_steps, config_of(edges, tmp_path / "out"))
    found = run(config_of(edges, tmp_path / "out", 16 * MIB, **others), resume=True)
    assert_same(found, run(config_of(edges, tmp_path / "whole", None, **others)))


def test_results_go_before_a_newer_run_that_has_only_read(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(dense(edges), tmp_path / "out", 16 * MIB, query={"min_left": 1, "min_right": 1})
    ended_after(2, config)
    killed_after(monkeypatch, 1, config)
    assert "was interrupted and resumed" in run(config, resume=True).manifest.warnings[0]


def test_a_file_that_comes_while_others_are_read_is_read_by_the_resumed_run(
    tmp_path: Path, edges: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, read = edges.parent / "many", within.read_edges

    def after_another_comes(*given: Any, **how: Any) -> Any:
        pq.write_table(table.slice(100, 50), many / "2.parquet")
        return read(*given, **how)

    config = config_of(edges, tmp_path / "out", input={"path": "many"})
    with monkeypatch.context() as patch:
        patch.setattr(within, "read_edges", after_another_comes)
        killed_after(patch, 1, config)
    (many / "2.parquet").unlink()
    assert_same(run(config, resume=True), run(config_of(edges, tmp_path / "whole", None, input={"path": "many"})))


def test_a_file_that_changes_while_it_is_read_is_not_saved(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number_rows = within.number_rows

    def then_write(*given: Any) -> Any:
        numbered = number_rows(*given)
        edges.touch()
        return numbered

    monkeypatch.setattr(within, "number_rows", then_write)
    killed_after(monkeypatch, 1, config_of(edges, tmp_path / "out"))
    assert_nothing_staged(tmp_path / "out")


def in_place_of(path: Path, column: pa.Array) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema([("", column.type)])) as writer:
        writer.write_batch(pa.record_batch([column], [""]))


COLUMNS = {
    "beyond all keys": (4, pa.array(np.full(600, 1 << 20, np.int32))),
    "shorter": (4, pa.array(np.zeros(599, np.int32))),
    "of another type": (2, pa.array(np.zeros(600))),
    "wider": (2, pa.array(np.full(600, 1 << 32))),
    "keys with nulls": (3, pa.array([None] * 87, pa.int64())),
    "keys of another type": (3, pa.array(np.zeros(87))),
    "equal keys": (5, pa.array(np.zeros(60, np.int64))),
}


@pytest.mark.parametrize("damage", ["other bytes", "cut", "gone", "link", "facts", *COLUMNS])
def test_damaged_steps_are_repeated(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    config = config_of(edges, tmp_path / "out")
    whole = run(config_of(edges, tmp_path / "whole", None))
    killed_after(monkeypatch, 2, config)
    staging_dir = staging_of(config)
    names = [
        None if entry is None else staging_dir / entry.path
        for entry in read_journal(staging_dir)[0].reading["rows"].files
    ]
    number, column = COLUMNS.get(damage, (4, None))
    path = names[number]
    assert path is not None
    if column is not None:
        in_place_of(path, column)
        # With the right checksum.
        with_header(staging_dir, lambda _: None)
    elif damage == "other bytes":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "link":
        shutil.move(path, tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    elif damage == "gone":
        path.unlink()
    else:
        with_header(staging_dir, lambda steps: steps["rows"]["facts"].clear())
    assert_same(run(config, resume=True), whole)
    assert len([each for each in caplog.messages if "cannot be used and are made again" in each]) == 1
    assert_nothing_staged(tmp_path / "out")


def with_header(staging_dir: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the saved steps in a journal, with right checksums."""
    text = (staging_dir / JOURNAL_NAME).read_bytes().splitlines()[0].partition(b" ")[2]
    header = json.loads(text)
    change(header["reading"])
    for step in header["reading"].values():
        for entry in filter(None, step["files"]):
            path = staging_dir / entry["path"]
            if path.is_file():
                entry.update(bytes=path.stat().st_size, sha256=sha256_of(path))
    text = json.dumps(header).encode()
    (staging_dir / JOURNAL_NAME).write_bytes(b"%08x %s\n" % (zlib.crc32(text), text))


def test_paths_that_lead_out_are_not_followed(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim.arrow"
    config = config_of(edges, tmp_path / "out")
    killed_after(monkeypatch, 1, config)
    staging_dir = staging_of(config)
    entry = read_journal(staging_dir)[0].reading["rows"].files[2]
    assert entry is not None
    shutil.copy(staging_dir / entry.path, victim)

    def lead_out(steps: dict[str, Any]) -> None:
        steps["rows"]["files"][2]["path"] = f"read/{os.path.relpath(victim, staging_dir / 'read')}"

    with_header(staging_dir, lead_out)
    assert_same(run(config, resume=True), run(config_of(edges, tmp_path / "whole", None)))
    assert victim.exists()


def test_a_link_in_place_of_the_directory_is_refused(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, other = config_of(edges, tmp_path / "out"), tmp_path / "other"
    killed_after(monkeypatch, 1, config)
    (other / "kept").mkdir(parents=True)
    shutil.rmtree(staging_of(config) / "read")
    (staging_of(config) / "read").symlink_to(other)
    assert_same(run(config, resume=True), run(config_of(edges, tmp_path / "whole", None)))
    assert [each.name for each in other.iterdir()] == ["kept"]


def test_an_unfinished_reading_is_listed_and_removed(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(monkeypatch, 1, config_of(edges, tmp_path / "out"))
    listed, cleaned = (CliRunner().invoke(app.app, [name, str(tmp_path / "out")]) for name in ("runs", "clean"))
    assert "finished steps of reading are saved; continue with --resume" in " ".join(listed.output.split())
    assert cleaned.exit_code == 0
    assert_nothing_staged(tmp_path / "out")


def test_nothing_stays_that_cannot_be_resumed(tmp_path: Path, edges: Path) -> None:
    unknown = {"query": {"min_left": 4, "min_right": 4, "containing_left": [999]}}
    with pytest.raises(InputError, match="999"):
        run(config_of(edges, tmp_path / "out", **unknown))
    assert_nothing_staged(tmp_path / "out")
    first = run(config_of(edges, tmp_path / "out"))
    again = run(config_of(edges, tmp_path / "out"), if_changed=True)
    assert again.unchanged
    assert again.run_dir == first.run_dir
    assert_nothing_staged(tmp_path / "out")


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_nothing_is_saved_before_checkpoints_are_due(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    monkeypatch.setattr(SavedSteps, "_write", lambda *_: pytest.fail("saved"))
    run(config_of(edges, tmp_path / "out", output={"directory": str(tmp_path / "out"), "checkpoint_seconds": seconds}))


@pytest.mark.parametrize("failure", ["gone", "full disk"])
def test_a_run_goes_on_if_steps_cannot_be_saved(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: str
) -> None:
    whole = run(config_of(edges, tmp_path / "whole", None))
    number_rows, write, saved = within.number_rows, saved_reading._written, list[Path]()

    def then_remove(*given: Any) -> Any:
        numbered = number_rows(*given)
        edges.unlink()
        return numbered

    def until_full(staging_dir: Path, path: Path, array: Any) -> Any:
        entry = write(staging_dir, path, array)
        saved.append(path)
        if len(saved) % 3 == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return entry

    if failure == "gone":
        monkeypatch.setattr(within, "number_rows", then_remove)
    else:
        monkeypatch.setattr(saved_reading, "_written", until_full)
    assert_same(run(config_of(edges, tmp_path / "out")), whole)
    assert len([each for each in caplog.messages if "are not saved for --resume" in each]) == 2
    assert not any(path.exists() for path in saved)
    assert_nothing_staged(tmp_path / "out")


def test_a_full_temporary_directory_leaves_what_is_saved(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def then_full(core: Any, *_: object) -> None:
        patch.setattr(os, "posix_fallocate", full)
        core._edges[0].more(1)

    config = config_of(edges, tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(core._Core, "add", then_full)
        with pytest.raises(InputError, match="set TMPDIR to a larger disk"):
            run(config)
    assert_same(resumed(monkeypatch, 1, config), run(config_of(edges, tmp_path / "whole", None)))


def test_a_flow_that_reads_again_goes_on(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "run" / "scratch"
    (tmp_path / "run" / "run").mkdir(parents=True)
    scratch.mkdir()
    config, tier = config_of(edges, tmp_path / "out"), tier_named("cpu", "bicliques", ())
    first = flow_reads(config, str(scratch), tier)["facts"]
    for owner, name in (each for of_step in REPEATED.values() for each in of_step):
        monkeypatch.setattr(owner, name, lambda *_: pytest.fail("a saved step is repeated"))
    assert flow_reads(config, str(scratch), tier)["facts"] == first
