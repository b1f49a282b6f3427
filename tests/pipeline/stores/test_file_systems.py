"""Input from addresses that fsspec reads, and runs that were copied there; runs are not published there."""

from __future__ import annotations

import errno
import ftplib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="the extra filesystems is not installed")

import fsspec
import fsspec.config

from mbe_stage import pipeline
from mbe_stage.pipeline import Config, ConfigError, InputError
from mbe_stage.pipeline.config.model import InputConfig, OutputConfig
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.stores import fsspec_files, transfers
from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.failures import NoSuchObject, StoreFailure
from mbe_stage.pipeline.stores.fsspec_files import FsspecFiles, driver_errors
from mbe_stage.pipeline.stores.open_store import holds_runs, is_there, store_at
from tests.patience import begun
from tests.pipeline.stores.file_servers import PASSWORD, OnServer, SftpServer
from tests.pipeline.stores.ports import SILENT, free_port, wait_for
from tests.pipeline.stores.test_input import parquet
from tests.pipeline.test_cli import EDGES, answer, mbe

SECRET = "the-secret-that-nobody-may-read"


@pytest.fixture(autouse=True)
def nothing_temporary_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield
    assert list(temporary.iterdir()) == []


@pytest.fixture
def memory() -> Iterator[object]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A directory, and the HTTP address at which it is served."""
    pytest.importorskip("aiohttp", reason="what fsspec needs for http is not installed")
    directory, port = tmp_path_factory.mktemp("served"), free_port()
    serve = ["-m", "http.server", port, "--bind", "127.0.0.1", "--directory", directory]
    server = begun([sys.executable, *serve], **SILENT)
    wait_for(server, port)
    yield directory, f"http://127.0.0.1:{port}"
    server.kill()


class Answers(BaseHTTPRequestHandler):
    """Answers with the status in the path; for 200, sends less than promised."""

    def do_GET(self) -> None:
        status = int(self.path.strip("/").partition(".")[0])
        self.send_response(status, SECRET)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(EDGES.encode() if status == 200 else SECRET.encode() * 20)
        self.close_connection = True

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[str]:
    pytest.importorskip("aiohttp", reason="what fsspec needs for http is not installed")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# --- reading -------------------------------------------------------------------------------------------------------


def test_objects_and_directories_of_a_file_system(memory: object, tmp_path: Path) -> None:
    memory.pipe("/edges.csv", EDGES.encode())
    memory.pipe("/set/part=1/a.parquet", parquet(tmp_path / "a", slice(0, 3)).read_bytes())
    memory.pipe("/set/part=2/b.parquet", parquet(tmp_path / "b", slice(3, 7)).read_bytes())
    memory.pipe("/set/_SUCCESS", b"")
    for address in ("memory://edges.csv", "memory:///edges.csv"):
        edges = ingest(InputConfig(path=address))
        assert (edges.facts.source, edges.facts.n_edges) == ("memory://edges.csv", 7)
    edges = ingest(InputConfig(left="left", right="right"), source="memory://set/")
    assert (edges.facts.source, edges.facts.n_edges) == ("memory://set", 7)
    assert is_there("memory://set")
    assert not is_there("memory://sets")
    assert not holds_runs("memory://set")


def test_the_command_reads_from_a_server_of_http(served: tuple[Path, str], tmp_path: Path) -> None:
    directory, url = served
    (directory / "edges.csv").write_text(EDGES, encoding="utf-8")
    address = f"{url}/edges.csv"
    shown = mbe("enumerate", address, "--out", (tmp_path / "out").as_uri(), "--engine", "reference", "--json")
    assert answer(shown)["bicliques"] == 4
    run = pipeline.resolve_run((tmp_path / "out").as_uri())
    assert run.is_relative_to(tmp_path / "out")
    manifest = pipeline.read_manifest(run)
    assert manifest.input.source == manifest.config.input.path == address
    assert manifest.config.output.directory == str(tmp_path / "out")
    assert "temporary" not in shown.stderr
    assert any(address in passed for passed in answer(mbe("verify", run.as_uri(), "--json"))["checks"].values())
    assert mbe("groups", address, "--out", tmp_path / "groups", "--engine", "reference").exit_code == 0


def test_a_directory_of_a_server_of_http(served: tuple[Path, str]) -> None:
    directory, url = served
    parquet(directory / "set/part=1/a b.parquet", slice(0, 3))
    parquet(directory / "set/part=2/c.parquet", slice(3, 7))
    for address in (f"{url}/set", f"{url}/set/"):
        edges = ingest(InputConfig(path=address, left="left", right="right"))
        assert (edges.facts.source, edges.facts.n_edges) == (f"{url}/set", 7)


def test_a_local_file_is_read_in_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a b.csv").write_text(EDGES, encoding="utf-8")
    address = (tmp_path / "a b.csv").as_uri()
    with caplog.at_level(logging.INFO):
        facts = ingest(InputConfig(), source=address).facts
    assert facts.source == str(tmp_path / "a b.csv")
    assert "fetching" not in caplog.text
    assert is_there(address)


def test_runs_are_read_from_a_server_of_http_and_not_published_there(served: tuple[Path, str], tmp_path: Path) -> None:
    """The run is published in the server's directory; nothing is written through HTTP."""
    directory, url = served
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    command = ("enumerate", tmp_path / "edges.csv", "--engine", "reference", "--out")
    run = answer(mbe(*command, directory / "out", "--json"))["run"]
    address = f"{url}/out/runs/{Path(run).name}"
    assert answer(mbe("top", address, "--json"))["run"] == address
    assert mbe("verify", address, "--quiet").exit_code == 0


