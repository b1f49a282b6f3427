"""Publication: what readers see and when, what is refused and how, and what is cleaned up."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from mbe_stage.pipeline import PublishError, RunStore, read_manifest, resolve_run
from mbe_stage.pipeline.errors import exit_code
from mbe_stage.pipeline.execution import job
from mbe_stage.pipeline.execution import steps as steps_module
from mbe_stage.pipeline.execution.steps import enumerate_to, find_unchanged, finish
from mbe_stage.pipeline.publish import staging as publish_module
from mbe_stage.pipeline.publish.new_directory import check_free
from mbe_stage.pipeline.publish.run_files import next_run_id
from mbe_stage.pipeline.views.export import csv_output
from tests.patience import PATIENCE, completed
from tests.pipeline.output_support import (
    assert_nothing_staged,
    assert_sound,
    crown_pairs,
    edge_data,
    expected_set,
    publish,
    published_set,
    random_pairs,
    settings,
)


def fill(staging, text: str = "{}") -> None:
    (staging.path / "manifest.json").write_text(text)


def test_layout_of_a_published_run(tmp_path):
    run_dir = publish(edge_data(random_pairs(0)), settings(tmp_path))
    assert run_dir.parent == tmp_path / "runs"
    assert os.readlink(tmp_path / "latest") == f"runs/{run_dir.name}"
    assert RunStore(tmp_path).latest() == run_dir
    assert RunStore(tmp_path).runs() == [run_dir]
    assert read_manifest(run_dir).run_id == run_dir.name
    assert_sound(run_dir)
    assert_nothing_staged(tmp_path)


def test_an_unpublished_run_leaves_nothing(tmp_path):
    with RunStore(tmp_path).begin() as staging:
        fill(staging)
        assert (staging.path / "manifest.json").exists()
    assert RunStore(tmp_path).runs() == []
    assert RunStore(tmp_path).latest() is None
    assert_nothing_staged(tmp_path)


def test_publishing_needs_a_manifest(tmp_path):
    with RunStore(tmp_path).begin() as staging, pytest.raises(PublishError, match=r"no manifest\.json"):
        staging.publish()
    assert RunStore(tmp_path).runs() == []


def test_begin_removes_only_abandoned_staging(tmp_path):
    store = RunStore(tmp_path)
    dead = tmp_path / ".staging/20200101T000000Z-aaaaaa"
    (dead / dead.name / "bicliques").mkdir(parents=True)
    (dead / ".lock").touch()
    half_removed = tmp_path / ".staging/20200101T000000Z-bbbbbb-expired"
    half_removed.mkdir()
    with store.begin() as living:
        assert not dead.exists()
        assert not half_removed.exists()
        with store.begin() as other:
            assert living.path.is_dir()
            fill(other)
            last = other.publish()
        fill(living)
        first = living.publish()
    assert store.runs() == sorted([first, last])
    assert store.latest() == first, "the last to publish is the latest, whichever began first"
    assert_nothing_staged(tmp_path)


@pytest.mark.parametrize(
    ("call", "nth"), [*(("mkdir", nth) for nth in range(4)), *(("flock", nth) for nth in range(3)), ("rmtree", 0)]
)
def test_ctrl_c_while_staging_is_created_or_removed(tmp_path, monkeypatch, call, nth):
    """Ctrl-C arrives right after a system call has done its work."""
    store, calls, place = RunStore(tmp_path), 0, {"mkdir": Path, "flock": fcntl, "rmtree": shutil}[call]
    real = getattr(place, call)

    def interrupted(*arguments, **options):
        nonlocal calls
        result = real(*arguments, **options)
        calls += 1
        if calls == nth + 1:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(place, call, interrupted)
    with suppress(KeyboardInterrupt), store.begin() as staging:
        fill(staging)
    assert_nothing_staged(tmp_path)
    assert calls > nth
    with store.begin() as staging:
        fill(staging)
        staging.publish()
    assert_nothing_staged(tmp_path)


def test_many_writers_at_once(tmp_path):
    store = RunStore(tmp_path)

    def write(_: int) -> Path:
        with store.begin() as staging:
            fill(staging)
            return staging.publish()

    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(write, range(40)))
    assert store.runs() == sorted(runs)
    assert store.latest() in runs
    assert_nothing_staged(tmp_path)


def test_keep_runs_removes_the_oldest_and_never_the_latest(tmp_path):
    edges = edge_data(random_pairs(0))
    published = [publish(edges, settings(tmp_path)) for _ in range(3)]
    # The latest run may have begun first.
    store = RunStore(tmp_path)
    with store.begin() as early:
        fill(early)
        other = publish(edges, settings(tmp_path))
        latest = early.publish(keep_runs=2)
    assert store.latest() == latest
    assert len(store.runs()) == 2
    assert latest in store.runs()
    assert max([*published, other]) in store.runs()
    assert_nothing_staged(tmp_path)


def test_keep_one(tmp_path):
    runs = [publish(edge_data(random_pairs(0)), settings(tmp_path, output={"keep_runs": 1})) for _ in range(3)]
    assert RunStore(tmp_path).runs() == runs[-1:]
    assert_sound(tmp_path / "latest")


def test_a_published_run_is_not_denied_when_an_old_one_cannot_be_removed(tmp_path, monkeypatch):
    edges = edge_data(random_pairs(0))
    first = publish(edges, settings(tmp_path))
    real_rename = os.rename

    def refuse(source, target):
        if source == first:
            raise PermissionError(errno.EACCES, "Permission denied", str(source))
        real_rename(source, target)

    monkeypatch.setattr(publish_module.os, "rename", refuse)
    with pytest.raises(PublishError, match=r"runs/.* is published, but older runs could not be removed"):
        publish(edges, settings(tmp_path, output={"keep_runs": 1}))
    assert len(RunStore(tmp_path).runs()) == 2
    assert RunStore(tmp_path).latest() != first
    assert_nothing_staged(tmp_path)


def test_a_published_run_is_not_denied_when_the_pointer_cannot_be_synced(tmp_path, monkeypatch):
    real_sync = publish_module.sync
    synced = []

    def fail_once(path):
        if path == tmp_path:
            synced.append(path)
            if len(synced) == 1:
                raise OSError(errno.EIO, "Input/output error", str(path))
        real_sync(path)

    monkeypatch.setattr(publish_module, "sync", fail_once)
    store = RunStore(tmp_path)
    with store.begin() as staging:
        fill(staging)
        with pytest.raises(PublishError, match=r"runs/.* is published, but may not survive a power failure") as raised:
            staging.publish()
        assert "nothing was published" not in str(raised.value)
        assert staging.publish() == store.latest()
    assert len(synced) == 2, "the second attempt syncs what the first could not"
    assert store.runs() == [store.latest()]
    assert_nothing_staged(tmp_path)


def test_publishing_again_after_a_failed_removal_removes(tmp_path, monkeypatch):
    edges = edge_data(random_pairs(0))
    first = publish(edges, settings(tmp_path))
    real_rename = os.rename

    def fail_once(source, target):
        if source == first:
            monkeypatch.setattr(publish_module.os, "rename", real_rename)
            raise OSError(errno.EIO, "Input/output error", str(source))
        real_rename(source, target)

    monkeypatch.setattr(publish_module.os, "rename", fail_once)
    with RunStore(tmp_path).begin() as staging:
        fill(staging)
        with pytest.raises(PublishError, match="is published, but"):
            staging.publish(keep_runs=1)
        run_dir = staging.publish(keep_runs=1)
    assert RunStore(tmp_path).latest() == run_dir
    assert RunStore(tmp_path).runs() == [run_dir]
    assert_nothing_staged(tmp_path)


def test_everything_is_synced_before_it_is_seen(tmp_path, monkeypatch):
    """Files, their directories and the run's name are durable before `latest` moves."""
    events: list[tuple[str, str]] = []
    names: dict[int, str] = {}
    real_open, real_fsync, real_rename, real_replace = os.open, os.fsync, os.rename, os.replace

    def spy_open(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        names[descriptor] = os.fspath(path)
        return descriptor

    monkeypatch.setattr(os, "open", spy_open)
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append(("sync", names[fd])), real_fsync(fd))[1])
    monkeypatch.setattr(os, "rename", lambda a, b: (events.append(("rename", os.fspath(b))), real_rename(a, b))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(("replace", os.fspath(b))), real_replace(a, b))[1])
    run_dir = publish(edge_data(random_pairs(0)), settings(tmp_path))
    seen = events.index(("rename", str(run_dir)))
    moved = events.index(("replace", str(tmp_path / "latest")))
    synced = {Path(path).name for kind, path in events[:seen] if kind == "sync"}
    staged = Path(next(path for kind, path in events if kind == "sync" and path.endswith("manifest.json"))).parent
    assert {path.name for path in run_dir.rglob("*")} | {staged.name} <= synced
    assert seen < events.index(("sync", str(tmp_path / "runs"))) < moved
    assert moved < events.index(("sync", str(tmp_path)))


