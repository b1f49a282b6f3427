"""Parts of the flow without Prefect's engine."""

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from types import SimpleNamespace

import httpx
import pytest
import yaml
from flow_toys import CHECKOUT, EDGES, N_BICLIQUES
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.schedules import CronSchedule
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_LOGGING_SETTINGS_PATH,
    temporary_settings,
)
from typer.testing import CliRunner

from mbe_stage.bicliques.enumerate import Progress
from mbe_stage.flows import command, server
from mbe_stage.flows import enumerate as flow_module
from mbe_stage.flows import progress as flows_progress
from mbe_stage.flows.artifacts import summary_markdown, unchanged_markdown
from mbe_stage.flows.cliques import configure as configure_cliques
from mbe_stage.flows.cliques import enumerate_cliques_flow
from mbe_stage.flows.command import app_of
from mbe_stage.flows.count_pq import configure as configure_counts
from mbe_stage.flows.count_pq import count_pq_flow
from mbe_stage.flows.enumerate import configure, enumerate_bicliques_flow, enumerate_staged, read_edges
from mbe_stage.flows.groups import configure as configure_groups
from mbe_stage.flows.groups import find_groups_flow
from mbe_stage.flows.progress import ProgressReporter, describe, shown_share
from mbe_stage.flows.retries import may_pass
from mbe_stage.flows.server import serve
from mbe_stage.forecast import Outlook
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import ConfigError, InputError, PublishError
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.steps import load_edges
from mbe_stage.pipeline.execution.tiers import tier_named
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.report.markdown import groups_table
from tests.mbe_stage import small_gpu
from tests.patience import PATIENCE
from tests.pipeline.plugins import Installed

REFERENCE = tier_named("reference")
NO_SECONDS = {"read": 0.0, "load": 0.0}


