"""The flow in Prefect's engine, against Prefect's test server."""

import errno
import logging
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from flow_toys import N_BICLIQUES
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.context import TaskRunContext
from prefect.exceptions import ParameterTypeError

from mbe_stage.flows import enumerate as flow_module
from mbe_stage.flows.artifacts import code
from mbe_stage.flows.enumerate import enumerate_bicliques_flow
from mbe_stage.flows.gpu import device_limit_name, device_slot
from mbe_stage.pipeline.errors import ConfigError, DeviceMemoryExhausted, InputError
from mbe_stage.pipeline.execution.tiers import Tier
from mbe_stage.pipeline.publish import staging as publish_module
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from tests.mbe_stage import small_gpu
from tests.pipeline import small_rapids

pytestmark = pytest.mark.usefixtures("prefect_server")

REFERENCE = ["execution.engine=reference"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def run(edges: Path, out: Path, **parameters):
    return enumerate_bicliques_flow(
        input_path=str(edges), output_directory=str(out), **({"overrides": REFERENCE} | parameters), return_state=True
    )


def of_run(state) -> dict:
    """Return the filter that selects the objects of this state's flow run."""
    return {"flow_run_filter": FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))}


def artifacts(state) -> dict:
    with get_client(sync_client=True) as client:
        return {artifact.key: artifact for artifact in client.read_artifacts(**of_run(state))}


def unfinished(out: Path) -> list[str]:
    return [path.name for path in (out / ".staging").iterdir() if path.name != ".lock"]


def fail_first(monkeypatch, owner, name: str, error: Exception) -> list[int]:
    """Make the function fail at its first call; return a list that grows by one each call."""
    original, calls = getattr(owner, name), []

    def failing(*args, **kwargs):
        calls.append(len(calls))
        if len(calls) == 1:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, failing)
    return calls


def test_run_publishes_and_shows_artifacts(edges_file, out):
    state = run(edges_file, out)
    assert (state.name, state.message) == ("Completed", f"{N_BICLIQUES} maximal bicliques published")
    result = state.result()
    latest = RunStore(out).latest()
    assert latest is not None
    assert (Path(result["run"]), result["bicliques"], result["unchanged"]) == (latest, N_BICLIQUES, False)
    assert unfinished(out) == []

    shown = artifacts(state)
    assert {key: artifact.type for key, artifact in shown.items()} == {
        "enumeration-progress": "progress",
        "bicliques-summary": "markdown",
        "largest-bicliques": "table",
        "bicliques-report": "markdown",
        "since-last-run": "markdown",
    }
    assert shown["enumeration-progress"].data == 100.0
    assert read_manifest(latest).content_fingerprint in shown["bicliques-summary"].data
    essence = shown["bicliques-report"].data
    assert (f"# {N_BICLIQUES} maximal bicliques" in essence, "file:" in essence, "](" in essence) == (
        True,
        False,
        False,
    )
    assert code(latest / "report.html") in essence
    assert "| 2 × 3 | 6 | a, b | 1, 2, 3 |" in essence
    assert "| left \\ right |" in essence
    assert "no complete run" in shown["since-last-run"].data
    assert '"left": "a, b", "right": "1, 2, 3"' in shown["largest-bicliques"].data


def test_missing_packages_are_logged_at_debug_only(edges_file, out, monkeypatch, caplog):
    tier = Tier("reference", "reference", "not rapids: cudf is not installed")
    monkeypatch.setattr("mbe_stage.pipeline.execution.tiers.choose_tier", lambda *_, **__: tier)
    with caplog.at_level(logging.DEBUG, "prefect.flow_runs"):
        run(edges_file, out)
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert (logging.INFO, "tier reference") in said
    assert (logging.DEBUG, "tier reference: not rapids: cudf is not installed") in said
    assert not [text for level, text in said if level >= logging.INFO and "not installed" in text]


def test_unchanged_input_is_skipped_unless_forced(edges_file, out):
    first = run(edges_file, out).result()
    lines = edges_file.read_text().splitlines()
    edges_file.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")

    second = run(edges_file, out)
    assert second.is_completed()
    assert second.name == "Unchanged"
    assert second.message.startswith("unchanged: input and configuration equal those of run ")
    assert second.result() == first | {"unchanged": True}
    assert len(RunStore(out).runs()) == 1
    assert unfinished(out) == []
    assert "nothing was enumerated" in artifacts(second)["bicliques-summary"].data

    forced = run(edges_file, out, force=True)
    assert f"Nothing differs; {N_BICLIQUES} unchanged." in artifacts(forced)["since-last-run"].data
    assert forced.name == "Completed"
    assert forced.result()["run"] != first["run"]
    assert forced.result()["content_fingerprint"] == first["content_fingerprint"]

    asked_more = run(edges_file, out, overrides=[*REFERENCE, "query.min_left=2", "output.keep_runs=2"])
    assert asked_more.result()["bicliques"] == N_BICLIQUES - 1
    assert len(RunStore(out).runs()) == 2

    edges_file.write_text(edges_file.read_text() + "d,9\n")
    state = run(edges_file, out)
    assert (state.name, state.result()["bicliques"]) == ("Completed", N_BICLIQUES + 1)