def test_a_failure_between_the_two_renames_takes_the_run_back(tmp_path, monkeypatch):
    first = publish(edge_data(random_pairs(0)), settings(tmp_path))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "latest"))

    monkeypatch.setattr(publish_module.os, "replace", full)
    with pytest.raises(PublishError, match="No space left"):
        publish(edge_data(random_pairs(1)), settings(tmp_path))
    assert RunStore(tmp_path).runs() == [first]
    assert RunStore(tmp_path).latest() == first
    assert_nothing_staged(tmp_path)


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_in_the_way(tmp_path, below):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(PublishError, match=r"out: cannot be written \(Not a directory\).*another output directory"):
        RunStore(tmp_path / "out" / below).begin()
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("place", ["runs", "latest", "latest/bicliques", "runs/another", "latest/../new"])
def test_nothing_is_written_into_published_runs(tmp_path, place):
    run_dir = publish(edge_data(random_pairs(0)), settings(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    lies = re.escape(f"lies in {tmp_path / 'runs'}, the directory of published runs; ")
    with pytest.raises(PublishError, match=lies):
        RunStore(tmp_path / place).check_writable()
    with pytest.raises(PublishError, match=lies):
        check_free(tmp_path / place)
    with pytest.raises(PublishError, match=lies), csv_output(tmp_path / place / "members.csv"):
        pytest.fail("opened")
    with pytest.raises(PublishError, match=lies), csv_output(run_dir / "report.html"):
        pytest.fail("opened")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_named_runs_is_an_ordinary_place(tmp_path):
    place = tmp_path / "runs" / "mine"
    (tmp_path / "latest").symlink_to("runs/mine")
    run_dir = publish(edge_data(random_pairs(0)), settings(place))
    assert RunStore(place).latest() == run_dir


def test_a_latest_that_is_no_link_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    with pytest.raises(PublishError, match="latest: is not a symbolic link"):
        RunStore(tmp_path).begin()
    assert (tmp_path / "latest").is_dir()


def test_resolve_run(tmp_path):
    run_dir = publish(edge_data(random_pairs(0)), settings(tmp_path))
    assert resolve_run(tmp_path) == run_dir
    assert resolve_run(run_dir) == run_dir
    assert resolve_run(str(tmp_path / "latest")) == run_dir.resolve()
    (tmp_path / "latest").unlink()
    with pytest.raises(PublishError, match=rf"'latest' does not lead to a run.*{run_dir.name}"):
        resolve_run(tmp_path)
    with pytest.raises(PublishError, match="does not exist"):
        resolve_run(tmp_path / "nothing")
    with pytest.raises(PublishError, match="is a file"):
        resolve_run(run_dir / "size_histogram.parquet")
    with pytest.raises(PublishError, match="no published run"):
        resolve_run(run_dir / "bicliques")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "schema version None; expected 2"),
        ('{"schema_version": 99}', "schema version 99; expected 2 or 3"),
        ('{"schema_version": 3}', r"run_id: is missing"),
    ],
)
def test_unreadable_manifests(tmp_path, text, message):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(PublishError, match=rf"manifest\.json: .*{message}"):
        read_manifest(tmp_path)


