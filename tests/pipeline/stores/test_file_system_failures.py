"""Publication where fsspec has a driver, when a server dies, refuses or replaces, and a writer is killed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="the extra filesystems is not installed")
pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")

import fsspec.implementations.memory

from mbe_stage.pipeline import PublishError, RunResult
from mbe_stage.pipeline.stores import connections, driver_files, exclusive_create
from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure
from mbe_stage.pipeline.stores.file_systems import FileSystemObjects
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline.stores.file_servers import PASSWORD, USER, InMemory, OnServer, SftpServer, objects_at, pointer
from tests.pipeline.stores.ports import free_port
from tests.pipeline.stores.writers import FEWER, interrupt_an_upload, publish, published
from tests.pipeline.test_cli import EDGES, ROOT, answer, mbe


def test_a_server_that_dies_in_the_middle_and_comes_back(
    sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    own = OnServer(SftpServer(), tmp_path / "own")
    first = publish(f"{own.url}/out", FEWER)
    upload, sent = FileSystemObjects._upload, []

    def upload_until(self: FileSystemObjects, path: Path, name: str, *rest: object) -> None:
        sent.append(name)
        if len(sent) == 3:
            own.server.kill()
        upload(self, path, name, *rest)

    monkeypatch.setattr(FileSystemObjects, "_upload", upload_until)
    with pytest.raises(PublishError, match=r"does not answer as expected.*; nothing was published; ") as error:
        publish(f"{own.url}/out")
    assert PASSWORD not in str(error.value)
    monkeypatch.setattr(FileSystemObjects, "_upload", upload)
    own.server.start()
    # What could not be removed then is no run.
    assert published(own) == [first.manifest.run_id]
    second = publish(f"{own.url}/out")
    assert pointer(own)["run_id"] == second.manifest.run_id
    assert "Traceback" not in capfd.readouterr().err
    del sftp


def test_a_connection_that_nobody_used_for_long_is_not_used_again(
    sftp: OnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the publication, the server may have come and gone."""
    (sftp.directory.parent / "own").mkdir()
    own = OnServer(SftpServer(), sftp.directory.parent / "own")
    objects = objects_at(own)
    objects.create("a", b"a")
    own.server.kill()
    own.server.start()
    monkeypatch.setattr(connections, "_IDLE", 0.0)
    assert objects.read("a") == b"a"