@pytest.mark.parametrize("scheme", ["http", "sftp", "memory", "ftp"])
def test_an_output_in_no_object_store_is_refused_before_any_work(tmp_path: Path, scheme: str) -> None:
    out = f"{scheme}://host/new"
    said = (
        f"{out}: runs are not published at addresses of {scheme}://; expected a directory of this machine, or an "
        "address of an object store (s3://, gs://, az://, abfs://); choose one of these, and copy the runs afterwards"
    )
    refused = mbe("enumerate", tmp_path / "no-input", "--out", out)
    assert (refused.exit_code, refused.stderr) == (2, f"error: {said}\n")
    with pytest.raises(ConfigError) as error:
        Config.from_mapping({"output": {"directory": out}})
    assert str(error.value) == said
    # Without that check, the run is refused before it reads the input.
    unchecked = Config(output=OutputConfig(directory=out))
    with pytest.raises(ConfigError, match="runs are not published at addresses of"):
        pipeline.run(unchecked, str(tmp_path / "no-input"))


def test_the_command_reads_from_a_server_of_sftp(
    sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, out = sftp.put("edges.csv", EDGES.encode()), tmp_path / "out"
    command = ("enumerate", address, "--out", out, "--engine", "reference", "--verbose", "--json")
    shown = mbe(*command)
    assert answer(shown)["bicliques"] == 4
    said = [shown.output, *(path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file())]
    assert not any(PASSWORD in each for each in said)
    sftp.put("denied/edges.csv", b"")
    with pytest.raises(InputError, match=r"/denied/edges.csv: access denied; .*FSSPEC_"):
        ingest(InputConfig(path=f"{sftp.url}/denied/edges.csv"))
    parquet(sftp.directory / "set/part=1/a.parquet", slice(0, 3))
    parquet(sftp.directory / "set/part=2/b.parquet", slice(3, 7))
    assert ingest(InputConfig(path=f"{sftp.url}/set", left="left", right="right")).facts.n_edges == 7
    monkeypatch.setitem(fsspec.config.conf, "sftp", {"password": f"{PASSWORD}-no-more"})
    wrong = mbe(*command)
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith(f"error: {address}: access denied; ")
    assert PASSWORD not in wrong.output


def test_a_large_file_of_sftp_comes_in_pieces(sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "CHUNK", 300_000)
    content, moved = os.urandom(1_000_000), list[int]()
    sftp.put("large", content)
    sftp.put("empty", b"")
    files = FsspecFiles(parse_address(sftp.url))
    files.download({name: tmp_path / "back" / name for name in ("large", "empty")}, moved.append)
    assert (tmp_path / "back/large").read_bytes() == content
    assert (tmp_path / "back/empty").read_bytes() == b""
    assert sorted(moved) == [100_000, 300_000, 300_000, 300_000]
    assert [(each.name, each.size) for each in files.listed()] == [("empty", 0), ("large", 1_000_000)]


def test_a_server_that_dies_is_named_without_a_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")
    fsspec.config.conf.setdefault("sftp", {"password": PASSWORD})
    files = FsspecFiles(parse_address(f"{(server := SftpServer()).url}{tmp_path}"))
    assert files.listed() == []
    server.kill()
    with pytest.raises(StoreFailure, match=r"does not answer as expected") as failure:
        files.listed()
    assert PASSWORD not in str(failure.value)
    assert "Traceback" not in capfd.readouterr().err
    del fsspec.config.conf["sftp"]


def test_runs_that_were_copied_to_a_server_are_read(sftp: OnServer, tmp_path: Path) -> None:
    """The latest run is the one whose name sorts last, whatever the pointer says."""
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out = f"{sftp.url}/out"
    for _ in range(2):
        mbe("enumerate", tmp_path / "edges.csv", "--engine", "reference", "--out", sftp.directory / "out")
    first, second = (f"{out}/runs/{run.name}" for run in store_at(sftp.directory / "out").runs())
    assert [run["run"] for run in answer(mbe("runs", out, "--json"))["runs"]] == [first, second]
    (sftp.directory / "out/latest").unlink()
    sftp.put("out/latest/00000002", b"as versions before this one have written it")
    for place in (out, f"{out}/latest", second):
        assert answer(mbe("verify", place, "--json"))["run"] == second
    assert holds_runs(out)
    compared = answer(mbe("diff", first, "latest", "--json"))
    assert (compared["old"], compared["new"], compared["bicliques"]["same"]) == (first, second, 4)
    assert mbe("top", f"{sftp.url}/nothing").exit_code == 3
    refused = mbe("clean", out)
    assert (refused.exit_code, "runs are not published at addresses of sftp://" in refused.stderr) == (2, True)


def test_missing_hadoop_is_named() -> None:
    with pytest.raises(StoreFailure) as failure, driver_errors("hdfs://host/edges.csv"):
        raise OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm/libjvm.so) failed: no such file")
    assert "libhdfs" in failure.value.reason
    assert "CLASSPATH" in failure.value.remedy