def test_find_unchanged(tmp_path):
    edges, config = edge_data(random_pairs(0)), settings(tmp_path)
    store = RunStore(tmp_path)
    assert find_unchanged(store, edges.facts, config) is None
    run_dir = publish(edges, config)
    assert find_unchanged(store, edges.facts, config) == run_dir
    for same in (
        {"execution": {"threads": 3}},
        {"output": {"compression": "none", "keep_runs": 9}},
        {"input": {"path": "x"}},
    ):
        assert find_unchanged(store, edges.facts, settings(tmp_path, **same)) == run_dir, same
    for other in (
        {"query": {"min_left": 2}},
        {"query": {"containing_left": ["person 1"]}},
        {"execution": {"max_bicliques": 5}},
        {"output": {"sort": True}},
        {"output": {"members": True}},
        {"output": {"report": True}},
    ):
        assert find_unchanged(store, edges.facts, settings(tmp_path, **other)) is None, other
    assert find_unchanged(store, edge_data(random_pairs(1)).facts, config) is None
    (run_dir / "size_histogram.parquet").rename(run_dir / "elsewhere")
    assert find_unchanged(store, edges.facts, config) is None
    (run_dir / "elsewhere").rename(run_dir / "size_histogram.parquet")
    assert find_unchanged(store, edges.facts, config) == run_dir
    (run_dir / "manifest.json").write_text("{}")
    assert find_unchanged(store, edges.facts, config) is None


