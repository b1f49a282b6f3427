"""The GPU lock without a scheduling server: a lock of the operating system, which a killed process releases."""

import fcntl
import logging
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from mbe_stage.flows import enumerate as flow_module
from mbe_stage.flows import gpu
from mbe_stage.flows.enumerate import configure, enumerate_task, read_edges
from mbe_stage.flows.gpu import device_limit_name, device_slot
from mbe_stage.pipeline import PublishError, RunStore, read_manifest
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.tiers import Tier
from tests.mbe_stage import small_gpu
from tests.patience import PATIENCE, begun, output_of

LOG = logging.getLogger(__name__)
ON_GPU, ON_CPU = Tier("rapids", "cuda", "for the test"), Tier("cpu", "cpu", "for the test")

HOLD = """
import logging
from mbe_stage.flows.gpu import device_slot
from mbe_stage.pipeline.execution.tiers import Tier
with device_slot(Tier("rapids", "cuda", "for the test"), logging.getLogger()):
    print("held", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(gpu.tempfile, "tempdir", None)
    # For every thread: settings of a context belong to the thread that sets them.
    monkeypatch.setattr(gpu, "has_lasting_server", lambda: False)


def take(tier: Tier, taken: threading.Event) -> None:
    with device_slot(tier, LOG):
        taken.set()


def test_a_second_run_waits_for_the_first():
    taken = threading.Event()
    second = threading.Thread(target=take, args=(ON_GPU, taken), daemon=True)
    with device_slot(ON_GPU, LOG):
        second.start()
        assert not taken.wait(0.3)
    assert taken.wait(PATIENCE)
    second.join()


def test_a_tier_without_a_gpu_does_not_wait():
    taken = threading.Event()
    with device_slot(ON_GPU, LOG):
        take(ON_CPU, taken)
    assert taken.is_set()


def test_devices_do_not_wait_for_each_other(monkeypatch):
    taken = threading.Event()
    with device_slot(ON_GPU, LOG):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        take(ON_GPU, taken)
    assert taken.is_set()


def is_free(directory: Path) -> bool:
    with open(directory / f"mbe-{device_limit_name()}.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize(("device_memory", "engine"), [("1MiB", "cpu"), ("1GiB", "cuda")])
def test_the_gpu_is_released_when_the_cpu_takes_over(edges_file, tmp_path, monkeypatch, device_memory, engine):
    seen = []

    @contextmanager
    def watching(_log, _counted):
        yield lambda progress: seen.append((progress.engine, is_free(tmp_path)))

    small_gpu.install(monkeypatch)
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "not here")
    monkeypatch.setattr(flow_module, "ProgressReporter", watching)
    monkeypatch.setattr(flow_module, "get_run_logger", lambda: LOG)
    overrides = [f"execution.device_memory={device_memory}", "output.report=false"]
    config = configure(None, str(edges_file), str(tmp_path / "out"), overrides)
    tier = tiers.choose_tier(config.execution)
    with RunStore(config.output.directory).begin() as staging:
        read_edges(config, str(staging.scratch), tier)
        enumerate_task.fn(config, str(staging.scratch), str(staging.path), {"read": 0.0, "load": 0.0}, tier.name)
        manifest = read_manifest(staging.publish())
    assert (tier.engine, manifest.engine) == ("cuda", engine)
    assert set(seen) == {(engine, engine == "cpu")}
    # Free as soon as the CPU starts, not only after its first result.
    assert len(seen) > (engine == "cpu")
    assert is_free(tmp_path)


@pytest.mark.parametrize("oddity", ["link", "dangling link", "pipe", "directory"])
def test_a_path_that_is_not_a_lock_file_is_refused(tmp_path, oddity):
    place, victim = tmp_path / f"mbe-{device_limit_name()}.lock", tmp_path / "victim"
    if oddity == "link":
        victim.write_text("theirs")
    if "link" in oddity:
        place.symlink_to(victim)
    elif oddity == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(PublishError, match=rf"{place}: cannot be locked .*; remove it, or set TMPDIR"):
        take(ON_GPU, threading.Event())
    assert victim.exists() == (oddity == "link")


def test_the_gpu_is_released_once():
    with device_slot(ON_GPU, LOG) as let_go:
        let_go()
        take(ON_GPU, threading.Event())
        let_go()
    with device_slot(ON_CPU, LOG) as let_go:
        let_go()


def test_a_killed_run_releases_the_gpu():
    holder = begun([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stderr=None, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        taken = threading.Event()
        waiting = threading.Thread(target=take, args=(ON_GPU, taken), daemon=True)
        waiting.start()
        assert not taken.wait(0.3)
        holder.kill()
        assert taken.wait(PATIENCE)
        waiting.join()
    finally:
        holder.kill()
        output_of(holder)