def test_killed_during_the_upload(sftp: OnServer, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    first = publish(f"{sftp.url}/out", FEWER)
    # The third file is never done.
    code = (
        "import time; from mbe_stage.pipeline.stores.file_systems import FileSystemObjects as F; upload = F._upload\n"
        "def slow(self, path, name, *rest):\n"
        "    'size_histogram' in name and time.sleep(3600)\n"
        "    upload(self, path, name, *rest)\n"
        "F._upload = slow; from mbe_stage.pipeline.cli.entry import main; main()"
    )
    command = [sys.executable, "-c", code, "enumerate", tmp_path / "edges.csv", "--out", f"{sftp.url}/out"]
    child = begun([*command, "--engine", "reference"], cwd=ROOT)
    end = time.monotonic() + PATIENCE
    while not (left := {name for name in sftp.listed() if name.startswith("out/runs/")} - set(of(first))):
        assert time.monotonic() < end
        assert child.poll() is None, output_of(child)
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    output_of(child)
    assert published(sftp) == [first.manifest.run_id]
    assert pointer(sftp)["run_id"] == first.manifest.run_id
    old = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    for name in sftp.listed():
        os.utime(sftp.directory / name, (old, old))
    second = publish(f"{sftp.url}/out")
    assert published(sftp) == [first.manifest.run_id, second.manifest.run_id]
    assert not left & set(sftp.listed())
    assert not any("/.staging/" in name for name in sftp.listed())
    shutil.rmtree(tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()


def of(run: RunResult) -> list[str]:
    """The files of a run, as the place has them."""
    return [
        f"out/runs/{run.manifest.run_id}/{name}" for name in ("manifest.json", *(e.path for e in run.manifest.files))
    ]


def test_ctrl_c_during_the_upload(sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    interrupt_an_upload(FileSystemObjects, monkeypatch)
    result = mbe("enumerate", tmp_path / "edges.csv", "--out", f"{sftp.url}/out", "--engine", "reference")
    assert result.exit_code == 130, result.output
    assert "nothing was published" in result.stderr
    assert sftp.listed() == []


def test_what_a_server_refuses_is_said_before_any_work(sftp: OnServer, tmp_path: Path) -> None:
    (sftp.directory / "denied").mkdir()
    (sftp.directory / "file").write_bytes(b"")
    silent = f"sftp://{USER}@127.0.0.1:{free_port()}/out"
    for out, said in {
        f"{sftp.url}/denied/out": "access denied; nothing was published; give credentials",
        f"{sftp.url}/full": "the server refuses it without a reason; nothing was published; check what is there",
        f"{sftp.url}/file/out": "nothing was published; ",
        silent: "the server does not answer as expected; nothing was published; check the address",
        "sftp://no-such-host.invalid/out": "the server does not answer as expected; nothing was published; check",
    }.items():
        refused = mbe("enumerate", tmp_path / "no-input", "--out", out)
        assert refused.exit_code == 3, refused.output
        assert refused.stderr.startswith(f"error: {out}")
        assert said in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert sftp.listed() == ["file"]


def test_what_cannot_be_written_at_all(memory: InMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = fsspec.implementations.memory.MemoryFileSystem._open

    def only_read(self: object, path: str, mode: str = "rb", **options: object) -> object:
        if mode != "rb":
            raise NotImplementedError
        return opened(self, path, mode, **options)

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "_open", only_read)
    refused = mbe("enumerate", tmp_path / "no-input", "--out", f"{memory.url}/out")
    assert refused.exit_code == 3
    warning, error = refused.stderr.splitlines()
    assert "disappears when this command ends" in warning
    assert error.startswith(f"error: {memory.url}/out: nothing can be written there by way of fsspec; nothing was pub")


def test_a_place_that_replaces_what_is_there_is_refused(memory: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server of SFTP does whose rename is that of the operating system."""
    monkeypatch.setitem(exclusive_create._TAKES, "memory", lambda driver, written, path: driver.mv(written, path))
    with pytest.raises(PublishError, match="a file that is there is replaced where it should be refused"):
        publish(f"{memory.url}/out")
    assert memory.listed() == []


def test_where_writers_are_not_kept_apart_a_warning_says_so(
    memory: InMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(exclusive_create._TAKES, "memory")
    with caplog.at_level(logging.WARNING):
        run = publish(f"{memory.url}/out")
    (warned,) = [each.message for each in caplog.records if each.name == "mbe_stage.pipeline.stores.conditional_write"]
    assert warned.startswith(f"{memory.url}/out: memory:// does not keep two writers apart")
    assert published(memory) == [run.manifest.run_id]
    # One comes between the look and the move, and what it wrote is replaced: it is not taken for the other's.
    take, content = exclusive_create._look_first, []

    def late(driver: object, written: str, path: str) -> None:
        take(driver, written, path)
        content.append(driver.cat_file(path))
        driver.pipe_file(path, b"somebody else's")

    objects = objects_at(memory)
    objects._take = late
    with pytest.raises(StoreConflict):
        objects.create("name", b"mine")
    assert content == [b"mine"]


def test_pointers_of_another_kind_are_left_alone(sftp: OnServer) -> None:
    """A directory to which runs were published where it lies, or that was copied from an object store."""
    run = publish(sftp.directory / "local").manifest.run_id
    sftp.put("copied/latest", b"{}")
    for prefix in ("local", "copied"):
        with pytest.raises(PublishError, match=r"/latest: is no directory of numbered pointers .*name a run below"):
            publish(f"{sftp.url}/{prefix}")
    assert mbe("top", f"{sftp.url}/local").exit_code == 3
    assert answer(mbe("top", f"{sftp.url}/local/runs/{run}", "--json"))["run"] == f"{sftp.url}/local/runs/{run}"
    sftp.put("bad/latest/00000001", b"no JSON")
    with pytest.raises(PublishError, match="is no pointer to a run"):
        publish(f"{sftp.url}/bad")
    published_there = publish(f"{sftp.url}/out")
    with pytest.raises(PublishError, match=r"lies in .*/out/runs, where published runs are"):
        publish(f"{published_there.address}/more")


def test_what_is_no_run_is_refused_in_one_line(sftp: OnServer) -> None:
    for command in (("top",), ("verify",), ("export", "--csv"), ("runs",)):
        result = mbe(*command, f"{sftp.url}/nothing")
        assert result.exit_code == 3
        assert result.stderr.startswith(f"error: {sftp.url}/nothing: ")
        assert len(result.stderr.splitlines()) == 1


def test_a_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    memory: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.put("out/latest/00000001", b"{}")
    listed = fsspec.implementations.memory.MemoryFileSystem.ls

    def denied(self: object, path: str, **options: object) -> object:
        if path.endswith("latest"):
            raise PermissionError
        return listed(self, path, **options)

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "ls", denied)
    with pytest.raises(StoreFailure, match="access denied"):
        objects_at(memory).listed()


class Answers:
    """A driver that says what it is told to."""

    def __init__(self, *said: object) -> None:
        self.said, self.asked = list(said), []

    def __getattr__(self, name: str) -> Callable[..., object]:
        def answer_of(*given: object, **options: object) -> object:
            self.asked.append((name, *given, *options.values()))
            said = self.said.pop(0)
            if isinstance(said, Exception):
                raise said
            return said

        return answer_of


def test_a_listing_that_others_disturb_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of SMB, which asks for each file by itself: a file that is gone is no directory that is."""
    monkeypatch.setattr(driver_files, "_PAUSE", 0)
    address, gone = parse_address("smb://host/share/a"), OSError(errno.ENOENT, "gone")
    there, found = {"type": "directory"}, [{"name": "/share/a/b", "type": "file"}]
    assert list(driver_files.files_below(Answers(gone, there, found), address, "/share/a")) == ["/share/a/b"]
    assert not driver_files.files_below(Answers(gone, gone), address, "/share/a")
    for answers in (Answers(gone, OSError(errno.EIO, "lost")), Answers(*(gone, there) * 5)):
        with pytest.raises(OSError, match=r"lost|gone"):
            driver_files.files_below(answers, address, "/share/a")


def test_a_name_of_webhdfs_is_taken_where_the_answer_says_so() -> None:
    take, keeps_apart = exclusive_create.take_of("webhdfs")
    assert keeps_apart
    done, refused = Answers({"boolean": True}), Answers({"boolean": False})
    for answers, expected in ((done, nullcontext()), (refused, pytest.raises(FileExistsError))):
        driver = Answers(answers)
        with expected:
            take(driver, "/a.part", "/a")
        assert driver.asked == [("_call", "RENAME", "put", "/a.part", "/a")]


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"mtime": datetime(2026, 1, 2, tzinfo=UTC)}, datetime(2026, 1, 2, tzinfo=UTC)),
        ({"mtime": datetime(2026, 1, 2)}, None),
        ({"created": 86_400.0}, datetime(1970, 1, 2, tzinfo=UTC)),
        ({"modificationTime": 86_400_000}, datetime(1970, 1, 2, tzinfo=UTC)),
        ({"modify": "20260102030405.678"}, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ({"modify": "Jan 02 03:04"}, None),
        ({"name": "a"}, None),
    ],
)
def test_times_of_drivers(about: dict, expected: datetime | None) -> None:
    assert driver_files.modified_at(about) == expected
