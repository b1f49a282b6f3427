"""``make bench-gpu``: the CUDA engine on one GPU, compared with GMBE+ on the same kind of device.

Times run from the graph's two CSR directions on the device to the final count (including reduction, ordering and
two-step paths, excluding compilation), median of five. A refused run is named in its row and does not end the table.
``python -m benchmarks.bench_gpu --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import gpu_start
from benchmarks.peers import PEERS
from mbe_stage import BicliqueQuery, BipartiteCSR, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.errors import MemoryBudgetExceeded

__all__ = ["count", "device_facts", "graph_on_device", "main", "read_graph"]

# Bicliques, and the target seconds from CSR on the device to the count. Nothing is imported from the pipeline, because
# a GPU machine needs the stage only.
TARGETS: dict[str, tuple[int, float]] = {
    "dbpedia_writer": (57_222, 0.004),
    "marvel": (206_135, 0.005),
    "movielens_ti": (140_266, 0.005),
    "github_half": (691_250, 0.015),
    "actor_movies": (1_075_444, 0.012),
    "BMS_WebView2": (1_691_049, 0.015),
    "mushroom": (238_709, 0.012),
    "youtube": (1_826_587, 0.020),
    "lastfm_tag_artist": (5_318_319, 0.030),
    "EuAll": (12_306_755, 0.12),
    "gowalla": (36_353_156, 0.60),
    "bookcrossing": (54_458_949, 0.60),
}
MATERIALISED = ("youtube", "EuAll", "bookcrossing")
SMALL_BUDGET_BYTES = 4 * 10**9
# Figures of the warps in `Session.statistics`.
VISITED = ("opened", "closed_sets", "list_children", "donated", "quanta")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a count is wrong or a run was refused, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help="names; all of the table by default")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures too")
    parser.add_argument("--plan", action="store_true", help="print the memory plan of each graph, and measure nothing")
    parser.add_argument("--start", action="store_true", help="fresh processes up to their first quantum instead")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    facts = device_facts(options.commit)
    print(f"{facts['device']}, {facts['date']}, commit {facts['commit']}\n")
    names = options.graphs or list(TARGETS)
    if options.plan:
        return _print_plans(names)
    if options.start:
        return gpu_start.main(options.repeats)
    rows = []
    for row in _measured(names, options.repeats):
        rows.append(row)
        print(_line(row), flush=True)
    _print_means(rows)
    if options.json:
        options.json.write_text(json.dumps(facts | {"graphs": rows}, indent=2) + "\n", encoding="utf-8")
    return int(any(row["found"] != row["bicliques"] or row["refused"] for row in rows))


def device_facts(commit: str | None) -> dict[str, str]:
    """Return the device, date and commit of a result file."""
    if commit is None:
        asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        commit = asked.stdout.strip() or "unknown"
    return {
        "device": engine_cuda.device(Execution()),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
    }


def _print_plans(names: Sequence[str]) -> int:
    for name in names:
        plan = engine_cuda.memory_plan(read_graph(name), BicliqueQuery(), Execution(), Detail.MEMBERS)
        print(f"{name}\n{plan.describe() if plan else 'nothing to enumerate'}\n")
    return 0


def read_graph(name: str) -> BipartiteCSR:
    """Return a graph of the shared data by name, on the host."""
    directory = Path(os.environ.get("MBE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    with np.load(directory / f"{name}.npz") as arrays:
        return BipartiteCSR.from_edges(arrays["u"], arrays["v"])


def graph_on_device(name: str) -> BipartiteCSR:
    """Return the graph with CuPy arrays."""
    import cupy as cp

    graph = read_graph(name)
    parts = (graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)
    return BipartiteCSR(graph.n_left, graph.n_right, *map(cp.asarray, parts))


def _measured(names: Sequence[str], repeats: int) -> Iterator[dict[str, Any]]:
    print(
        f"{'graph':<20}{'bicliques':>12}{'seconds':>10}{'at most':>9}{'GMBE+':>8}{'times':>7}{'ParAdaMBE':>11}"
        f"{'times':>7}{'kernel s':>10}{'busy':>7}{'warps':>7}{'stored s':>10}{'of it':>7}"
        f"{'host s':>9}{'kept s':>9}{'4 GB s':>9}{'of it':>7}"
    )
    for name in names:
        yield _measured_graph(name, graph_on_device(name), repeats)


def _measured_graph(name: str, graph: BipartiteCSR, repeats: int) -> dict[str, Any]:
    """Return a row of the table; refused figures are None, with reasons in ``row["refused"]``."""
    facts: dict[str, float] = {}
    refused: list[str] = []
    seconds, found = _median_or_refused("count", lambda: count(graph, Execution()), repeats, refused)
    if seconds is not None:
        # Reading the warps' figures takes time.
        readings: list[dict[str, float]] = [{} for _ in range(repeats)]
        for reading in readings:
            count(graph, Execution(), reading)
        facts = {key: statistics.median(reading[key] for reading in readings) for key in readings[0]}
    row = {
        "graph": name,
        "bicliques": TARGETS[name][0],
        "found": found,
        "seconds": seconds,
        "at_most": TARGETS[name][1],
        "gmbe_plus": _peer("GMBE+", name),
        "paradambe": _peer("ParAdaMBE", name),
        "kernel_seconds": facts["kernel_ms"] / 1e3 if facts else None,
        "busy_ratio": facts.get("busy_ratio"),
        "busy_warps": facts.get("busy_warps"),
        "visited": {key: facts[key] for key in VISITED} if facts else {},
        "refused": refused,
    }
    others: dict[str, Callable[[], int]] = {}
    if name in MATERIALISED:
        others["materialised_seconds"] = lambda: _materialise(graph)
        others["host_seconds"] = lambda: sum(map(len, _host_blocks(graph)))
        others["kept_seconds"] = lambda: sum(map(len, list(_host_blocks(graph))))
    if name == "bookcrossing":
        others["small_budget_seconds"] = lambda: count(graph, Execution(device_memory_bytes=SMALL_BUDGET_BYTES))
    for column, work in others.items():
        row[column], again = _median_or_refused(column, work, repeats, refused)
        if again not in (None, found):
            # Printed as wrong.
            row["found"] = again
    return row


def _median_or_refused(
    what: str, work: Callable[[], int], repeats: int, refused: list[str]
) -> tuple[float | None, int | None]:
    """Return `_median`, or two None and the reason in `refused` if the memory budget is too small."""
    try:
        return _median(work, repeats)
    except MemoryBudgetExceeded as error:
        refused.append(f"{what}: {error}")
        return None, None


def count(graph: BipartiteCSR, execution: Execution, facts: dict[str, float] | None = None) -> int:
    """Count the maximal bicliques; `facts` receives the figures of the warps."""
    blocks = engine_cuda.run(graph, BicliqueQuery(), execution, Detail.COUNT, statistics=facts)
    return sum(block.n_bicliques for block in blocks)


def _materialise(graph: BipartiteCSR) -> int:
    return sum(block.n_bicliques for block in engine_cuda.device_blocks(graph, BicliqueQuery(), Execution()))


def _host_blocks(graph: BipartiteCSR) -> Iterator[BicliqueBlock]:
    return engine_cuda.run(graph, BicliqueQuery(), Execution(), Detail.MEMBERS)


def _median(work: Callable[[], int], repeats: int) -> tuple[float, int]:
    """Return median seconds and the work's result; the first run compiles and warms the memory pool."""
    import cupy as cp

    found = work()
    times = []
    for _ in range(repeats):
        cp.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        found = work()
        cp.cuda.runtime.deviceSynchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), found