def caused(error, cause):
    """Return the error as `raise error from cause` leaves it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EIO, "input/output error"), True),
        (OSError(errno.ESTALE, "stale file handle"), True),
        (TimeoutError("no answer"), True),
        (FileNotFoundError(errno.ENOENT, "no such file"), False),
        (PermissionError(errno.EACCES, "no permission"), False),
        (ValueError("something else"), False),
        (InputError("edges.csv: no column 'user'"), False),
        (ConfigError("query.min_left is 0"), False),
        (caused(InputError("cannot be read"), OSError(errno.EIO, "input/output error")), True),
        (caused(InputError("cannot be read"), OSError(errno.ENOENT, "no such file")), False),
        (caused(InputError("truncated archive"), OSError("Not a gzipped file")), False),
        (caused(PublishError("cannot be written"), OSError(errno.ENOSPC, "no space left")), True),
        (caused(PublishError("cannot be written"), OSError(errno.EROFS, "read-only")), False),
        (PublishError("has no manifest"), False),
    ],
    ids=repr,
)
def test_only_temporary_errors_are_retried(error, expected):
    assert may_pass(error) is expected


@pytest.mark.parametrize(
    "path", ["edges.csv", "12", "a: b.csv", "null", "# odd", "naïve 'quoted'\"name\".csv", "out[1]"]
)
def test_paths_are_taken_literally(path):
    config = configure(input_path=path, output_directory=path)
    assert (config.input.path, config.output.directory) == (path, path)


def test_configuration_in_layers(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("input: {path: from-file.csv}\nquery: {min_left: 2, min_right: 5}\n")
    config = configure(str(file), "given.csv", None, ["query.min_left=3", "input.path=override.csv"])
    assert (config.query.min_left, config.query.min_right) == (3, 5)
    assert config.input.path == "given.csv"
    assert config.output.directory == "out"


def test_a_configuration_may_ask_for_another_problem(tmp_path, monkeypatch):
    packages = Installed(tmp_path / "installed", monkeypatch)
    packages.add("sky", "stars")
    file = tmp_path / "my.yaml"
    file.write_text("problem: stars\nstars: {points: 2}\n")
    try:
        assert configure(str(file)).problem_section.points == 2
        config = configure(overrides=["problem=stars", "stars.points=3"])
        assert (config.problem, config.problem_section.points) == ("stars", 3)
        # Tasks pass it on as plain values.
        assert Config.from_mapping(config.model_dump(mode="json")) == config
        with pytest.raises(ConfigError, match=r"problem is 'star': did you mean 'stars'\? expected one of bicliques"):
            configure(overrides=["problem=star"])
    finally:
        packages.forget()


def test_the_configuration_of_groups_is_read_once(tmp_path):
    os.mkfifo(path := tmp_path / "groups.yaml")
    thread = threading.Thread(target=path.write_text, args=("output:\n  top: 7\nquery:\n  min_left: 2\n",))
    thread.start()
    config = configure_groups(str(path), overrides=["groups.limit=3"])
    thread.join(PATIENCE)
    assert (config.output.top, config.query.min_left, config.section("groups").limit) == (7, 2, 3)
    assert not config.output.bicliques
    for text, says in (("output: 3", "output"), ("groups: 3", "groups")):
        (tmp_path / "wrong.yaml").write_text(text)
        with pytest.raises(ConfigError, match=says):
            configure_groups(str(tmp_path / "wrong.yaml"))
    (tmp_path / "empty.yaml").write_text("output:\ngroups:\n")
    config = configure_groups(str(tmp_path / "empty.yaml"))
    assert (config.section("groups").limit, config.output.bicliques) == (100, False)


def test_configuration_refuses_an_unknown_key():
    with pytest.raises(ConfigError, match=r"query\.min_lft: unknown key; did you mean 'min_left'"):
        configure(overrides=["query.min_lft=3"])


@pytest.mark.parametrize(
    ("progress", "line", "percent"),
    [
        (Progress(10, 0.5, 0.0), "10 bicliques in 0 s (0 a second), 50 % of the work by a guess", 50),
        (
            Progress(30, 0.9, 10.0, "cpu", Outlook(90, 101, 110), 0.3, 23.3),
            "30 of about 100 bicliques in 10 s (3 a second), 30 %, 23 s left",
            30,
        ),
        (
            Progress(30, 0.9, 10.0, "cpu", Outlook(300, 500, None)),
            "30 of at least 300 bicliques (total unknown) in 10 s (3 a second), share unknown",
            None,
        ),
        (Progress(30, 1.0, 10.0, "cpu", Outlook.exactly(30), 1.0, 0.0), "30 bicliques in 10 s (3 a second), all", 100),
        (
            Progress(30, 0.9, 10.0, "cpu", Outlook(90, 101, 110), 0.3, 0.0, has_stopped=True),
            "30 bicliques in 10 s (3 a second), stopped, finishing",
            30,
        ),
        (Progress(30, 1.0, 10.0, search="later ones"), "later ones: 30 bicliques in 10 s (3 a second), all", 100),
    ],
    ids=["a guess", "known", "open", "the end", "stopped", "another search"],
)
def test_progress_line(progress, line, percent):
    assert describe(progress) == line
    assert shown_share(progress) == (None if percent is None else pytest.approx(percent / 100))


def test_the_bar_keeps_its_value_without_an_estimate(monkeypatch):
    bars = []
    monkeypatch.setattr(flows_progress, "create_progress_artifact", lambda *_, **__: None)
    monkeypatch.setattr(
        flows_progress, "update_progress_artifact", lambda _, share, description: bars.append((share, description))
    )
    reporter = ProgressReporter(logging.getLogger("tests"), every_seconds=0.0)
    reporter(Progress(30, 0.9, 10.0, "cpu", Outlook(90, 101, 110), 0.3, 23.3))
    reporter(Progress(31, 0.9, 11.0, "cpu", Outlook(90, 500, None)))
    reporter(Progress(32, 0.9, 12.0, "cpu", Outlook(300, 320, 340), 0.1, 100.0))
    assert [share for share, _ in bars] == pytest.approx([30, 30, 10])
    assert ["unknown" in text for _, text in bars] == [False, True, False]


def test_the_end_of_the_first_search_is_reported_before_the_second(caplog, monkeypatch):
    monkeypatch.setattr(flows_progress, "create_progress_artifact", lambda *_, **__: None)
    monkeypatch.setattr(flows_progress, "update_progress_artifact", lambda *_, **__: None)
    with caplog.at_level(logging.INFO, "tests"), ProgressReporter(logging.getLogger("tests")) as reporter:
        for found, done, search in ((3, 0.5, ""), (9, 1.0, ""), (2, 0.5, "later ones"), (4, 1.0, "later ones")):
            reporter(Progress(found, done, 1.0, search=search))
    assert [record.getMessage().partition(" in ")[0] for record in caplog.records] == [
        "9 bicliques",
        "later ones: 4 bicliques",
    ]


def test_task_functions_are_plain_functions(edges_file, tmp_path):
    config = configure(None, str(edges_file), str(tmp_path / "out"), ["execution.engine=reference"])
    seen = []
    with RunStore(config.output.directory).begin() as staging:
        read = read_edges(config, str(staging.scratch), REFERENCE)
        assert read["facts"]["n_edges"] == len(EDGES) == load_edges(staging.scratch).left_ids.size
        enumerate_staged(config, str(staging.scratch), str(staging.path), read["seconds"], REFERENCE, seen.append)
        run = staging.publish()
    manifest = read_manifest(run)
    assert manifest.counts.bicliques == N_BICLIQUES == seen[-1].n_bicliques
    assert manifest.seconds["read"] == pytest.approx(read["seconds"]["read"], abs=1e-6)
    assert f"**{N_BICLIQUES}**, largest 6 edges" in summary_markdown(run, manifest)
    assert manifest.run_id in unchanged_markdown(run, manifest)
    largest = groups_table(run, 1)
    assert [(row["n_left"], row["n_right"], row["left"], row["right"]) for row in largest] == [
        (2, 3, "a, b", "1, 2, 3")
    ]
    assert int(largest[0]["biclique_key"])


def test_the_cpu_takes_over_from_a_gpu_that_is_too_small(edges_file, tmp_path, monkeypatch, caplog):
    small_gpu.install(monkeypatch)
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "not here")
    config = configure(None, str(edges_file), str(tmp_path / "out"), ["output.report=false"])
    tier = tiers.choose_tier(config.execution)
    with RunStore(config.output.directory).begin() as staging:
        read_edges(config, str(staging.scratch), tier)
        # Tasks get the tier's name only.
        again = tier_named(tier.name)
        enumerate_staged(config, str(staging.scratch), str(staging.path), NO_SECONDS, again)
        manifest = read_manifest(staging.publish())
    assert (tier.engine, manifest.engine, manifest.counts.bicliques) == ("cuda", "cpu", N_BICLIQUES)
    assert "cpu takes over" in caplog.text


def test_long_groups_are_cut_in_the_table(tmp_path):
    star = tmp_path / "star.csv"
    star.write_text("left,right\n" + "".join(f"hub,{leaf}\n" for leaf in range(1, 21)))
    config = configure(None, str(star), str(tmp_path / "out"), ["execution.engine=reference", "output.report=false"])
    with RunStore(config.output.directory).begin() as staging:
        read_edges(config, str(staging.scratch), REFERENCE)
        enumerate_staged(config, str(staging.scratch), str(staging.path), NO_SECONDS, REFERENCE)
        (row,) = groups_table(staging.publish(), 5)
    assert row["n_right"] == 20
    assert row["right"] == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 8 more"


@pytest.mark.parametrize("name", ["ingest_task", "enumerate_task", "publish_task", "artifacts_task"])
def test_tasks_store_and_hash_nothing(name):
    task = getattr(flow_module, name)
    assert task.persist_result is False
    assert task.cache_policy == NO_CACHE


def test_prefect_yaml_fits_the_flow(monkeypatch):
    deployments = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]
    pools = dict.fromkeys(("daily", "cluster-daily", "groups-daily", "counts-daily", "cliques-daily"), "local") | {
        "gpu-daily": "gpu"
    }
    assert {d["name"]: d["work_pool"]["name"] for d in deployments} == pools
    configured = {
        enumerate_bicliques_flow.name: configure,
        find_groups_flow.name: configure_groups,
        count_pq_flow.name: configure_counts,
        enumerate_cliques_flow.name: configure_cliques,
    }
    monkeypatch.chdir(CHECKOUT)
    for deployment in deployments:
        flow = load_flow_from_entrypoint(deployment["entrypoint"])
        parameters = flow.validate_parameters(deployment["parameters"])
        assert set(deployment["parameters"]) <= set(flow.parameters.properties)
        configured[flow.name](**{name: value for name, value in parameters.items() if name not in ("force", "notify")})
        for schedule in deployment["schedules"]:
            CronSchedule(cron=schedule["cron"], timezone=schedule["timezone"])
        assert deployment["work_pool"]["name"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--serve"], '--serve: no schedule given; expected five cron fields; for example --cron "0 6 * * *"'),
        (["--serve", "--cron", "at six"], "--cron 'at six': no cron expression"),
        (["--serve", "--cron", "0 6 * * *", "--timezone", "Mars/Base"], "--timezone 'Mars/Base': unknown"),
        (["--serve", "--cron", "0 6 * * *", "--set", "query.min_left=0"], "query.min_left is 0"),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_command_refuses_at_once(arguments, message):
    result = CliRunner().invoke(app_of("enumerate"), arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_command_refuses_a_taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # Clear the server that an earlier test may have set.
        with temporary_settings(restore_defaults={PREFECT_API_URL}):
            result = CliRunner().invoke(app_of("enumerate"), ["--serve", "--cron", "0 6 * * *", "--port", str(port)])
    assert result.exit_code == 2
    assert f"--port {port}: cannot be used on 127.0.0.1" in result.stderr


def test_a_slow_server_start_is_accepted(monkeypatch):
    """It answers after twenty minutes of a fake clock."""
    now = 0.0

    def sleep(seconds):
        nonlocal now
        now += seconds

    def get(url, timeout):  # noqa: ARG001
        if now < 1200:
            raise httpx.ConnectError("not listening yet")
        return httpx.Response(httpx.codes.OK)

    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(server.httpx, "get", get)
    started = []
    program = [sys.executable, "-c", "import time; time.sleep(3600)"]
    original = subprocess.Popen

    def start(_command, **options):
        started.append(original(program, **options))
        return started[-1]

    monkeypatch.setattr(server.subprocess, "Popen", start)
    with server.embedded_server(server._free_port()) as url:
        assert url.endswith("/api")
        # systemd signals all processes of a service, but the parent still talks to the server.
        started[0].terminate()
        time.sleep(0.5)
        assert started[0].poll() is None
    assert started[0].poll() is not None
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_temporary_server_has_its_own_secret(monkeypatch):
    """The server gets it by its environment, this process by its settings."""
    started = []

    def start(command, **options):
        started.append((command, options["env"]))
        return SimpleNamespace(poll=lambda: 0, wait=lambda _: 0)

    monkeypatch.setattr(server, "_wait_until_healthy", lambda *_: None)
    monkeypatch.setattr(server.subprocess, "Popen", start)
    for _ in range(2):
        with server.embedded_server(port := server._free_port()) as url:
            command, environment = started[-1]
            secret = environment["PREFECT_SERVER_API_AUTH_STRING"]
            assert len(secret) > 40
            assert (PREFECT_API_URL.value(), PREFECT_API_AUTH_STRING.value()) == (url, secret)
            assert environment["PREFECT_UI_API_URL"] == url == f"http://127.0.0.1:{port}/api"
            assert secret not in " ".join(command)
        assert PREFECT_API_AUTH_STRING.value() is None
    assert len({environment["PREFECT_SERVER_API_AUTH_STRING"] for _, environment in started}) == 2
    with temporary_settings({PREFECT_API_AUTH_STRING: "mine:own"}), server.embedded_server(server._free_port()):
        assert started[-1][1]["PREFECT_SERVER_API_AUTH_STRING"] == "mine:own"


@pytest.fixture(autouse=True)
def handlers():
    """Restore the signal handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class SlowToDeploy:
    """A flow that receives signals while its deployment is created."""

    def __init__(self, *numbers):
        self.numbers, self.heard = numbers, []

    async def ato_deployment(self, _name, **_options):
        for number in self.numbers:
            self.heard.append(number)
            signal.raise_signal(number)
            await asyncio.sleep(0.2)
        raise AssertionError("no signal was handled")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_serving_stops_on_signals_during_its_start(number):
    flow = SlowToDeploy(number)
    serve(flow, "slow", None, {})
    assert flow.heard == [number]


