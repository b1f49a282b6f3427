"""The command line: its output and its exit codes."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner, Result

from mbe_stage import pipeline
from mbe_stage.errors import (
    ClusterLost,
    DeviceLost,
    EngineUnavailable,
    InvalidArgument,
    MemoryBudgetExceeded,
    StageError,
)
from mbe_stage.pipeline import errors, package_files
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from tests.commands import Commands
from tests.patience import completed
from tests.pipeline.output_support import assert_nothing_staged

MBE = [sys.executable, "-c", "from mbe_stage.pipeline.cli.entry import main; main()"]
ROOT = Path(__file__).parents[2]

# Two buyers share two shops; one of them shares another shop with a third buyer: 4 maximal bicliques.
EDGES = "left,right\nann,bakery\nann,kiosk\nbob,bakery\nbob,kiosk\nbob,zoo\ncid,zoo\ncid,kiosk\n"


def mbe(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def answer(result: Result, exit_code: int = 0) -> dict:
    """Return the JSON object on the last line of stdout."""
    assert result.exit_code == exit_code, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(EDGES, encoding="utf-8")
    return path


@pytest.fixture
def out(tmp_path: Path, edges: Path) -> Path:
    assert mbe("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference").exit_code == 0
    return tmp_path / "out"


# --- enumerate and run --------------------------------------------------------------------------------------------


def test_enumerate_publishes_and_says_where(tmp_path: Path, edges: Path) -> None:
    result = mbe("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference")
    assert result.exit_code == 0
    run = pipeline.resolve_run(tmp_path / "out")
    assert result.stdout.startswith("4 maximal bicliques in 3 left x 3 right, 7 edges\n")
    assert str(run.resolve().name) in result.stdout
    assert (run / "report.html").exists()


def test_json_is_the_last_line_and_whole(tmp_path: Path, edges: Path) -> None:
    facts = answer(mbe("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference", "--json", "--no-report"))
    manifest = read_manifest(facts["run"])
    assert facts["bicliques"] == manifest.counts.bicliques == 4
    assert facts["truncated"] is None
    assert facts["engine"] == "reference"
    assert facts["device"] == manifest.device
    assert facts["content_fingerprint"] == manifest.content_fingerprint
    assert facts["peak_memory_bytes"] > 1 << 20
    assert {"read", "enumerate", "total"} <= set(facts["seconds"])
    assert facts["input"]["n_edges"] == 7
    assert not (Path(facts["run"]) / "report.html").exists()


def test_if_changed_says_unchanged(tmp_path: Path, edges: Path, out: Path) -> None:
    options = ["--out", out, "--engine", "reference", "--if-changed"]
    latest = pipeline.resolve_run(out)
    facts = answer(mbe("enumerate", edges, *options, "--json"), app.UNCHANGED)
    assert facts["unchanged"] is True
    assert (facts["run"], facts["bicliques"]) == (str(latest), 4)
    result = mbe("enumerate", edges, *options)
    assert result.exit_code == app.UNCHANGED
    assert result.stdout.startswith("unchanged ")
    assert str(latest.name) in result.stdout
    config = tmp_path / "job.yaml"
    config.write_text(f"input: {{path: {edges}}}\noutput: {{directory: {out}}}\nexecution: {{engine: reference}}\n")
    assert answer(mbe("run", config, "--if-changed", "--json"), app.UNCHANGED)["unchanged"] is True
    assert pipeline.RunStore(out).runs() == [latest]
    edges.write_text(EDGES + "dan,zoo\n", encoding="utf-8")
    facts = answer(mbe("enumerate", edges, *options, "--json"))
    assert facts["unchanged"] is False
    assert facts["run"] == str(pipeline.resolve_run(out)) != str(latest)
    assert answer(mbe("run", config, "--json"))["unchanged"] is False
    refused = mbe("enumerate", edges, *options, "--count-only")
    assert refused.exit_code == 2
    assert "--count-only publishes none" in " ".join(refused.stderr.replace("│", " ").split())


def test_count_only_stores_nothing(tmp_path: Path, edges: Path) -> None:
    options = ["--out", tmp_path / "out", "--engine", "reference", "--count-only"]
    facts = answer(mbe("enumerate", edges, *options, "--json"))
    assert facts["bicliques"] == 4
    assert facts["content_fingerprint"] is None
    assert facts["run"] is None
    assert not (tmp_path / "out").exists()
    assert mbe("enumerate", edges, *options).stdout.startswith("4 maximal bicliques")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--min-left", 2], 3),
        (["--min-left", 2, "--min-right", 2], 2),
        (["--max-right", 2], 3),
        (["--max-left", 1], 1),
        (["--min-edges", 4], 2),
        (["--containing-left", "ann", "--containing-right", "zoo"], 0),
        (["--containing-left", "bob", "--containing-left", "cid"], 2),
        (["--max-bicliques", 2], 2),
        (["--left", "right", "--right", "left"], 4),
        (["--left", 1, "--right", 0, "--min-left", 3], 1),
    ],
    ids=str,
)
def test_options_reach_the_query(edges: Path, options: list, expected: int) -> None:
    facts = answer(mbe("enumerate", edges, "--engine", "reference", "--count-only", "--json", *options))
    assert facts["bicliques"] == expected
    assert (facts["truncated"] is not None) == ("--max-bicliques" in options)


def test_every_option_reaches_its_key(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("1;7;2.5;10\n1;8;2.5;11\n2;7;1.0;12\n2;8;2.5;19\n3;8;9.0;20\n", encoding="utf-8")
    facts = answer(
        mbe(
            *("enumerate", path, "--out", tmp_path / "out", "--format", "csv", "--delimiter", ";", "--no-header"),
            *("--left", 0, "--right", 1, "--weight", 2, "--timestamp", 3, "--key-type", "string", "--nulls", "drop"),
            *(
                "--min-weight",
                2,
                "--time-from",
                "1900-01-01T00:00:10",
                "--time-until",
                "1900-01-01T00:00:20",
                "--time-bucket",
                "1h",
                "--time-offset",
                "5m",
                "--engine",
                "reference",
                "--threads",
                1,
            ),
            *("--encoding", "cp1252", "--skip-lines", 0, "--comment", "#", "--trim"),
            *("--decimal", ".", "--date-format", "%S"),
            *("--memory-budget", "64MiB", "--time-limit", 60, "--max-bicliques", 100, "--members", "--sort"),
            *("--compression", "snappy", "--keep-runs", 2, "--json", "--quiet"),
        )
    )
    config = read_manifest(facts["run"]).config
    assert config.input.model_dump(exclude={"path"}) == {
        "format": "csv",
        "left": "0",
        "right": "1",
        "by": None,
        "weight": "2",
        "timestamp": "3",
        "delimiter": ";",
        "header": False,
        "encoding": "cp1252",
        "skip_lines": 0,
        "comment": "#",
        "trim": True,
        "decimal": ".",
        "date_format": "%S",
        "key_type": "string",
        "nulls": "drop",
        "min_weight": 2,
        "time_from": "1900-01-01T00:00:10",
        "time_until": "1900-01-01T00:00:20",
        "time_bucket": "1h",
        "time_offset": "5m",
    }
    assert config.execution.memory_budget == 64 << 20
    assert config.execution.time_limit_seconds == 60
    assert config.output.model_dump(include={"members", "sort", "compression", "keep_runs"}) == {
        "members": True,
        "sort": True,
        "compression": "snappy",
        "keep_runs": 2,
    }
    assert facts["input"]["rows_dropped_weight"] == 1
    assert facts["input"]["rows_dropped_time"] == 1
    assert facts["input"]["n_edges"] == 3


def test_run_reads_a_configuration_and_overrides_it(tmp_path: Path, edges: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(f"input:\n  path: {edges}\nexecution:\n  engine: reference\nquery:\n  min_left: 3\n")
    sets = ["--set", f"output.directory={tmp_path / 'out'}", "--set", "query.min_left=2"]
    facts = answer(mbe("run", config, *sets, "--json"))
    assert facts["bicliques"] == 3
    assert Path(facts["run"]).is_relative_to(tmp_path / "out")


# --- errors and exit codes ----------------------------------------------------------------------------------------


def refused(result: Result, code: int, *parts: str) -> None:
    """Assert this exit code, one line on stderr that starts with 'error:', and nothing on stdout."""
    assert result.exit_code == code, result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in lines[0]


def test_missing_input(tmp_path: Path) -> None:
    refused(mbe("enumerate", tmp_path / "no.csv", "--out", tmp_path / "out"), 2, "no.csv")
    assert not (tmp_path / "out").exists()


def test_wrong_option_value(edges: Path) -> None:
    refused(mbe("enumerate", edges, "--min-left", 0), 2, "command line: --min-left is 0")
    refused(mbe("enumerate", edges, "--memory-budget", "lots"), 2, "--memory-budget is", "'lots'")


def test_unknown_choice_and_option(edges: Path) -> None:
    unknown = mbe("enumerate", edges, "--engine", "gpu")
    assert unknown.exit_code == 2
    said = " ".join(unknown.stderr.split())
    assert "'gpu' is not one of 'auto', 'cpu', 'cuda', 'rapids'" in said
    assert "Value error" not in said
    assert mbe("enumerate", edges, "--min-lefft", 2).exit_code == 2
    assert mbe("enumrate", edges).exit_code == 2


def test_unknown_key_in_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("query:\n  min_lft: 2\n")
    refused(mbe("run", config), 2, "query.min_lft", "did you mean 'min_left'")


def test_unavailable_engine(edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mbe_stage.bicliques import reference

    monkeypatch.setattr(reference, "unavailable_reason", lambda: "this machine is too small; use a larger one")
    refused(mbe("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference"), 4, "too small")
    assert not list((tmp_path / "out").glob("runs/*"))


def test_output_that_cannot_be_written(tmp_path: Path, edges: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused(mbe("enumerate", edges, "--out", tmp_path / "file", "--engine", "reference"), 3, "file")


def test_no_run_to_read(tmp_path: Path) -> None:
    refused(mbe("top", tmp_path), 3, str(tmp_path))
    refused(mbe("verify", tmp_path / "nowhere"), 3, "does not exist")


@pytest.mark.parametrize(("error", "code", "part"), [(KeyboardInterrupt(), 130, "interrupted: nothing was published")])
def test_interruption(edges: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, part: str) -> None:
    result = mbe_that_raises(edges, monkeypatch, error)
    assert result.exit_code == code
    assert part in result.stderr


def test_interruption_of_a_run_that_is_published(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after `latest` has moved, while the move is synced to the disk."""
    out = tmp_path / "out"
    real_sync = pipeline.publish.staging.sync

    def interrupt(path: Path) -> None:
        real_sync(path)
        if path == out:
            raise KeyboardInterrupt

    monkeypatch.setattr(pipeline.publish.staging, "sync", interrupt)
    result = mbe("enumerate", edges, "--out", out, "--quiet", "--engine", "reference")
    latest = pipeline.RunStore(out).latest()
    assert latest is not None
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == f"interrupted: {latest} is published"
    assert_nothing_staged(out)


