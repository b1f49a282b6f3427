"""The two scheduled ways of docs/how-to/schedule.md with real processes: server and work pool, and `--serve`."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from flow_toys import CHECKOUT, N_BICLIQUES
from processes import Api, descendants, environment, eventually, free_port, started

from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.run_store import RunStore
from tests.patience import PATIENCE, completed

ARTIFACTS = {"enumeration-progress", "bicliques-summary", "largest-bicliques", "bicliques-report", "since-last-run"}
PREFECT = [sys.executable, "-m", "prefect"]
# A limit for the endless run, in case its test is killed.
ENDS_ITSELF = ["--set", "execution.engine=reference", "--set", "execution.time_limit_seconds=600"]


def check_published(api: Api, run_id: str, out: Path) -> None:
    """Check that the run has completed, is published, and has its artifacts."""
    state = api.finished(run_id)
    assert state is not None
    assert (state["type"], state["message"]) == ("COMPLETED", f"{N_BICLIQUES} maximal bicliques published")
    assert RunStore(out).latest() is not None
    shown = api.artifacts(run_id)
    assert set(shown) == ARTIFACTS
    assert f"**{N_BICLIQUES}**, largest 6 edges" in shown["bicliques-summary"]["data"]


@pytest.mark.slow
def test_server_and_work_pool(edges_file, tmp_path):
    """The unchanged `prefect.yaml`, deployed to a real server and run by a real worker."""
    port, home, project = free_port(), tmp_path / "home", tmp_path / "project"
    api, env = Api(port), environment(home)
    project.mkdir()
    shutil.copy(CHECKOUT / "prefect.yaml", project)
    shutil.copytree(CHECKOUT / "configs", project / "configs")
    env["PREFECT_API_URL"] = api.url

    server = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    with started(server, tmp_path / "server.log", env=env) as server_process:
        eventually(api.healthy, process=server_process)
        for pool in ("local", "gpu"):
            api.post("work_pools/", name=pool, type="process")
        worker = [*PREFECT, "worker", "start", "--pool", "local"]
        with started(worker, tmp_path / "worker.log", env=env, cwd=tmp_path) as worker_process:
            completed([*PREFECT, "--no-prompt", "deploy", "--all"], env=env, cwd=project, check=True)
            deployment = api.deployment("daily")
            assert deployment is not None
            assert [schedule["schedule"]["cron"] for schedule in deployment["schedules"]] == ["0 6 * * *"]
            on_gpu = api.deployment("gpu-daily")
            assert (on_gpu["work_pool_name"], on_gpu["parameters"]["config_path"]) == ("gpu", "configs/gpu.yaml")
            assert [schedule["schedule"]["cron"] for schedule in on_gpu["schedules"]] == ["30 6 * * *"]
            run_id = api.trigger(deployment, input_path=str(edges_file), overrides=["execution.engine=reference"])
            eventually(lambda: api.finished(run_id), process=worker_process)
            # A relative output directory belongs to the directory of the deployment.
            check_published(api, run_id, project / "out")
    assert not api.healthy()


@pytest.mark.parametrize("fails_too", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_serve_brings_its_own_server(edges_file, tmp_path, fails_too):
    """The documented command: scheduled runs appear, a triggered one works, and nothing stays behind."""
    port, out = free_port(), tmp_path / "out"
    api = Api(port)
    command = [
        *[sys.executable, "-m", "mbe_stage.flows.enumerate", "my.yaml", "--set", "execution.engine=reference"],
        *["--serve", "--cron", "0 6 * * *", "--port", str(port)],
    ]
    # Relative paths in the configuration belong to the directory where the command starts.
    (tmp_path / "my.yaml").write_text(f"input: {{path: {edges_file.name}}}\noutput: {{directory: out}}\n")
    with started(command, tmp_path / "serve.log", env=environment(tmp_path / "home"), cwd=tmp_path) as process:
        eventually(api.healthy, process=process)
        deployment = eventually(lambda: api.deployment("scheduled"), process=process)
        assert deployment["tags"] == ["bicliques"]
        idle = set(descendants(process.pid))
        run_id = api.trigger(deployment)
        eventually(lambda: api.finished(run_id), process=process)
        check_published(api, run_id, out)
        # The page finds the API at this port; both need the secret.
        assert httpx.get(f"http://127.0.0.1:{port}/ui-settings").json()["api_url"] == api.url
        for auth in (None, ("tests", "another")):
            assert httpx.post(f"{api.url}/flow_runs/filter", json={}, auth=auth).status_code == 401
        if fails_too:
            missing = api.trigger(deployment, input_path="missing.csv")
            state = eventually(lambda: api.finished(missing), process=process)
            assert (state["type"], "missing.csv: no such file" in state["message"]) == ("FAILED", True)
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        runs = eventually(lambda: api.post("flow_runs/filter", flow_runs=scheduled), process=process)
        assert all(run["auto_scheduled"] and "T06:00:00" in run["expected_start_time"] for run in runs)
        # The run's own process ends later than the run. Interrupted meanwhile, it logs a traceback of Prefect's.
        eventually(lambda: set(descendants(process.pid)) <= idle, process=process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert not api.healthy()
    log = (tmp_path / "serve.log").read_text()
    assert ("missing.csv: no such file" in log) == fails_too
    assert not any(word in log for word in ("Traceback", "unexpected exception")), log[-20_000:]
    assert "no secret" not in log


@pytest.fixture
def endless(tmp_path):
    """Return the crown graph of 30: the reference engine would need hours for its 2^30 - 2 maximal bicliques."""
    crown = tmp_path / "crown.csv"
    crown.write_text("left,right\n" + "".join(f"{a},{b}\n" for a in range(30) for b in range(30) if a != b))
    return crown


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_to_everything_ends_a_single_run_at_once(endless, tmp_path, number):
    """A terminal's Ctrl-C goes to the whole group; the run's own server must outlive it."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "mbe_stage.flows.enumerate", "--input", str(endless), "--out", str(out)]
    command += ENDS_ITSELF
    with started(command, tmp_path / "run.log", env=environment(tmp_path / "home"), cwd=tmp_path) as process:
        begun = time.monotonic()
        eventually(lambda: list((out / ".staging").glob("*/scratch/facts.json")), process=process)
        getting_there = time.monotonic() - begun
        servers = descendants(process.pid)
        assert servers
        os.killpg(process.pid, number)
        # Prefect's client retries a missing server for some ninety seconds. If starting a run takes that long, ending
        # it may too.
        assert process.wait(max(85.0, 5 * getting_there)) == 130
        log = (tmp_path / "run.log").read_text()
        assert log.splitlines()[-1] == "interrupted; the latest published run: none"
        assert "Traceback" not in log
        assert [path.name for path in (out / ".staging").iterdir()] == [".lock"]
        assert not any(Path(f"/proc/{pid}").exists() for pid in servers)
        lines = [line for line in log.splitlines() if " | INFO " in line]
        assert lines
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \| ", line) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("is_served", [False, True], ids=["once", "served"])
def test_sigterm_to_all_processes_saves_the_results(tmp_path, is_served):
    """A service ended by systemd: the server gets the signal too, and a runner signals the flow's process again."""
    port, out, crowns = free_port(), tmp_path / "out", tmp_path / "crowns.csv"
    api = Api(port)
    # 100 million bicliques, and at most 131,072 below a root: what has begun ends in time on a busy machine, too.
    edges = [(a, b) for a in range(18) for b in range(18) if a != b]
    lines = "".join(f"{k}-{a},{k}-{b}\n" for k in range(400) for a, b in edges)
    crowns.write_text(f"left,right\n{lines}")
    command = [sys.executable, "-m", "mbe_stage.flows.enumerate", "--input", str(crowns), "--out", str(out)]
    command += ["--set", "execution.engine=cpu", "--set", "output.checkpoint_seconds=3600"]
    command += ["--serve", "--cron", "0 6 * * *", "--port", str(port)] if is_served else []
    with started(command, tmp_path / "run.log", env=environment(tmp_path / "home"), cwd=tmp_path) as process:
        if is_served:
            eventually(api.healthy, process=process)
            api.trigger(eventually(lambda: api.deployment("scheduled"), process=process))
        eventually(lambda: list((out / ".staging").glob("*/*/bicliques/*.parquet")), process=process)
        time.sleep(1.0)
        everybody = [process.pid, *descendants(process.pid)]
        begun = time.monotonic()
        for pid in everybody:
            os.kill(pid, signal.SIGTERM)
        assert process.wait(85.0) == (0 if is_served else 130)
        took = time.monotonic() - begun
    log = (tmp_path / "run.log").read_text()
    assert "saving a last checkpoint" in log
    (kept,) = list_unfinished(out)
    assert kept.n_found > 0, log
    assert RunStore(out).runs() == []
    # The grace period is ten seconds; a missing server would be retried for a minute and a half.
    assert took < 60


