"""Reading within a memory budget is resumed behind the last saved step; the published tables stay the same."""

from __future__ import annotations

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
from mbe_stage.pipeline.execution.saved_reading import _Saved
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
    """End a run behind its `n_steps`-th step, which is saved by then."""
    saved, save = list[str](), _Saved.save

    def then_end(self: _Saved, step: str, state: SavedState) -> None:
        save(self, step, state)
        saved.append(step)
        if len(saved) == n_steps:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(_Saved, "save", then_end)
        with pytest.raises(Killed):
            run(config)


def staging_of(config: Config) -> Path:
    """Return the staging directory of the only unfinished run."""
    (unfinished,) = list_unfinished(str(config.output.directory))
    return unfinished.staging_dir


# What a run resumed behind so many steps does not repeat.
REPEATED = {1: [(within, "read_edges")], 2: [(core.NumberedRows, "parts"), (core, "leave_out_pairs")]}


def resumed(monkeypatch: pytest.MonkeyPatch, n_steps: int, config: Config) -> RunResult:
    def refuse(*_: object) -> None:
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
    killed_after(monkeypatch, n_steps, config)
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
save = saved_reading._Saved.save
saved_reading._Saved.save = lambda *given: (save(*given), os.kill(os.getpid(), signal.SIGKILL))
run(Config.model_validate_json({config.model_dump_json()!r}))
"""
    assert completed([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    (unfinished,) = list_unfinished(str(tmp_path / "out"))
    assert not unfinished.records
    assert_same(resumed(monkeypatch, 1, config), whole)


def test_a_search_that_is_resumed_reads_nothing(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"query": {"min_left": 1, "min_right": 1}}
    config = config_of(edges, tmp_path / "out", 16 * MIB, **everything)
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


@pytest.mark.parametrize("damage", ["other bytes", "cut", "gone", "link", "column", "facts"])
def test_damaged_steps_are_repeated(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    config = config_of(edges, tmp_path / "out")
    whole = run(config_of(edges, tmp_path / "whole", None))
    killed_after(monkeypatch, 2, config)
    staging_dir = staging_of(config)
    reading = read_journal(staging_dir)[0].reading
    assert reading is not None
    for step in reading.steps.values():
        # Right ids of the rows, and of the edges.
        entry = step.files[-2 if len(step.files) == 6 else 1]
        assert entry is not None
        path = staging_dir / entry.path
        if damage == "other bytes":
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
        elif damage == "column":
            # Ids beyond all keys, with the right checksum.
            column = pa.array(np.full(600, 1 << 20, np.int32))
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema([("", column.type)])) as writer:
                writer.write_batch(pa.record_batch([column], [""]))
    if damage == "column":
        with_header(staging_dir, lambda _: None)
    if damage == "facts":
        with_header(staging_dir, lambda steps: [step["facts"].clear() for step in steps.values()])
    assert_same(run(config, resume=True), whole)
    assert len([each for each in caplog.messages if "cannot be used and are made again" in each]) == 2
    assert_nothing_staged(tmp_path / "out")


def with_header(staging_dir: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the saved steps in a journal, with right checksums."""
    text = (staging_dir / JOURNAL_NAME).read_bytes().splitlines()[0].partition(b" ")[2]
    header = json.loads(text)
    change(header["reading"]["steps"])
    for step in header["reading"]["steps"].values():
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
    reading = read_journal(staging_dir)[0].reading
    assert reading is not None
    entry = reading.steps["rows"].files[2]
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
    assert "parts of reading are kept; continue with --resume" in " ".join(listed.output.split())
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


def test_nothing_is_saved_without_checkpoints(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Saved, "save", lambda *_: pytest.fail("saved"))
    run(config_of(edges, tmp_path / "out", output={"directory": str(tmp_path / "out"), "checkpoint_seconds": None}))
    monkeypatch.undo()
    monkeypatch.setattr(saved_reading, "_written", lambda *_: pytest.fail("saved"))
    run(config_of(edges, tmp_path / "out", output={"directory": str(tmp_path / "out"), "checkpoint_seconds": 60.0}))


def test_a_flow_that_reads_again_goes_on(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "run" / "scratch"
    (tmp_path / "run" / "run").mkdir(parents=True)
    scratch.mkdir()
    config, tier = config_of(edges, tmp_path / "out"), tier_named("cpu", "bicliques", ())
    first = flow_reads(config, str(scratch), tier)["facts"]
    for owner, name in (each for of_step in REPEATED.values() for each in of_step):
        monkeypatch.setattr(owner, name, lambda *_: pytest.fail("a saved step is repeated"))
    assert flow_reads(config, str(scratch), tier)["facts"] == first