def test_a_skipped_run_keeps_nothing_that_it_has_read(edges_file, out):
    asked = [*REFERENCE, "execution.memory_budget=16MiB", "output.checkpoint_seconds=1e-6"]
    assert [run(edges_file, out, overrides=asked).name for _ in range(2)] == ["Completed", "Unchanged"]
    assert unfinished(out) == []


def test_a_limit_is_shown(edges_file, out):
    state = run(edges_file, out, overrides=[*REFERENCE, "execution.max_bicliques=2"])
    assert state.message == "2 maximal bicliques published; incomplete: stopped at max_bicliques = 2"


@pytest.mark.usefixtures("installed")
def test_another_problem_and_a_derived_output_run_as_its_configuration_says(edges_file, out, tmp_path):
    asked = ["problem=butterflies", "butterflies.min_butterflies=1", *REFERENCE]
    state = run(edges_file, out, overrides=asked)
    result = state.result()
    manifest = read_manifest(result["run"])
    assert (manifest.problem, manifest.config.problem_section.min_butterflies) == ("butterflies", 1)
    assert result["counted"] == manifest.n_found > 0
    assert len(artifacts(state)) >= 2
    assert run(edges_file, out, overrides=asked).name == "Unchanged"
    other = run(edges_file, out, overrides=["problem=butterflies", *REFERENCE])
    assert other.name != "Unchanged"
    file = tmp_path / "my.yaml"
    file.write_text("smaller_sides: {at_least: 2}\n")
    derived = run(edges_file, out, config_path=str(file))
    assert (Path(derived.result()["run"]) / "smaller_sides.parquet").is_file()
    assert read_manifest(derived.result()["run"]).derived.keys() == {"smaller_sides"}
    refused = run(edges_file, out, overrides=["problem=butterflies", "smaller_sides.at_least=2"])
    assert refused.is_failed()
    assert "smaller_sides: an output of the problem bicliques, but problem is 'butterflies'" in refused.message


def test_bad_input_fails_once_with_one_message(edges_file, out):
    run(edges_file, out)
    latest = RunStore(out).latest()
    state = run(edges_file.with_name("missing.csv"), out)
    assert state.is_failed()
    assert isinstance(state.result(raise_on_failure=False), InputError)
    assert state.message == str(state.result(raise_on_failure=False))
    assert "missing.csv" in state.message
    assert "\n" not in state.message
    with get_client(sync_client=True) as client:
        (task_run,) = client.read_task_runs(**of_run(state))
    assert (task_run.name.partition("-")[0], task_run.run_count) == ("ingest", 1)
    assert RunStore(out).latest() == latest
    assert unfinished(out) == []


def test_bad_configuration_fails_with_one_message(edges_file, out):
    state = run(edges_file, out, overrides=["query.min_lft=3"])
    assert state.is_failed()
    assert "unknown key; did you mean 'min_left'?" in state.message
    with pytest.raises(ConfigError):
        state.result()
    assert not out.exists()


def test_parameters_are_typed(edges_file, out):
    with pytest.raises(ParameterTypeError, match="overrides"):
        run(edges_file, out, overrides="query.min_left=3").result()


def test_read_errors_are_retried(edges_file, out, monkeypatch):
    monkeypatch.setattr(flow_module.ingest_task, "retry_delay_seconds", [0.0])
    calls = fail_first(monkeypatch, flow_module, "read_edges", OSError(errno.EIO, os.strerror(errno.EIO)))
    state = run(edges_file, out)
    assert len(calls) == 2
    assert state.result()["bicliques"] == N_BICLIQUES


def test_publication_errors_are_retried(edges_file, out, monkeypatch):
    monkeypatch.setattr(flow_module.publish_task, "retry_delay_seconds", [0.0])
    calls = fail_first(monkeypatch, publish_module.os, "replace", OSError(errno.EIO, os.strerror(errno.EIO)))
    state = run(edges_file, out)
    assert state.is_completed(), state.message
    assert len(calls) >= 2
    assert RunStore(out).runs() == [RunStore(out).latest()]
    assert unfinished(out) == []


