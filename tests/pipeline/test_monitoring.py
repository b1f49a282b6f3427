"""JSON lines on stderr and the metrics file: every line is an object, every sample is well-formed, at any time."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mbe_stage.pipeline.cli import console, json_log
from tests.commands import Commands
from tests.monitoring_support import metrics_in, objects_in
from tests.pipeline.test_ended_by_signal import end, seconds_until, start

JSON = ("--log-format", "json")


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("left,right\na,x\nb,x\nb,y\n")
    return path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A crown of 2^40 bicliques."""
    path = tmp_path / "crown.csv"
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u in range(40) for v in range(40) if u != v))
    return path


def last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return objects_in(done.stderr)[-1]


def test_a_run_with_progress_and_a_warning(endless: Path, tmp_path: Path, commands: Commands) -> None:
    done = commands.mbe(
        *("enumerate", endless, "--out", tmp_path / "out", "--threads", 1, "--time-limit", 3, "--json", *JSON)
    )
    lines, (result,) = objects_in(done.stderr), done.stdout.splitlines()
    assert done.returncode == 0
    moments = [datetime.fromisoformat(line["time"]) for line in lines]
    assert moments == sorted(moments)
    assert {line["level"] for line in lines} == {"info", "warning"}
    assert {"read", "enumerate"} <= {line["step"] for line in lines}
    searching = [line for line in lines if "found" in line and line["step"] == "enumerate"]
    assert searching[-1]["found"] >= searching[0]["found"] > 0
    assert all(line["seconds"] > 0 for line in searching)
    published = json.loads(result)
    assert (lines[-1]["message"], lines[-1]["exit_code"], lines[-1]["found"]) == ("done", 0, published["bicliques"])
    assert lines[-1]["run"] == Path(published["run"]).name
    assert lines[-1]["steps"] == published["seconds"]


@pytest.mark.parametrize(
    ("arguments", "code", "step", "said"),
    [
        (["enumerate", "edges.csv", "--left", "nobody"], 2, "read", "no column 'nobody'"),
        (["run", "nothing.yaml"], 2, "run", "nothing.yaml: cannot be read"),
        (["top", "nowhere"], 3, "top", "nowhere: does not exist"),
        (["enumerate", "edges.csv", "--lef", "x"], 2, "enumerate", "No such option"),
        (["enumerat"], 2, "enumerat", "No such command 'enumerat'"),
        (["enumerate", "edges.csv", "--engine", "cuda", "--threads", "x"], 2, "enumerate", "--threads"),
    ],
)
def test_an_error_is_an_object_and_codes_stay(
    arguments: list[str], code: int, step: str, said: str, edges: Path, commands: Commands
) -> None:
    done = commands.mbe(*arguments, *JSON, cwd=edges.parent)
    (error,) = (line for line in objects_in(done.stderr) if line["level"] == "error")
    assert (done.returncode, error["exit_code"], error["step"]) == (code, code, step)
    assert said in error["message"]
    assert commands.mbe(*arguments, cwd=edges.parent).returncode == code


def test_a_defect_a_warning_of_python_and_one_of_another_library(edges: Path, commands: Commands) -> None:
    code = """
import logging, sys, warnings
from mbe_stage import pipeline
from mbe_stage.pipeline.cli import app
def fails(*_, **__):
    warnings.warn("on two\\nlines")
    logging.getLogger("distributed.worker").info("which text does not show either")
    logging.getLogger("distributed.worker").warning("as another says")
    raise ZeroDivisionError("by nothing")
pipeline.run = fails
app.main()
"""
    done = commands.python(code, edges.parent, {**os.environ}, "enumerate", str(edges), "--log-format=json")
    ours, others, defect = objects_in(done.stderr)
    assert "on two\nlines" in ours["message"]
    assert others["message"] == "as another says"
    assert (done.returncode, defect["exit_code"]) == (70, 70)
    assert "a defect of mbe: ZeroDivisionError" in defect["message"]
    assert defect["traceback"].endswith("ZeroDivisionError: by nothing\n")


def test_the_environment_decides_unless_an_option_does(edges: Path, commands: Commands) -> None:
    environment = {**os.environ, "MBE_LOG_FORMAT": "json"}
    run = ("enumerate", edges, "--count-only", "--quiet", "--left", "nobody")
    assert last(commands.mbe(*run, environment=environment))["exit_code"] == 2
    assert commands.mbe(*run, "--log-format=text", environment=environment).stderr.startswith("error: ")
    refused = commands.mbe(*run, environment={**os.environ, "MBE_LOG_FORMAT": "xml"})
    assert refused.returncode == 2
    assert "MBE_LOG_FORMAT" in refused.stderr


def test_json_has_no_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console.set_up_logging(quiet=False).is_terminal
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers])
    json_log.choose(["enumerate", "--log-format", "json"])
    made: Console = console.set_up_logging(quiet=False)
    assert not made.is_terminal
    json_log.choose(["enumerate"])
    assert not json_log.is_json()


def values_of(path: Path, **labels: str) -> dict[str, float]:
    """Return the samples with exactly these labels, by name."""
    return {name: value for name, found, value in metrics_in(path.read_text()) if found == labels}


def test_metrics_of_a_run_an_unchanged_run_and_a_failed_run(tmp_path: Path, edges: Path, commands: Commands) -> None:
    file = tmp_path / "mbe.prom"
    run = ("enumerate", edges, "--out", tmp_path / "out", "--json")
    done = json.loads(commands.mbe(*run, "--metrics", file).stdout)
    first = values_of(file, problem="bicliques")
    assert (first["mbe_run_active"], first["mbe_last_run_success"], first["mbe_last_run_exit_code"]) == (0, 1, 0)
    assert first["mbe_last_run_found"] == done["bicliques"] == 2
    assert first["mbe_last_run_peak_memory_bytes"] == done["peak_memory_bytes"]
    assert first["mbe_last_run_output_bytes"] > 1000
    assert first["mbe_last_success_timestamp_seconds"] == first["mbe_last_run_end_timestamp_seconds"]
    assert values_of(file, problem="bicliques", step="total") == {"mbe_last_run_step_seconds": done["seconds"]["total"]}
    assert values_of(file, problem="bicliques", run=Path(done["run"]).name) == {"mbe_last_run_info": 1}

    environment = {**os.environ, "MBE_METRICS": str(file)}
    assert commands.mbe(*run, "--if-changed", environment=environment).returncode == 5
    unchanged = values_of(file, problem="bicliques")
    assert (unchanged["mbe_last_run_success"], unchanged["mbe_last_run_exit_code"]) == (1, 5)
    assert "mbe_last_run_found" not in unchanged

    assert commands.mbe(*run, "--left", "nobody", "--metrics", file).returncode == 2
    failed = values_of(file, problem="bicliques")
    assert (failed["mbe_last_run_success"], failed["mbe_last_run_exit_code"]) == (0, 2)
    assert failed["mbe_last_success_timestamp_seconds"] == unchanged["mbe_last_success_timestamp_seconds"]
    assert commands.mbe("run", tmp_path / "nothing.yaml", "--metrics", file).returncode == 2
    assert values_of(file)["mbe_last_run_success"] == 0
    assert [path.name for path in tmp_path.iterdir() if "mbe" in path.name] == ["mbe.prom"]


@pytest.mark.parametrize("command", ["cliques", "count-pq", "groups"])
def test_each_problem_has_them(command: str, tmp_path: Path, edges: Path, commands: Commands) -> None:
    file = tmp_path / "mbe.prom"
    more = ["-p", 1, "-q", 1] if command == "count-pq" else ["--out", tmp_path / "out"]
    assert commands.mbe(command, edges, *more, "--metrics", file).returncode == 0
    problem = {"count-pq": "pq_counts", "groups": "bicliques"}.get(command, command)
    assert values_of(file, problem=problem)["mbe_last_run_success"] == 1


def test_other_files_are_not_replaced(tmp_path: Path, edges: Path, commands: Commands) -> None:
    before = edges.read_bytes()
    pipe, mixed = tmp_path / "pipe", tmp_path / "mixed.prom"
    os.mkfifo(pipe)
    mixed.write_text("mbe_run_active 0\nnode_load1 3\n")
    others = [(file, "holds more than metrics") for file in (edges, pipe, mixed)]
    for file, reason in (*others, (tmp_path / "no" / "e.prom", "no writable directory")):
        refused = commands.mbe("enumerate", edges, "--count-only", "--metrics", file)
        assert refused.returncode == 2
        assert reason in " ".join(refused.stderr.split())
    assert edges.read_bytes() == before
    assert not (tmp_path / "no").exists()
    assert mixed.read_text().endswith("node_load1 3\n")


def test_an_empty_file_is_filled_and_keeps_its_permissions(tmp_path: Path, edges: Path, commands: Commands) -> None:
    file = tmp_path / "empty.prom"
    file.touch(mode=0o640)
    assert commands.mbe("enumerate", edges, "--count-only", "--metrics", file).returncode == 0
    assert values_of(file, problem="bicliques")["mbe_last_run_success"] == 1
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("arguments", [["--bad"], ["--log-format", "json", "enumerate", "edges.csv"], []])
def test_errors_before_the_command_is_known_are_objects(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, commands: Commands
) -> None:
    monkeypatch.setenv("MBE_LOG_FORMAT", "json")
    done = commands.mbe(*arguments)
    (error,) = objects_in(done.stderr)
    assert (done.returncode, error["exit_code"], error["level"]) == (2, 2, "error")


def test_an_interrupt_leaves_the_outcome_and_no_other_file(tmp_path: Path, endless: Path) -> None:
    file = tmp_path / "metrics" / "mbe.prom"
    file.parent.mkdir()
    file.write_text("# TYPE mbe_last_run_found gauge\nmbe_last_run_found 7\nmbe_run_active 0\n")
    asked = ("enumerate", endless, "--out", tmp_path / "out", "--engine", "reference", "--time-limit", 600, *JSON)
    process = start(*asked, "--metrics", file)
    seconds_until(process, lambda: ("mbe_run_active", {"problem": "bicliques"}, 1) in list(samples(file)))
    assert ("mbe_last_run_found", {}, 7) in list(samples(file))
    process.send_signal(signal.SIGINT)
    code, _out, err = end(process)
    error = objects_in(err)[-1]
    assert (code, error["exit_code"], error["level"]) == (130, 130, "error")
    assert re.match("interrupted: nothing was published", error["message"])
    assert values_of(file, problem="bicliques")["mbe_last_run_exit_code"] == 130
    assert os.listdir(file.parent) == [file.name]


def samples(file: Path) -> Iterator[tuple[str, dict[str, str], float]]:
    # As a scraper reads it at any moment; the file is never partial.
    yield from metrics_in(file.read_text(), of_a_writer=False)