def test_a_run_that_a_time_limit_cut_is_not_unchanged(tmp_path):
    edges = edge_data(crown_pairs(9))
    limited = settings(tmp_path, execution={"time_limit_seconds": 1e-9, "block_bytes": 1024})
    assert "time_limit" in str(read_manifest(publish(edges, limited)).truncated)
    assert find_unchanged(RunStore(tmp_path), edges.facts, limited) is None
    counted = settings(tmp_path, execution={"max_bicliques": 7, "block_bytes": 1024})
    run_dir = publish(edges, counted)
    assert read_manifest(run_dir).counts.bicliques == 7
    assert "max_bicliques" in str(read_manifest(run_dir).truncated)
    assert find_unchanged(RunStore(tmp_path), edges.facts, counted) == run_dir


@pytest.mark.parametrize("limit", [{"time_limit_seconds": 1e-9}, {"max_bicliques": 7}])
def test_on_limit_fail_publishes_nothing(tmp_path, limit):
    edges = pa.table(dict(zip(("left", "right"), zip(*crown_pairs(9), strict=True), strict=True)))
    execution = {**limit, "block_bytes": 1024, "on_limit": "fail"}
    reason = rf"stopped at {next(iter(limit))} = .*execution\.on_limit is 'fail': nothing was published"
    with pytest.raises(PublishError, match=reason):
        job.run(settings(tmp_path, execution=execution), edges)
    assert RunStore(tmp_path).runs() == []
    assert_nothing_staged(tmp_path)
    assert job.run(settings(tmp_path, execution={"on_limit": "fail"}), edges).manifest.truncated is None


@contextmanager
def mounted(directory: Path, size: str):
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    try:
        done = completed(command)
    except FileNotFoundError:
        pytest.skip("needs the mount command for a small tmpfs")
    if done.returncode:
        pytest.skip(f"needs the right to mount a small tmpfs: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        unmount(directory)


def unmount(directory: Path) -> None:
    """Unmount, with retries, since Arrow's threads may close files a moment after the read returns."""
    for _ in range(50):
        done = completed(["umount", directory])
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"{directory} stays mounted: {done.stderr}")