@pytest.mark.parametrize("loading", [False, True])
@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_interruption_of_a_command_that_publishes_nothing(
    tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch, command: str, loading: bool
) -> None:
    assert mbe("enumerate", edges, "--out", tmp_path / "out", "--quiet").exit_code == 0

    def interrupt(*_: object, **__: object) -> None:
        if loading:
            raise SystemError("CPUDispatcher(...) returned a result with an exception set") from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline.execution.ingest, "ingest", interrupt)
    result = mbe(command, tmp_path / "out" if command == "verify" else edges)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted"


def test_counts_of_one_are_singular(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("left,right\na,b\n")
    said = mbe("enumerate", path, "--out", tmp_path / "out", "--threads", 1).stdout
    assert "1 maximal biclique in 1 left x 1 right, 1 edge\n" in said
    assert "1 row:" in said
    facts = json.loads(mbe("enumerate", path, "--count-only", "--threads", 1, "--json").stdout)
    assert facts["device"].endswith(", 1 thread")


def test_a_defect_keeps_its_traceback(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = mbe_that_raises(edges, monkeypatch, ZeroDivisionError("surprise"))
    assert result.exit_code == app.INTERNAL_ERROR
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError: surprise" in result.stderr


def test_out_of_memory_is_one_line(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(mbe_that_raises(edges, monkeypatch, MemoryError()), 4, "out of memory")


def mbe_that_raises(edges: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Result:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pipeline, "count", fail)
    return mbe("enumerate", edges, "--count-only")


# --- inspect, top, verify, bench ----------------------------------------------------------------------------------


def test_inspect(edges: Path) -> None:
    logger = logging.getLogger("mbe_stage")
    logger.setLevel(logging.INFO)
    result = mbe("inspect", edges, "--engine", "reference")
    # The log level is restored for callers in the same process.
    assert logger.level == logging.INFO
    assert result.exit_code == 0
    assert "3 left x 3 right, 7 edges" in result.stdout
    assert "found 4, which is all" in result.stdout
    facts = answer(mbe("inspect", edges, "--engine", "reference", "--json"))
    assert facts["trial"]["n_bicliques"] == 4
    assert facts["left"]["max"] == 3
    # Shops have 2, 3 and 2 buyers; buyers 2, 3 and 2 shops.
    assert facts["left"]["two_hop"] == facts["right"]["two_hop"] == 4 + 9 + 4
    assert answer(mbe("inspect", edges, "--trial", 0, "--json"))["trial"] is None


def test_top(out: Path) -> None:
    result = mbe("top", out, "--limit", 1)
    assert "ann, bob" in result.stdout
    assert "bakery, kiosk" in result.stdout
    facts = answer(mbe("top", out, "--vertex", "zoo", "--by", "left", "--json"))
    assert [(b["left"], b["right"]) for b in facts["bicliques"]] == [
        (["bob", "cid"], ["kiosk", "zoo"]),
        (["bob"], ["bakery", "kiosk", "zoo"]),
    ]
    refused(mbe("top", out, "--vertex", "dan"), 2, "no vertex 'dan' on either side")
    assert mbe("top", out, "--side", "left").exit_code == 2


def test_verify(out: Path, edges: Path) -> None:
    result = mbe("verify", out)
    assert result.exit_code == 0
    assert "complete and maximal: all 4 bicliques" in result.stdout
    facts = answer(mbe("verify", out, "--input", edges, "--json"))
    assert facts["verified"] is True
    assert facts["checked_against_input"] == facts["bicliques"] == 4


def test_verify_without_the_input_says_so(out: Path, edges: Path) -> None:
    edges.unlink()
    result = mbe("verify", out)
    assert result.exit_code == 0
    assert "unchecked" in result.stdout
    refused(mbe("verify", out, "--input", edges), 2, "edges.csv")


def test_verify_names_the_offender(out: Path) -> None:
    histogram = pipeline.resolve_run(out) / "size_histogram.parquet"
    data = bytearray(histogram.read_bytes())
    data[10] ^= 255
    histogram.write_bytes(data)
    refused(mbe("verify", out), 1, "size_histogram.parquet", "SHA-256")
    result = mbe("verify", out, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verified"] is False


def test_verify_with_another_input(out: Path, edges: Path) -> None:
    edges.write_text(EDGES.replace("ann,kiosk", "ann,zoo"))
    refused(mbe("verify", out), 1, "not the input of this run")


# --- the real command ---------------------------------------------------------------------------------------------


def command(*arguments: object, **options: object) -> subprocess.CompletedProcess:
    return completed([*MBE, *arguments], cwd=ROOT, **options)


def test_help_is_quick_and_lists_the_exit_codes() -> None:
    imported = (
        "import sys; from mbe_stage.pipeline.cli import app\n"
        "try: app.app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'prefect', 'cudf', 'cupy', 'networkx', 'pandas'} & set(sys.modules)))"
    )
    done = completed([sys.executable, "-c", imported], cwd=ROOT, check=True)
    assert "70 a defect" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_help_has_an_example_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-h` equals `--help`; the examples run one after the other, as a user would type them."""
    monkeypatch.chdir(tmp_path)
    # Parsing all modules of the environment would take longer than all other examples.
    monkeypatch.setattr("mbe_stage.pipeline.demo.job.environment_roots", lambda: [ROOT / "pipeline" / "cli"])
    (tmp_path / "edges.csv").write_text(EDGES.replace("left,right", "user,item"))
    (tmp_path / "friends.csv").write_text("name,friend\nx,y\ny,z\nx,z\n")
    (tmp_path / "baskets.dat").write_text("1 2\n1 2 3\n")
    (tmp_path / "config.yaml").write_text(
        "input: {path: edges.csv, left: user, right: item}\noutput: {directory: out}\n"
    )
    names = get_command(app.app).list_commands(Context(get_command(app.app)))
    names[names.index("cases") : names.index("cases") + 1] = ["cases list", "cases export", "cases label"]
    examples = {}
    for name in [None, *names]:
        asked = [] if name is None else name.split()
        shown = mbe(*asked, "-h").stdout
        assert shown == mbe(*asked, "--help").stdout
        assert "-h, --help" in shown
        examples[name] = shown.split("\nExample:\n")[1].split("\n\n")[0].split()
    assert len({tuple(each) for each in examples.values()}) == len(examples)
    for name, (called, *arguments) in examples.items():
        assert called == "mbe"
        assert name is None or arguments[: name.count(" ") + 1] == name.split()
        # `compile` takes long, `explore` does not end, and these edges have no case.
        if name not in ("compile", "explore", "cases export", "cases label"):
            if name == "diff":
                arguments = [each.replace("RUN", "latest") for each in arguments]
                arguments[1] = str(RunStore(tmp_path / "out").latest())
            if name in (None, "enumerate", "cliques", "count-pq", "project", "itemsets", "best", "groups"):
                # Avoid compiling.
                arguments += ["--engine", "reference"]
            done = mbe(*arguments)
            assert done.exit_code == 0, (name, done.output)


def test_completion_completes_commands_options_and_choices(tmp_path: Path) -> None:
    def completes(words: str) -> list[str]:
        asked = {"_MBE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return completed(MBE, cwd=ROOT, env={**os.environ, **asked}, check=True).stdout.split()

    assert completes("mbe e") == ["enumerate", "explore", "export"]
    assert {"--min-left", "--min-edges"} <= set(completes("mbe enumerate --min-"))
    assert completes("mbe count-pq --cou") == ["--count-only"]
    assert "matrix_market" in completes("mbe enumerate --format ")
    # Otherwise Typer completes for the shell of a parent process.
    asked = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = command("--show-completion", "bash", env={**os.environ, **asked})
    assert "_MBE_COMPLETE=complete_bash" in shown.stdout
    home = {**os.environ, **asked, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    installed = command("--install-completion", "bash", env=home)
    assert installed.returncode == 0, installed.stderr
    assert any("_MBE_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_version() -> None:
    done = command("--version")
    assert done.returncode == 0
    git = completed(["git", "rev-parse", "HEAD"], cwd=ROOT)
    commit = rf" \({git.stdout[:12]}(-dirty)?\)" if git.returncode == 0 else ""
    assert re.fullmatch(rf"mbe {re.escape(version('mbe-stage'))}{commit}\n", done.stdout)
    # The full command line prints the same as the shortcut for this option.
    assert mbe("--version").stdout == done.stdout


def test_the_commit_is_of_the_package_and_not_of_the_project_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git would also answer for an installation inside the checkout of another project."""
    monkeypatch.setattr(package_files, "_HOME", tmp_path)
    assert package_files.commit() == ""
    (tmp_path / ".git").mkdir()
    assert package_files.commit() == ""
    (tmp_path / "commit.txt").write_text("0123456789ab\n")
    assert package_files.version_line() == f"mbe {version('mbe-stage')} (0123456789ab)"


@pytest.mark.parametrize("arguments", [[], ["out", "--cache"]])
def test_clean_takes_a_directory_or_the_cache(arguments: list[str]) -> None:
    refused = mbe("clean", *arguments)
    assert refused.exit_code == 2
    assert "name either an output directory or --cache" in refused.stderr


def test_clean_cache_removes_compiled_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = tmp_path / "mbe-stage" / ("0" * 20) / "some.code"
    code.parent.mkdir(parents=True)
    code.touch()
    (tmp_path / "of-another-package").touch()
    removed = {"directory": None, "removed": [str(code.parent)]}
    assert answer(mbe("clean", "--cache", "--json")) == removed
    assert answer(mbe("clean", "--cache", "--json")) == removed | {"removed": []}
    assert [path.name for path in tmp_path.iterdir()] == ["of-another-package"]


def test_results_on_stdout_and_the_rest_on_stderr(tmp_path: Path, edges: Path, commands: Commands) -> None:
    done = command("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference", "--json")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert json.loads(done.stdout)["bicliques"] == 4
    assert done.stderr != ""
    quiet = commands.mbe("enumerate", edges, "--out", tmp_path / "out", "--engine", "reference", "--json", "--quiet")
    assert quiet.stderr == ""


def test_real_exit_codes(tmp_path: Path, commands: Commands) -> None:
    assert command("enumerate", tmp_path / "no.csv").returncode == 2
    assert commands.mbe("verify", tmp_path).returncode == 3


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (1, (StageError, errors.VerificationError)),
        (2, (errors.InputError, errors.ConfigError, InvalidArgument)),
        (3, (errors.PublishError, errors.RunIsBeingWritten)),
        (4, (EngineUnavailable, ClusterLost, DeviceLost, MemoryBudgetExceeded)),
    ],
)
def test_every_error_has_its_code(code: int, kinds: tuple[type[StageError], ...]) -> None:
    assert {kind.__name__: errors.exit_code(kind("said")) for kind in kinds} == {kind.__name__: code for kind in kinds}


def test_progress_on_a_terminal(tmp_path: Path, edges: Path, commands: Commands) -> None:
    import pty

    leader, follower = pty.openpty()
    shown = bytearray()

    def read() -> None:
        # An unread terminal fills up, and the command would block.
        with suppress(OSError):
            while some := os.read(leader, 1 << 16):
                shown.extend(some)

    reader = threading.Thread(target=read)
    reader.start()
    asked = ["enumerate", edges, "--out", tmp_path / "out", "--engine", "reference"]
    done = commands.mbe(*asked, stderr=follower, environment={**os.environ, "TERM": "xterm"})
    os.close(follower)
    reader.join()
    os.close(leader)
    assert done.returncode == 0
    assert "reading the input" in shown.decode() or "enumerating" in shown.decode()
    assert done.stdout.startswith("4 maximal bicliques")


def test_a_column_is_its_name_before_its_position(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("1,0\nann,tea\nbob,tea\n", encoding="utf-8")
    facts = answer(
        mbe(
            "enumerate",
            path,
            "--header",
            "--left",
            0,
            "--right",
            1,
            "--engine",
            "reference",
            "--json",
            "--out",
            tmp_path,
        )
    )
    assert (Path(facts["run"]) / "left_vertices.parquet").is_file()
    assert facts["input"]["n_left"] == 1
    assert facts["input"]["n_right"] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["enumerate", "{edges}", "--count-only", "--json"], ["runs", "{out}", "--json"]])
def test_a_full_disk_behind_stdout_is_one_line(edges: Path, out: Path, command: list[str], commands: Commands) -> None:
    words = [word.format(edges=edges, out=out) for word in command]
    with open("/dev/full", "w") as full:
        done = commands.mbe(*words, stdout=full.fileno())
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: standard output: cannot be written (No space left on device)")
    assert "Traceback" not in done.stderr


def test_json_refusals_include_the_settings(tmp_path: Path) -> None:
    """Each of the settings leads to a result."""
    path = tmp_path / "edges.csv"
    path.write_text("name,m1,m2,m3\nw1,1,0,1\nw2,1,1,0\nw3,0,1,1\n")
    asked = mbe("enumerate", path, "--out", tmp_path / "out", "--json", "--quiet")
    assert asked.exit_code == 2
    said = json.loads(asked.stdout)
    assert said["error"] in asked.stderr
    assert said["settings"] == [{"input.format": "biadjacency"}, {"input.left": "0", "input.right": "1"}]
    found = answer(mbe("enumerate", path, "--out", tmp_path / "out", "--format", "biadjacency", "--json", "--quiet"))
    assert (found["bicliques"], found["input"]["n_left"], found["input"]["n_right"]) == (6, 3, 3)
