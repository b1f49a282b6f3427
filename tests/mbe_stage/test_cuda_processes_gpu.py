"""Processes that run the CUDA engine on a GPU: compiled code of earlier ones, and Ctrl-C. With `make test-gpu`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mbe_stage import BicliqueQuery, TableSink, enumerate_into
from mbe_stage.bicliques import engine_cpu
from tests.mbe_stage import graphs
from tests.patience import PATIENCE, begun, completed, output_of

pytestmark = pytest.mark.gpu

_ROOT = Path(__file__).parents[2]

_COUNTS_AND_MEMBERS = """
from mbe_stage import BicliqueQuery, BipartiteCSR, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.results import Detail
graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 1, 2, 2])
for detail in (Detail.COUNT, Detail.MEMBERS):
    blocks = engine_cuda.run(graph, BicliqueQuery(), Execution(device_memory_bytes=1 << 30), detail)
    assert sum(block.n_bicliques for block in blocks) == 4
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    kept = []
    for _ in range(2):
        completed([sys.executable, "-c", _COUNTS_AND_MEMBERS], env=environment, check=True)
        kept.append({path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.cubin")})
    assert any("kernel_for" in name for name in kept[0])
    assert kept[1] == kept[0]


def test_kernels_are_launched_with_the_types_that_they_are_compiled_ahead_for() -> None:
    completed([sys.executable, "-m", "tests.mbe_stage.launched_as_stated"], cwd=_ROOT, check=True)


_PART = """
import json, sys
from mbe_stage import Execution, TableSink, enumerate_into
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
graph = graphs.from_matrix(graphs.random_matrix(4, 90, 70, 0.3))
sink = TableSink()
tasks = [Task.from_json(line) for line in sys.stdin]
enumerate_into(sink, graph, None, Execution(device_memory_bytes=4 << 30), "cuda", tasks=tasks)
print(json.dumps(sorted(sink.table().as_set())))
"""


def test_two_concurrent_processes_find_the_same() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(4, 90, 70, 0.3))
    tasks = engine_cpu.tasks_of(graph, BicliqueQuery(), 20)
    processes = [
        begun([sys.executable, "-c", _PART], cwd=_ROOT, stdin=subprocess.PIPE, stderr=None, text=True) for _ in range(2)
    ]
    for process, part in zip(processes, (tasks[::2], tasks[1::2]), strict=True):
        assert process.stdin is not None
        process.stdin.write("".join(f"{task.to_json()}\n" for task in part))
        process.stdin.close()
        process.stdin = None
    parts = []
    for process in processes:
        found = json.loads(output_of(process)[0])
        assert process.returncode == 0
        parts.append({(tuple(left), tuple(right)) for left, right in found})
        assert len(parts[-1]) == len(found)
    assert not parts[0] & parts[1]
    sink = TableSink()
    enumerate_into(sink, graph, engine="cpu")
    assert parts[0] | parts[1] == sink.table().as_set()


_INTERRUPTED = """
import sys
from mbe_stage import CountSink, enumerate_into
from tests.mbe_stage.graphs import crown
def say(progress):
    print(progress.n_bicliques, progress.work_done, flush=True)
try:
    enumerate_into(CountSink(), crown(52), engine="cuda", on_progress=say)
except KeyboardInterrupt:
    print("interrupted", enumerate_into(CountSink(), crown(9), engine="cuda").n_bicliques)
    sys.exit(130)
"""


def test_ctrl_c_between_quanta() -> None:
    """2**52 bicliques: a quarter of an hour, if 5,000 warps counted a thousand each in a microsecond."""
    process = begun([sys.executable, "-c", _INTERRUPTED], cwd=_ROOT, text=True)
    # Compiling takes half a minute without a cache.
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        # Two quanta are over, a third is running.
        quanta = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        stdout, stderr = output_of(process)
    finally:
        watchdog.cancel()
        process.kill()
    assert process.returncode == 130, stderr
    assert stdout.splitlines()[-1] == f"interrupted {2**9 - 2}"
    found, shares = zip(*(line.split() for line in quanta), strict=True)
    assert 0 < int(found[0]) < int(found[1])
    # The largest of the 52 roots have started and are not done.
    assert float(shares[0]) <= float(shares[1]) < 0.9