def _peer(program: str, name: str) -> float | None:
    return next((peer.seconds for peer in PEERS if (peer.program, peer.graph) == (program, name)), None)


def _line(row: dict[str, Any]) -> str:
    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    def ratio(over: float | None, under: float | None, digits: int = 1) -> str:
        return "" if over is None or under is None else f"{over / under:.{digits}f}"

    seconds, stored, small = (row.get(key) for key in ("seconds", "materialised_seconds", "small_budget_seconds"))
    host, kept = row.get("host_seconds"), row.get("kept_seconds")
    found = "" if row["found"] is None else f"{row['found']:,}"
    wrong = f"  WRONG: {row['bicliques']:,} expected" if row["found"] not in (None, row["bicliques"]) else ""
    line = (
        f"{row['graph']:<20}{found:>12}{number(seconds, 4):>10}{number(row['at_most'], 3):>9}"
        f"{number(row['gmbe_plus'], 3):>8}{ratio(row['gmbe_plus'], seconds):>7}{number(row['paradambe'], 3):>11}"
        f"{ratio(row['paradambe'], seconds):>7}{number(row['kernel_seconds'], 4):>10}{number(row['busy_ratio'], 2):>7}"
        f"{number(row['busy_warps'], 2):>7}{number(stored, 4):>10}{ratio(stored, seconds, 2):>7}"
        f"{number(host, 4):>9}{number(kept, 4):>9}{number(small, 4):>9}{ratio(small, seconds, 2):>7}{wrong}"
    )
    return "\n".join([line, *(f"  REFUSED {reason}" for reason in row["refused"])])


def _print_means(rows: list[dict[str, Any]]) -> None:
    for key, program in (("gmbe_plus", "GMBE+"), ("paradambe", "ParAdaMBE, 16 threads")):
        ratios = [row[key] / row["seconds"] for row in rows if row[key] and row["seconds"]]
        if ratios:
            print(
                f"\n{statistics.geometric_mean(ratios):.1f} times {program} in the geometric mean of {len(ratios)}",
                end="",
            )
    met = [row for row in rows if row["seconds"] and row["seconds"] <= row["at_most"]]
    print(f"\n{len(met)} of {len(rows)} within the time set")
    for key, what in (("materialised_seconds", "with members stored"), ("small_budget_seconds", "within 4 GB")):
        asked = [row for row in rows if row.get(key) and row["seconds"]]
        twice = [row for row in asked if row[key] <= 2 * row["seconds"]]
        if asked:
            print(f"{len(twice)} of {len(asked)} {what} in at most twice the time of counting")


if __name__ == "__main__":
    sys.exit(main())