# --- refusals ------------------------------------------------------------------------------------------------------


def test_refusals_of_a_server_are_one_line_without_its_text(answering: str, served: tuple[Path, str]) -> None:
    for path, said in {
        "403.csv": r"access denied \(403\); .*FSSPEC_",
        "500.csv": r"the server does not answer as expected \(500\); .*try again$",
        "404.csv": "no such object, and none below it",
        "200.csv": r"the server does not answer as expected \(ClientPayloadError\)",
    }.items():
        with pytest.raises(InputError, match=rf"^{answering}/{path}: {said}") as error:
            ingest(InputConfig(path=f"{answering}/{path}"))
        told: BaseException | None = error.value
        while told is not None:
            assert SECRET not in str(told)
            told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    with pytest.raises(InputError, match="no such object"):
        ingest(InputConfig(path=f"{served[1]}/nothing.csv"))
    with pytest.raises(InputError, match=r"does not answer as expected; .*check the address and the network"):
        ingest(InputConfig(path=f"http://127.0.0.1:{free_port()}/a.csv"))


def test_errors_in_an_object_name_its_address(memory: object) -> None:
    memory.pipe("/edges.csv", b"left,right\nann,\n")
    with pytest.raises(InputError, match=r"^memory://edges.csv, line 2") as error:
        ingest(InputConfig(path="memory://edges.csv"))
    assert tempfile.gettempdir() not in str(error.value)


def test_a_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    memory: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/out/below/a.csv", b"")
    listed = type(memory).ls

    def denied(self: object, path: str, **options: object) -> object:
        if path.endswith("below"):
            raise PermissionError
        return listed(self, path, **options)

    monkeypatch.setattr(type(memory), "ls", denied)
    with pytest.raises(StoreFailure, match="access denied"):
        FsspecFiles(parse_address("memory://out")).listed()


class Driver:
    """A driver that returns or raises the given answers."""

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


