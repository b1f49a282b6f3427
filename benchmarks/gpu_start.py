"""Time from process start to the first quantum on a GPU: cold, with nothing compiled, and warm, from the cache.

Part of ``python -m benchmarks.bench_gpu --start``. It uses a separate cache, so that cold is cold.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
PHASES = ("interpreter", "imports", "device", "count", "members")

# Times since the process started, by the operating system: they include the interpreter's start.
_CHILD = """
import json, os, time
def since_start():
    with open("/proc/self/stat") as stat:
        began = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began
times = {"interpreter": since_start()}
import cupy
from numba import cuda
from mbe_stage import BicliqueQuery, BipartiteCSR, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.results import Detail
times["imports"] = since_start()
reason = engine_cuda.unavailable_reason()
assert reason is None, reason
cupy.zeros(1).get()
times["device"] = since_start()
graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 1, 2, 2])
for name, detail in (("count", Detail.COUNT), ("members", Detail.MEMBERS)):
    found = sum(block.n_bicliques for block in engine_cuda.run(graph, BicliqueQuery(), Execution(), detail))
    assert found == 4, found
    times[name] = since_start()
print(json.dumps(times))
"""


def main(repeats: int) -> int:
    """Print one cold start and the median of `repeats` warm ones."""
    print(f"{'seconds since the process began, after':<40}" + "".join(f"{phase:>13}" for phase in PHASES))
    with tempfile.TemporaryDirectory() as cache:
        _print("cold: nothing compiled yet", _start(cache))
        warm = [_start(cache) for _ in range(repeats)]
    _print("warm: compiled by an earlier process", {p: statistics.median(run[p] for run in warm) for p in PHASES})
    return 0


def _start(cache: str) -> dict[str, float]:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": _python_path()}
    done = subprocess.run([sys.executable, "-c", _CHILD], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _python_path() -> str:
    return os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))


def _print(label: str, times: dict[str, float]) -> None:
    print(f"{label:<40}" + "".join(f"{times[phase]:>13.2f}" for phase in PHASES), flush=True)
