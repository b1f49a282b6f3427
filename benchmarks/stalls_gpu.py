"""Stall reasons of the counting kernel's warps, graph by graph: hardware counters, read by Nsight Compute.

``python -m benchmarks.stalls_gpu`` needs `ncu` (on the PATH, with access to the counters) and the benchmark graphs.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import TARGETS, count, device_facts, graph_on_device
from mbe_stage import Execution
from mbe_stage.bicliques import engine_cuda

__all__ = ["main"]

# Nsight Compute saves the device's memory before it repeats a kernel for other counters. This is enough for a quantum.
_BUDGET_BYTES = 16 * 10**9
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# Stall states of a warp, grouped.
_STATES = {
    "global memory": ("long_scoreboard", "lg_throttle", "drain", "membar"),
    "shuffles, shared": ("short_scoreboard", "mio_throttle"),
    "instructions": ("no_instruction", "branch_resolving", "imc_miss"),
    "arithmetic": ("wait", "math_pipe_throttle", "dispatch_stall"),
    "other warps": ("barrier", "not_selected", "misc", "gmma", "tex_throttle"),
    "asleep": ("sleeping",),
    "issuing": ("selected",),
}
_OTHERS = {
    "Minst": ("smsp__inst_executed.sum", 1e-6),
    "issue %": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 1.0),
    "L1 %": ("l1tex__t_sector_hit_rate.pct", 1.0),
    "L2 %": ("lts__t_sector_hit_rate.pct", 1.0),
    "DRAM %": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 4 without a GPU or `ncu`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help="names; all of the benchmark by default")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--work", action="store_true", help="only count each graph once: what is run under ncu")
    options = parser.parse_args(arguments)
    names = options.graphs or list(TARGETS)
    reason = engine_cuda.unavailable_reason()
    if reason is None and shutil.which("ncu") is None:
        reason = "ncu, of Nsight Compute, is not on the PATH"
    if reason:
        print(f"error: {reason}", file=sys.stderr)
        return 4
    if options.work:
        for name in names:
            count(graph_on_device(name), Execution(device_memory_bytes=_BUDGET_BYTES))
        return 0
    facts = device_facts(options.commit)
    print(f"{facts['device']}, {facts['date']}, commit {facts['commit']}\n")
    print("counting; of the time of all resident warps, percent\n")
    print(f"{'graph':<20}" + "".join(f"{column:>18}" for column in _STATES) + "".join(f"{c:>9}" for c in _OTHERS))
    for name in names:
        print(_line(name, _measured(name)), flush=True)
    return 0


def _measured(name: str) -> dict[str, float]:
    """Return the counters of a graph's kernel; of several quanta, that with most instructions."""
    metrics = [metric for metric, _ in _OTHERS.values()]
    metrics += [_STALLED.format(state) for states in _STATES.values() for state in states]
    command = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--kernel-name", "regex:task_counts"]
    command += ["--metrics", ",".join(metrics), sys.executable, "-m", "benchmarks.stalls_gpu", "--work", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: ncu ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        sys.exit(f"error: ncu measured no kernel: {(done.stdout + done.stderr)[-2000:]}")
    header, _units, *rows = csv.reader(lines)
    quanta = [dict(zip(header, row, strict=True)) for row in rows]
    counters = [
        {metric: float(found[metric].replace(",", "")) for metric in metrics if found.get(metric)} for found in quanta
    ]
    return max(counters, key=lambda found: found[_OTHERS["Minst"][0]])


def _line(name: str, metrics: dict[str, float]) -> str:
    shares = {
        column: sum(metrics.get(_STALLED.format(state), 0.0) for state in states) for column, states in _STATES.items()
    }
    total = sum(shares.values())
    line = f"{name:<20}" + "".join(f"{100 * share / total:>18.0f}" for share in shares.values())
    return line + "".join(f"{metrics[metric] * scale:>9.0f}" for metric, scale in _OTHERS.values())


if __name__ == "__main__":
    sys.exit(main())