def test_a_disturbed_listing_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """SMB queries each file separately; a vanished file does not mean that its directory has vanished."""
    monkeypatch.setattr(fsspec_files, "_PAUSE", 0)
    address, gone = parse_address("smb://host/share/a"), OSError(errno.ENOENT, "gone")
    there, found = {"type": "directory"}, [{"name": "/share/a/b", "type": "file"}]
    assert list(fsspec_files.files_below(Driver(gone, there, found), address, "/share/a")) == ["/share/a/b"]
    assert not fsspec_files.files_below(Driver(gone, gone), address, "/share/a")
    for answers in (Driver(gone, OSError(errno.EIO, "lost")), Driver(*(gone, there) * 5)):
        with pytest.raises(OSError, match=r"lost|gone"):
            fsspec_files.files_below(answers, address, "/share/a")


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (PermissionError(SECRET), StoreFailure, "access denied"),
        (type("AuthenticationException", (Exception,), {})(SECRET), StoreFailure, "access denied"),
        (ftplib.error_perm(f"530 {SECRET}"), StoreFailure, "access denied (530)"),
        (ftplib.error_perm(f"550 {SECRET}"), NoSuchObject, "no such object"),
        (StopIteration(), NoSuchObject, "no such object"),
        (FileNotFoundError(SECRET), NoSuchObject, "no such object"),
        (TimeoutError(SECRET), StoreFailure, "the server does not answer as expected"),
        (TypeError(SECRET), StoreFailure, "its fsspec driver does not accept it (TypeError)"),
        (NotImplementedError(SECRET), StoreFailure, "its fsspec driver does not support this"),
        (OSError(errno.ENOENT, SECRET), NoSuchObject, "no such object"),
        (OSError(errno.EACCES, SECRET), StoreFailure, "access denied"),
        (OSError("Socket is closed"), StoreFailure, "the server does not answer as expected"),
        (OSError(SECRET), StoreFailure, "the server refuses it without a reason"),
        (type("SSHException", (Exception,), {})(SECRET), StoreFailure, "the server does not answer as expected (SSHEx"),
        (type("SSHException", (Exception,), {})("No authentication methods"), StoreFailure, "access denied"),
    ],
)
def test_each_failure_of_a_driver(error: Exception, kind: type, reason: str) -> None:
    with pytest.raises(kind) as failure, driver_errors("sftp://host"), driver_errors("sftp://host/a"):
        raise error
    assert failure.value.reason.startswith(reason)
    assert failure.value.place == "sftp://host/a"
    assert SECRET not in str(failure.value)


def test_no_copy_is_written_outside_its_directory(memory: object, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [{"name": "/set//tmp/a.parquet", "size": 1, "type": "file"}]
    monkeypatch.setattr(type(memory), "ls", lambda *_, **__: found)
    with pytest.raises(InputError, match="leads out of its directory"):
        ingest(InputConfig(path="memory://set"))


def test_a_missing_driver_and_a_missing_fsspec_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "sftp", raising=False)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(ConfigError, match=r"not installed; .*; install it: pip install paramiko$"):
        ingest(InputConfig(path="sftp://user@host/edges.csv"))
    monkeypatch.setitem(sys.modules, "fsspec.registry", None)
    result = mbe("enumerate", "sftp://host/edges.csv", "--count-only")
    assert result.exit_code == 2
    assert "pip install 'mbe-stage[filesystems]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_scheme_and_a_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^s4://bucket/a.csv: unknown scheme; expected a path, or "):
        ingest(InputConfig(path="s4://bucket/a.csv"))
    result = mbe("enumerate", f"ftp://user:{SECRET}@host/edges.csv", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "ftp://...@host: has a user or a password" in result.stderr
    assert SECRET not in result.output
    assert not (tmp_path / "out").exists()


def test_runs_of_a_directory_by_its_address(tmp_path: Path) -> None:
    out = (tmp_path / "out").as_uri()
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    for _ in range(2):
        assert mbe("enumerate", tmp_path / "edges.csv", "--out", out, "--engine", "reference").exit_code == 0
    assert len(answer(mbe("runs", out, "--json"))["runs"]) == 2
    assert answer(mbe("diff", store_at(out).runs()[0], f"{out}/latest", "--json"))["bicliques"]["same"] == 4
    assert os.path.realpath(answer(mbe("top", out, "--json"))["run"]).startswith(str(tmp_path / "out/runs"))