@pytest.mark.parametrize("sort", [False, True])
def test_a_full_disk_is_reported_and_nothing_published(tmp_path, sort):
    small = edge_data(random_pairs(0))
    with mounted(tmp_path / "disk", "1m") as disk:
        first = publish(small, settings(disk))
        with pytest.raises(PublishError, match=r"No space left.*nothing was published; free some space") as refused:
            publish(edge_data(crown_pairs(16)), settings(disk, output={"sort": sort, "compression": "none"}))
        assert exit_code(refused.value) == 3
        assert RunStore(disk).latest() == first
        assert RunStore(disk).runs() == [first]
        assert_nothing_staged(disk)
        assert_sound(first)
        assert published_set(publish(small, settings(disk))) == expected_set(small), "the disk is usable again"


def test_a_read_only_file_system(tmp_path):
    with mounted(tmp_path / "disk", "1m") as disk:
        first = publish(edge_data(random_pairs(0)), settings(disk))
        completed(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(PublishError, match=r"Read-only file system|Permission denied"):
            publish(edge_data(random_pairs(1)), settings(disk))
        assert RunStore(disk).runs() == [first]
        assert_sound(first)


def test_a_directory_without_permission(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir(mode=0o555)
    if os.access(tmp_path / "out", os.W_OK):
        # Root may write anywhere, so answer as for other users.
        monkeypatch.setattr(publish_module.os, "access", lambda path, _: Path(path).stat().st_mode & 0o222 != 0)
    with pytest.raises(PublishError, match=r"Permission denied.*give this user write permission"):
        RunStore(tmp_path / "out").begin()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_read_only_file_system_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(publish_module.os, "access", lambda *_: False)
    monkeypatch.setattr(publish_module.os, "statvfs", lambda _: read_only)
    with pytest.raises(PublishError, match="the file system is read-only: choose another output directory"):
        RunStore(tmp_path / "out").check_writable()


def test_tables_are_synced_while_the_report_is_made(tmp_path, monkeypatch):
    events: list[str] = []
    all_synced = threading.Event()
    real_sync, real_entries = publish_module.sync, steps_module.file_entries

    def sync(path):
        real_sync(path)
        events.append(path.name)
        if {"left_vertices.parquet", "part-00000.parquet"} <= set(events):
            all_synced.set()

    def entries(run_path, booked):
        assert all_synced.wait(PATIENCE), "nothing is synced before the checksums are done"
        events.append("checksums")
        return real_entries(run_path, booked)

    monkeypatch.setattr(publish_module, "sync", sync)
    monkeypatch.setattr(steps_module, "file_entries", entries)
    publish(edge_data(random_pairs(0)), settings(tmp_path))
    assert "manifest.json" in events[events.index("checksums") :]


def test_a_table_that_cannot_be_synced_is_not_published(tmp_path, monkeypatch):
    """The error is reported only once: a second fsync of the same file would succeed."""
    real_sync, failed = publish_module.sync, []

    def fail_once(path):
        if path.name == "left_vertices.parquet" and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "Input/output error", str(path))
        real_sync(path)

    monkeypatch.setattr(publish_module, "sync", fail_once)
    with pytest.raises(PublishError, match=r"left_vertices\.parquet: cannot be written .*; nothing was published"):
        publish(edge_data(random_pairs(0)), settings(tmp_path))
    assert RunStore(tmp_path).runs() == []
    assert_nothing_staged(tmp_path)


def test_an_interruption_does_not_wait_for_syncing(tmp_path, monkeypatch):
    for number in range(40):
        (tmp_path / str(number)).touch()
    synced = []
    monkeypatch.setattr(publish_module, "sync", lambda path: (time.sleep(0.05), synced.append(path)))
    with pytest.raises(KeyboardInterrupt), publish_module.synced_beside(tmp_path):
        raise KeyboardInterrupt
    assert len(synced) < 40


def test_runs_of_one_second_sort_as_they_were_published(tmp_path, monkeypatch):
    """Whatever order they began in; `keep_runs` removes those published first."""
    monkeypatch.setattr(publish_module, "datetime", clock_at(datetime(2026, 11, 20, 6, 0, 1, tzinfo=UTC)))
    edges, store = edge_data(random_pairs(0)), RunStore(tmp_path)
    with ExitStack() as staging_dirs:
        begun = [staging_dirs.enter_context(store.begin()) for _ in range(6)]
        for staging in begun:
            fill(staging)
        published = [staging.publish() for staging in reversed(begun)]
    published += [publish(edges, settings(tmp_path)) for _ in range(6)]
    assert store.runs() == published
    assert all(re.fullmatch(r"20261120T06000\dZ-[0-9a-f]{6}", run.name) for run in published)
    newest = publish(edges, settings(tmp_path, output={"keep_runs": 4}))
    assert store.runs() == [*published[-3:], newest]
    assert store.latest() == newest
    assert_nothing_staged(tmp_path)


def test_a_clock_set_back_does_not_remove_the_newest(tmp_path, monkeypatch):
    edges, store = edge_data(random_pairs(0)), RunStore(tmp_path)
    published = []
    for hour in (9, 10, 7, 7, 8):
        monkeypatch.setattr(publish_module, "datetime", clock_at(datetime(2026, 11, 20, hour, tzinfo=UTC)))
        published.append(publish(edges, settings(tmp_path, output={"keep_runs": 3})))
        assert store.runs() == published[-3:]
        assert store.latest() == published[-1]


def test_older_runs_sort_first(tmp_path):
    old = [tmp_path / "runs" / name for name in ("20260101T000000Z-ffffff", "20260101T000001Z-000000")]
    for run in old:
        run.mkdir(parents=True)
        (run / "manifest.json").write_text("{}")
    run = publish(edge_data(random_pairs(0)), settings(tmp_path))
    assert RunStore(tmp_path).runs() == [*old, run]


@pytest.mark.parametrize("n", [200, pytest.param(2_000, marks=pytest.mark.slow)])
def test_names_of_runs_always_grow(n):
    now, names = datetime(2026, 11, 20, 6, tzinfo=UTC), ["20261120T060000Z-fffff0", "kept", "99999999T000000"]
    for number in range(n):
        name = next_run_id(names, now - timedelta(hours=number % 7))
        assert all(name > other for other in names if other[0] == "2")
        names.append(name)
    assert names[-1] < "20261120T0602"
    assert next_run_id(names, now + timedelta(days=1))[:17] == "20261121T060000Z-"


@pytest.mark.parametrize("report", [False, True])
def test_report_and_manifest_state_the_published_name(tmp_path, report):
    """The first attempt to publish may fail, and the second may take another name."""
    store, edges, config = RunStore(tmp_path), edge_data(random_pairs(0)), settings(tmp_path, output={"report": report})
    with store.begin() as staging:
        finish(staging.path, edges.facts, config, enumerate_to(edges, config, staging.path))
        provisional = staging.run_id
        (tmp_path / "latest").mkdir()
        with pytest.raises(PublishError, match="latest"):
            staging.publish()
        (tmp_path / "latest").rmdir()
        other = publish(edges, config)
        run_dir = staging.publish()
    assert store.runs() == [other, run_dir]
    assert read_manifest(run_dir).run_id == run_dir.name
    assert staging.manifest == (run_dir / "manifest.json").read_bytes()
    assert provisional not in (run_dir / "manifest.json").read_text()
    if report:
        text = (run_dir / "report.html").read_text()
        assert run_dir.name in text
        assert provisional not in text
    assert_sound(run_dir)


def clock_at(now: datetime) -> type:
    """A stand-in for `datetime` that always tells the same time."""
    return type("Clock", (datetime,), {"now": classmethod(lambda _, zone=None: now.astimezone(zone))})