@pytest.mark.slow
def test_a_single_run_ends_with_its_terminal(endless, tmp_path):
    """The kernel signals the group, a shell signals it again, and no output is possible."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "mbe_stage.flows.enumerate", "--input", str(endless), "--out", str(out)]
    command += ENDS_ITSELF
    ours, theirs = os.openpty()
    on_terminal = {"env": environment(tmp_path / "home"), "cwd": tmp_path, "preexec_fn": lambda: os.dup2(theirs, 2)}
    with started(command, tmp_path / "run.log", **on_terminal) as process:
        os.close(theirs)
        eventually(lambda: list((out / ".staging").glob("*/scratch/facts.json")), process=process)
        servers = descendants(process.pid)
        assert servers
        os.close(ours)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGHUP)
        process.wait(PATIENCE)
        assert [path.name for path in (out / ".staging").iterdir()] == [".lock"]
        assert not any(Path(f"/proc/{pid}").exists() for pid in servers)


@pytest.mark.slow
@pytest.mark.parametrize("is_ignored", [False, True])
def test_sighup_ends_serving_unless_ignored(edges_file, tmp_path, is_ignored):
    port = free_port()
    api = Api(port)
    command = [
        sys.executable,
        "-m",
        "mbe_stage.flows.enumerate",
        "--input",
        str(edges_file),
        "--out",
        str(tmp_path / "out"),
    ]
    command += ["--serve", "--cron", "0 6 * * *", "--port", str(port)]
    nohup = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if is_ignored else None
    options = {"env": environment(tmp_path / "home"), "cwd": tmp_path, "preexec_fn": nohup}
    with started(command, tmp_path / "serve.log", **options) as process:
        eventually(api.healthy, process=process)
        eventually(lambda: api.deployment("scheduled"), process=process)
        servers = descendants(process.pid)
        assert servers
        process.send_signal(signal.SIGHUP)
        if is_ignored:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(5)
            assert api.healthy()
        else:
            assert process.wait(PATIENCE) == 0
            assert not any(Path(f"/proc/{pid}").exists() for pid in servers)


@pytest.mark.slow
def test_cancelled_run_leaves_nothing(endless, tmp_path):
    """A run cancelled in Prefect stops, publishes nothing and clears its staging."""
    port, out = free_port(), tmp_path / "out"
    api = Api(port)
    command = [
        *[sys.executable, "-m", "mbe_stage.flows.enumerate", "--input", str(endless), "--out", str(out)],
        *[*ENDS_ITSELF, "--serve", "--cron", "0 6 * * *", "--port", str(port)],
    ]
    with started(command, tmp_path / "serve.log", env=environment(tmp_path / "home"), cwd=tmp_path) as process:
        eventually(api.healthy, process=process)
        run_id = api.trigger(eventually(lambda: api.deployment("scheduled"), process=process))
        eventually(lambda: "enumeration-progress" in api.artifacts(run_id), process=process)
        staging = out / ".staging"
        assert [path for path in staging.iterdir() if path.is_dir()]
        api.post(f"flow_runs/{run_id}/set_state", state={"type": "CANCELLING"})
        state = eventually(lambda: api.finished(run_id), process=process)
        assert state["type"] == "CANCELLED"
        eventually(lambda: not [path for path in staging.iterdir() if path.is_dir()], process=process)
        assert RunStore(out).runs() == []
