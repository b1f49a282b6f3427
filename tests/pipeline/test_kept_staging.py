"""An interrupted run's staging directory keeps what its journal names, and nothing else that fills the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mbe_stage.pipeline import Config, PublishError, RunStore, run
from mbe_stage.pipeline.errors import RunIsBeingWritten
from mbe_stage.pipeline.execution.journal import Journal, read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from mbe_stage.pipeline.publish.staging import Staging
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.pipeline.resume_support import Killed, config_for, edges, ended_after, values, whatever_they_cost

__all__ = ["edges", "whatever_they_cost"]


def booked(staging_dir: Path) -> set[str]:
    return {entry.path for record in read_journal(staging_dir)[1] for entry in record.files}


def files_in(staging_dir: Path) -> set[str]:
    """Return the files that fill a disk: all but the lock and the journal."""
    paths = (path.relative_to(staging_dir) for path in staging_dir.rglob("*") if not path.is_dir())
    return {path.as_posix() for path in paths} - {".lock", JOURNAL_NAME}


def add_leftovers(staging_dir: Path) -> list[Path]:
    """Add the leftovers of a killed process: an open part, the edges of a flow, a spill, half a journal."""
    names = (f"{staging_dir.name}/bicliques/part-00099.parquet", "scratch/edges.arrow", "sort/spill-00099.arrow")
    paths = [staging_dir / name for name in (*names, f"{JOURNAL_NAME}.new")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"what nobody has booked")
    return paths


@pytest.mark.parametrize(
    "sections",
    [{}, {"output": {"sort": True}}, {"output": {"bicliques": False}, "groups": {}}],
    ids=["as found", "sorted", "sums"],
)
def test_an_interrupted_run_keeps_recorded_files(tmp_path, edges, sections) -> None:
    staging_dir = ended_after(1, Config.from_mapping({**sections, **values(tmp_path, edges, **sections)}))
    kept = booked(staging_dir)
    assert files_in(staging_dir) == kept != set()
    with RunStore(tmp_path).begin(staging_dir=staging_dir):
        add_leftovers(staging_dir)
    assert files_in(staging_dir) == kept


def test_a_run_ended_by_a_limit_keeps_recorded_files(tmp_path, edges) -> None:
    result = run(config_for(tmp_path, edges, execution={"max_bicliques": 2000}))
    assert result.manifest.truncated is not None
    (staging_dir,) = RunStore(tmp_path).unfinished()
    assert files_in(staging_dir) == booked(staging_dir)
    assert not (staging_dir / "scratch").exists()


@pytest.mark.parametrize("sort", [False, True], ids=["as found", "sorted"])
def test_a_truncated_run_killed_after_its_move_can_be_resumed(tmp_path, edges, monkeypatch, sort) -> None:
    output, limit = {"sort": sort}, {"max_bicliques": 2000}
    with monkeypatch.context() as patched:
        for removal in ("_keep", "_remove"):
            patched.setattr(Staging, removal, killed)
        with pytest.raises(Killed):
            run(config_for(tmp_path, edges, output=output, execution=limit))
    (published,) = RunStore(tmp_path).runs()
    (unfinished,) = list_unfinished(tmp_path)
    assert unfinished.n_found > 0
    assert not (unfinished.staging_dir / unfinished.staging_dir.name).exists()
    # The next run leaves it alone.
    undisturbed = run(config_for(tmp_path, edges, output=output)).manifest
    assert RunStore(tmp_path).unfinished() == [unfinished.staging_dir]
    resumed = run(config_for(tmp_path, edges, output=output), resume=True)
    assert any(f"{unfinished.n_found:,} results" in text for text in resumed.manifest.warnings)
    assert resumed.manifest.content_fingerprint == undisturbed.content_fingerprint
    assert_sound(published)
    assert_nothing_staged(tmp_path)


def test_leftovers_of_a_killed_process_are_removed_first(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    add_leftovers(staging_dir)
    with RunStore(tmp_path).begin(staging_dir=staging_dir) as staging:
        assert files_in(staging_dir) == booked(staging_dir)
        assert list(staging.scratch.iterdir()) == []


def test_nothing_is_removed_while_another_process_writes(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    with RunStore(tmp_path).begin(staging_dir=staging_dir):
        paths = add_leftovers(staging_dir)
        with pytest.raises(RunIsBeingWritten), RunStore(tmp_path).begin(staging_dir=staging_dir):
            pass
        assert all(path.exists() for path in paths)


def test_nothing_is_removed_if_the_journal_is_unreadable(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    journal = staging_dir / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes()[3:])
    before = files_in(staging_dir)
    with RunStore(tmp_path).begin(staging_dir=staging_dir):
        pass
    assert files_in(staging_dir) == before != set()


def test_a_file_that_cannot_be_removed_does_not_hide_the_error(tmp_path, edges, monkeypatch, caplog) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))

    def end() -> None:
        add_leftovers(staging_dir)
        monkeypatch.setattr(Path, "unlink", refused(errno.EROFS))
        raise Killed

    with pytest.raises(Killed), RunStore(tmp_path).begin(staging_dir=staging_dir):
        end()
    assert any("could not be removed (Read-only file system)" in text for text in caplog.messages)


def test_an_unwritable_journal_is_reported(tmp_path, edges, monkeypatch) -> None:
    """The error comes after the removal of damaged files, which frees space."""
    config = config_for(tmp_path, edges)
    staging_dir = ended_after(2, config)
    first = staging_dir / read_journal(staging_dir)[1][0].files[0].path
    first.write_bytes(b"damaged")
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "write", refused(errno.ENOSPC))
        with pytest.raises(PublishError, match=rf"{staging_dir}: cannot be written \(No space left on device\)"):
            run(config, resume=True)
    assert not first.exists()
    run(config, resume=True)
    assert_nothing_staged(tmp_path)


def test_starting_over_removes_files_and_links(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path, edges))
    with RunStore(tmp_path).begin(staging_dir=staging_dir) as staging:
        (staging.scratch / "edges.arrow").touch()
        left = staging_dir / f"{JOURNAL_NAME}.new"
        left.write_bytes((staging_dir / JOURNAL_NAME).read_bytes())
        (staging_dir / "latest").symlink_to(staging.path)
        staging.begin_anew()
        assert sorted(path.name for path in staging_dir.iterdir()) == [".lock", staging_dir.name, "scratch"]
        assert list(staging.path.iterdir()) == []
        assert files_in(staging_dir) == {"scratch/edges.arrow"}
    assert_nothing_staged(tmp_path)


def killed(*_: object) -> None:
    raise Killed


def refused(code: int):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse
