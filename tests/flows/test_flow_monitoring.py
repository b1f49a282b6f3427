"""JSON log lines of a flow, including Prefect's, and its metrics."""

import json
import sys
from pathlib import Path

import pytest
from flow_toys import CHECKOUT, N_BICLIQUES
from prefect.settings import PREFECT_API_URL
from processes import environment

from tests.monitoring_support import metrics_in, objects_in
from tests.patience import completed


def flow(edges_file: Path, home: Path, *arguments: object):
    asked = ["--input", edges_file, "--out", home / "out", "--set", "execution.engine=reference", *arguments]
    monitored = environment(
        home, MBE_LOG_FORMAT="json", MBE_METRICS=str(home / "mbe.prom"), PREFECT_API_URL=PREFECT_API_URL.value()
    )
    done = completed([sys.executable, "-m", "mbe_stage.flows.enumerate", *asked], env=monitored, cwd=CHECKOUT)
    values = {name: value for name, _, value in metrics_in((home / "mbe.prom").read_text())}
    return done, objects_in(done.stderr), values


@pytest.mark.usefixtures("prefect_server")
def test_a_flow_run(edges_file, tmp_path):
    done, lines, values = flow(edges_file, tmp_path)
    assert done.returncode == 0, done.stderr
    said, run = done.stdout.splitlines()
    assert said.startswith(f"{N_BICLIQUES} maximal bicliques")
    assert {line["task_run_name"].split("-")[0] for line in lines if "task_run_name" in line} == {
        *("ingest", "enumerate", "publish", "artifacts")
    }
    (progress,) = (line for line in lines if line.get("task_run_name", "").startswith("enum") and "found" in line)
    assert progress["found"] == N_BICLIQUES
    (end,) = (line for line in lines if line["message"] == "done")
    manifest = json.loads((Path(run) / "manifest.json").read_text())
    assert (end["run"], end["exit_code"], end["steps"]) == (Path(run).name, 0, manifest["seconds"])
    assert (values["mbe_last_run_success"], values["mbe_last_run_found"]) == (1, N_BICLIQUES)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_flow_run_that_fails(edges_file, tmp_path):
    done, lines, values = flow(edges_file, tmp_path, "--set", "input.left=nobody")
    assert done.returncode == 2
    assert lines[-1]["exit_code"] == 2
    assert "no column 'nobody'" in lines[-1]["message"]
    assert (values["mbe_last_run_success"], values["mbe_last_run_exit_code"]) == (0, 2)