def test_serving_keeps_an_ignored_sighup():
    flow = SlowToDeploy(signal.SIGHUP, signal.SIGTERM)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    serve(flow, "slow", None, {})
    assert flow.heard == [signal.SIGHUP, signal.SIGTERM]


def test_a_configured_log_format_is_kept(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(command, "setup_logging", lambda **options: calls.append(options))
    monkeypatch.setenv(command._DATE_FORMAT, "%H:%M")
    command._date_log_lines()
    assert os.environ[command._DATE_FORMAT] == "%H:%M"
    monkeypatch.delenv(command._DATE_FORMAT)
    own = tmp_path / "logging.yml"
    own.write_text("version: 1\n")
    with temporary_settings({PREFECT_LOGGING_SETTINGS_PATH: own}):
        command._date_log_lines()
    assert command._DATE_FORMAT not in os.environ
    assert calls == []
    monkeypatch.setenv(command._DATE_FORMAT, "")
    monkeypatch.delenv(command._DATE_FORMAT)
    with temporary_settings({PREFECT_LOGGING_SETTINGS_PATH: tmp_path / "nowhere.yml"}):
        command._date_log_lines()
    assert os.environ.pop(command._DATE_FORMAT) == "%Y-%m-%d %H:%M:%S"
    assert calls == [{"incremental": False}]


@pytest.mark.parametrize("module", command.Module.__args__)
def test_help_of_a_flow_has_an_example(module: command.Module) -> None:
    asked, whole = (CliRunner().invoke(app_of(module), [option]) for option in ("-h", "--help"))
    assert asked.exit_code == whole.exit_code == 0
    assert asked.stdout == whole.stdout
    assert f"Example: python -m mbe_stage.flows.{module} --input edges.csv --out out" in " ".join(asked.stdout.split())


@pytest.mark.parametrize(
    ("module", "problem"),
    [("cliques", "cliques"), ("count_pq", "pq_counts"), ("itemsets", "itemsets"), ("project", "shared_neighbours")],
)
def test_flows_of_problems_are_where_prefect_looks_for_them(module: command.Module, problem: str) -> None:
    runnable = command._RUNNABLE[module]()
    assert runnable.configure(overrides=["execution.threads=3"]).problem == problem
    function = runnable.flow.fn
    assert getattr(import_module(function.__module__), function.__name__) is runnable.flow
    assert runnable.about.endswith(", as a flow, once or on a schedule.")
