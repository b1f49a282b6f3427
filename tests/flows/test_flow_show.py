"""`--show` and `make flow-gpu`: a run's state, tasks and artifacts as text."""

import re
import signal
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from flow_toys import CHECKOUT, N_BICLIQUES
from prefect.client.schemas.objects import Artifact
from prefect.states import Completed, Failed
from processes import environment
from typer.testing import CliRunner

from benchmarks import flow_run as flow_run_module
from mbe_stage.flows.command import app_of
from mbe_stage.flows.transcript import artifact_text, tasks_text
from tests.patience import completed


def flow_run(*arguments, home):
    return completed(
        [sys.executable, "-m", "benchmarks.flow_run", *arguments],
        env=environment(home),
        cwd=CHECKOUT,
    )


def check_shown(printed):
    assert "commit abc" in printed.splitlines()[0]
    assert re.search(rf"^flow run [\w-]+: Completed: {N_BICLIQUES} maximal bicliques published$", printed, re.M)
    states = re.findall(r"^(\w+)-\w+ +(\w+) +1 +\d+\.\d\d$", printed, re.M)
    assert states == [(task, "Completed") for task in ("ingest", "enumerate", "publish", "artifacts")]
    for artifact in ("enumeration-progress (progress)", "bicliques-summary (markdown)", "largest-bicliques (table)"):
        assert f"artifact {artifact}" in printed
    assert f"  | maximal bicliques | **{N_BICLIQUES}**, largest 6 edges |" in printed
    assert re.search(r"^  -?\d+ +2 +3 +6 +a, b +1, 2, 3$", printed, re.M)
    assert re.search(r"^verified ", printed, re.M)


@pytest.mark.slow
def test_the_command_in_its_own_process(edges_file, tmp_path):
    """On the reference tier: a server of its own, tasks, artifacts, verification."""
    done = flow_run(str(edges_file), "--engine", "reference", "--commit", "abc", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    check_shown(done.stdout)
    assert re.search(r"tier reference$", done.stdout, re.M)


def check_failed(code, printed):
    assert code == 2
    assert re.search(r"^flow run [\w-]+: Failed: .*no column 'user'", printed, re.M)
    assert re.search(r"^ingest-\w+ +Failed", printed, re.M)
    assert "verified" not in printed


@pytest.mark.slow
def test_the_one_command_reports_a_failed_run(edges_file, tmp_path):
    done = flow_run(str(edges_file), "--engine", "reference", "--set", "input.left=user", home=tmp_path)
    check_failed(done.returncode, done.stdout)


@pytest.fixture
def restored_signals():
    """Restore the signal handlers that the command sets in this process."""
    heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in heard.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("prefect_server", "restored_signals")
def test_a_run_shows_all_results(edges_file, monkeypatch, capsys):
    """The command and its run in this process, on the existing server, because starting one takes most of the time."""
    monkeypatch.setenv("PREFECT_API_URL", "the user's")
    run = subprocess.run

    def run_here(command, *, env=None, **options):
        if command[0] == "git":
            return run(command, env=env, **options)
        assert command[:3] == [sys.executable, "-m", "mbe_stage.flows.enumerate"]
        assert ("PREFECT_API_URL" in env, env["PREFECT_LOGGING_EXTRA_LOGGERS"]) == (False, "pipeline,mbe_stage")
        done = CliRunner().invoke(app_of("enumerate"), command[3:])
        print(done.stdout)
        return SimpleNamespace(returncode=done.exit_code)

    monkeypatch.setattr(subprocess, "run", run_here)
    assert flow_run_module.main([str(edges_file), "--engine", "reference", "--commit", "abc"]) == 0
    check_shown(capsys.readouterr().out)


@pytest.mark.usefixtures("prefect_server", "restored_signals")
def test_a_run_that_fails(edges_file, tmp_path):
    """In this process, too."""
    command = ["--show", "--input", str(edges_file), "--out", str(tmp_path / "out")]
    settings = ["--set", "execution.engine=reference", "--set", "input.left=user"]
    done = CliRunner().invoke(app_of("enumerate"), [*command, *settings])
    check_failed(done.exit_code, done.stdout)


def test_tasks_are_aligned():
    def task(name, state, runs, seconds):
        return SimpleNamespace(name=name, state=state, run_count=runs, total_run_time=timedelta(seconds=seconds))

    text = tasks_text([task("ingest-1", Completed(), 1, 0.25), task("enumerate-1", Failed(message="full"), 3, 61)])
    assert text.splitlines() == [
        "task         state         runs  seconds",
        "ingest-1     Completed     1     0.25",
        "enumerate-1  Failed: full  3     61.00",
    ]


@pytest.mark.parametrize(
    ("artifact", "lines"),
    [
        ({"type": "progress", "data": 62.5, "description": "share"}, ["artifact a-key (progress): share", "  62.5 %"]),
        ({"type": "markdown", "data": "# One\n\ntwo"}, ["artifact a-key (markdown)", "  # One", "", "  two"]),
        ({"type": "table", "data": '[{"n": 1, "left": "ü"}]'}, ["artifact a-key (table)", "  n  left", "  1  ü"]),
        ({"type": "table", "data": "[]"}, ["artifact a-key (table)", "  none"]),
    ],
    ids=str,
)
def test_artifacts_as_text(artifact, lines):
    assert artifact_text(Artifact(key="a-key", **artifact)).splitlines() == lines


def test_long_cells_are_cut():
    text = artifact_text(Artifact(key="a-key", type="table", data='[{"left": "' + "x" * 61 + '"}]'))
    assert text.splitlines()[-1] == "  " + "x" * 57 + "..."