def test_a_full_gpu_is_retried_from_the_start(edges_file, out, monkeypatch):
    monkeypatch.setattr(flow_module.enumerate_task, "retry_delay_seconds", [0.0])
    original, leftovers = flow_module.enumerate_staged, []

    def full_at_first(config, scratch, run_path, *rest):
        leftovers.append([path.name for path in Path(run_path).iterdir()])
        if len(leftovers) == 1:
            Path(run_path, "bicliques").mkdir()
            raise DeviceMemoryExhausted("device memory: the GPU is full", may_pass=True)
        original(config, scratch, run_path, *rest)

    monkeypatch.setattr(flow_module, "enumerate_staged", full_at_first)
    state = run(edges_file, out)
    assert leftovers == [[], []]
    assert state.result()["bicliques"] == N_BICLIQUES


def test_a_limit_that_is_too_low_is_not_retried(edges_file, out, monkeypatch):
    error = DeviceMemoryExhausted("device memory: the limit of 1 MiB (execution.device_memory)", may_pass=False)
    calls = fail_first(monkeypatch, flow_module, "enumerate_staged", error)
    state = run(edges_file, out)
    assert (len(calls), state.is_failed(), state.message) == (1, True, str(error))


def test_a_gpu_is_held_by_one_run_at_a_time():
    """The server has a limit of one slot for the device, and it is taken."""
    with (
        get_client(sync_client=True) as client,
        device_slot(Tier("cuda", "cuda", "for the test"), logging.getLogger(__name__)) as let_go,
    ):
        limit = client.read_global_concurrency_limit_by_name(device_limit_name())
        assert (limit.limit, limit.active_slots) == (1, 1)
        let_go()
        assert client.read_global_concurrency_limit_by_name(device_limit_name()).active_slots == 0
    with device_slot(Tier("cuda", "cuda", "for the test"), logging.getLogger(__name__)):
        pass


@pytest.mark.parametrize(("name", "held"), [("rapids", ["ingest"]), ("cuda", []), ("reference", [])])
def test_reading_locks_a_gpu_only_if_it_reads_there(edges_file, out, monkeypatch, name, held):
    tier, slots = Tier(name, "cuda", "for the test"), []

    @contextmanager
    def slot(_tier, _log):
        slots.append(TaskRunContext.get().task.name)
        yield

    def refuse(*_):
        raise InputError("read no further")

    monkeypatch.setattr("mbe_stage.pipeline.execution.tiers.choose_tier", lambda *_, **__: tier)
    monkeypatch.setattr(flow_module, "tier_named", lambda *_: tier)
    monkeypatch.setattr(flow_module, "device_slot", slot)
    monkeypatch.setattr(flow_module, "read_edges", refuse)
    assert run(edges_file, out).message == "read no further"
    assert slots == held


@pytest.mark.parametrize(
    ("visible", "device"),
    [(None, "gpu-0@dgx"), ("2,3", "gpu-2@dgx"), ("GPU-8f1c", "gpu-GPU-8f1c@dgx"), ("", "gpu-0@dgx")],
)
def test_a_limit_names_the_device_and_the_machine(monkeypatch, visible, device):
    monkeypatch.setattr("socket.gethostname", lambda: "dgx")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device_limit_name() == device


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a defect")], ids=repr)
def test_an_interrupted_run_leaves_nothing(edges_file, out, monkeypatch, error):
    run(edges_file, out)
    latest = RunStore(out).latest()
    seen = []

    def interrupted(_config, _scratch, run_path, *_):
        Path(run_path, "half.parquet").write_bytes(b"half")
        seen.extend(unfinished(out))
        raise error

    monkeypatch.setattr(flow_module, "enumerate_staged", interrupted)
    with pytest.raises(type(error)):
        run(edges_file, out, force=True).result()
    assert len(seen) == 1
    assert RunStore(out).latest() == latest
    assert len(RunStore(out).runs()) == 1
    assert unfinished(out) == []


@pytest.mark.parametrize("step", ["ingest", "enumerate"])
def test_the_next_tier_takes_over_if_rapids_runs_out_of_memory(edges_file, out, monkeypatch, step, caplog):
    small_gpu.install(monkeypatch)
    rapids = small_rapids.install(monkeypatch, step)
    state = run(edges_file, out, overrides=["execution.device_memory=1GiB"])
    assert (state.name, state.message) == ("Completed", f"{N_BICLIQUES} maximal bicliques published")
    assert rapids.n_refused == 1
    manifest = read_manifest(state.result()["run"])
    assert manifest.engine == "cuda"
    (warning,) = manifest.warnings
    assert f"and cuda takes over; rapids reported: the limit of 1 MiB is reached in {step}" in warning
    assert warning in caplog.text
    assert not list(Path(state.result()["run"]).glob("left-behind"))
    assert unfinished(out) == []


def test_after_the_first_biclique_no_tier_takes_over(edges_file, out, monkeypatch):
    small_gpu.install(monkeypatch)
    rapids = small_rapids.install(monkeypatch, "blocks")
    state = run(edges_file, out, overrides=[])
    assert state.is_failed()
    assert "is reached in blocks" in state.message
    assert rapids.n_refused == 1
    assert RunStore(out).runs() == []
