"""Several GPUs of one machine, or several workers on one of them, share a search: seconds, busy shares, what goes over.

Times run from the graph's CSR on the devices to the last result in this process; copies of the graph are told apart,
compilation is excluded, and the best of several runs is shown. ``python -m benchmarks.devices_gpu --help`` lists the
options.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, read_graph
from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["main"]

GRAPHS = ("dir_soc_Epinions1", "chess")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where devices do not agree on a number, 4 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--min-left", type=int, help="only bicliques of so many vertices on the left")
    parser.add_argument("--min-right", type=int)
    parser.add_argument(
        "--devices", nargs="*", default=["0", "0,1", "0,1,2,3"], help='such as 0 or 0,1; "0,0" is two workers on one'
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--members", action="store_true", help="members brought to the host too, and dropped there")
    parser.add_argument("--most-seconds", type=float, default=60.0, help="of a run; it ends there, and says so")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    print(json.dumps(device_facts(options.commit)), flush=True)
    query = BicliqueQuery(min_left=options.min_left or 1, min_right=options.min_right or 1)
    details = (Detail.COUNT, Detail.MEMBERS) if options.members else (Detail.COUNT,)
    agree = True
    for name in options.graphs:
        graph = read_graph(name)
        for detail in details:
            compile_ahead(engine_cuda.compile_steps(query, detail))
            rows = [_measured(graph, query, detail, each, options) for each in ("engine", *options.devices)]
            for row in rows:
                seconds = [f"{each:.4f}" for each in row.pop("all_seconds")]
                print(json.dumps({"graph": name, "detail": detail.name, **row, "all": " ".join(seconds)}), flush=True)
            agree &= len({row["found"] for row in rows if row["ended"]}) <= 1
    return 0 if agree else 1


def _measured(graph: BipartiteCSR, query: BicliqueQuery, detail: Detail, devices: str, options: Any) -> dict[str, Any]:
    """The best of several runs by one engine (``engine``: without the runner), or by these devices."""
    best: dict[str, Any] = {}
    all_seconds = []
    copying = _copy_seconds(graph)
    for _ in range(options.repeats + 1):
        runner = None if devices == "engine" else DeviceRunner([int(each) for each in devices.split(",")])
        start = time.perf_counter()
        found, ended = _found(graph, query, detail, runner, start + options.most_seconds)
        seconds = time.perf_counter() - start - copying
        all_seconds.append(seconds)
        if best and seconds >= best["seconds"]:
            continue
        best = {"devices": devices, "seconds": seconds, "copying": copying, "found": found, "ended": ended}
        if runner is not None:
            best |= {
                "searching": runner.seconds,
                "busy": [round(each, 3) for each in runner.busy],
                "found_by": [rank.n_found for rank in runner.ranks],
                "given": [rank.n_given for rank in runner.ranks],
                "received": [rank.n_received for rank in runner.ranks],
                "leases": [rank.n_leases for rank in runner.ranks],
            }
        if not ended:
            break
    return best | {"all_seconds": all_seconds}


def _found(
    graph: BipartiteCSR, query: BicliqueQuery, detail: Detail, runner: DeviceRunner | None, until: float
) -> tuple[int, bool]:
    """How many, and whether it came to its end."""
    if runner is None:
        blocks = engine_cuda.run(graph, query, Execution(), detail)
    else:
        blocks = runner.run("bicliques", "cuda", graph, query, Execution(memory_budget_bytes=8 << 30), detail)
    found = 0
    for block in blocks:
        found += len(block)
        if time.perf_counter() > until:
            blocks.close()  # type: ignore[attr-defined]
            return found, False
    return found, True


def _copy_seconds(graph: BipartiteCSR) -> float:
    """The graph's way to a device."""
    import cupy as cp

    from mbe_stage.device.graph import on_device

    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        copy = on_device(graph)
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
        del copy
    return min(seconds)


if __name__ == "__main__":
    sys.exit(main())
