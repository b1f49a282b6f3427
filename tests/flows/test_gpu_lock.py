"""A GPU without a server that schedules: a lock of the operating system, which no killed process keeps."""

import logging
import subprocess
import sys
import threading

import pytest

from flows import gpu
from flows.gpu import device_slot
from pipeline.tiers import Tier

LOG = logging.getLogger(__name__)
ON_GPU, ON_CPU = Tier("rapids", "cuda", "for the test"), Tier("cpu", "cpu", "for the test")

HOLD = """
import logging
from flows.gpu import device_slot
from pipeline.tiers import Tier
with device_slot(Tier("rapids", "cuda", "for the test"), logging.getLogger()):
    print("held", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(gpu.tempfile, "tempdir", None)
    # For every thread: settings of a context stay in the thread that set them.
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
    assert taken.wait(10)
    second.join()


def test_a_tier_without_a_gpu_waits_for_nobody():
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


def test_a_killed_run_lets_go():
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        taken = threading.Event()
        waiting = threading.Thread(target=take, args=(ON_GPU, taken), daemon=True)
        waiting.start()
        assert not taken.wait(0.3)
        holder.kill()
        assert taken.wait(10)
        waiting.join()
    finally:
        holder.kill()
        holder.communicate()
