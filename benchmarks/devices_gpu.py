"""Several GPUs of one machine, or several workers on one, share a search: seconds, busy shares, transfers.

Times run from the graph's CSR on the devices to the last result in this process, best of several runs; copies of the
graph are listed separately, compilation is excluded. ``python -m benchmarks.devices_gpu --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, read_graph
from benchmarks.cliques_gpu import undirected_on_device
from benchmarks.hard_graphs import dense_random
from mbe_stage import BicliqueQuery, BipartiteCSR, CliqueQuery, Detail, Execution, PqQuery, UndirectedCSR
from mbe_stage.bicliques import engine_cuda
from mbe_stage.cliques import engine_cuda as clique_engine
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.pq_counts import engine_cuda as pq_engine
from mbe_stage.pq_counts.results import Detail as PqDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["main"]

GRAPHS = ("dir_soc_Epinions1", "chess")
LONG_CLIQUES = "dense_random"
"""`benchmarks.hard_graphs.dense_random`: its maximal cliques take ten seconds on one device."""
Graph = BipartiteCSR | UndirectedCSR


class Search(NamedTuple):
    """The names of problem, graph and detail, and the engine's arguments."""

    problem: str
    name: str
    graph: Graph
    query: Any
    detail: Any

    @property
    def engine(self) -> Any:
        return {"bicliques": engine_cuda, "cliques": clique_engine, "pq_counts": pq_engine}[self.problem]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if devices disagree on a number, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--min-left", type=int, help="only bicliques of so many vertices on the left")
    parser.add_argument("--min-right", type=int)
    parser.add_argument("--cliques", nargs="*", default=[LONG_CLIQUES], help=f"{LONG_CLIQUES}, or undirected graphs")
    parser.add_argument("--pq", nargs=3, action="append", default=[], metavar=("GRAPH", "P", "Q"), help="counts, too")
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
    agree = True
    for search in _searches(options):
        compile_ahead(search.engine.compile_steps(search.query, search.detail))
        rows = [_measured(search, each, options) for each in ("engine", *options.devices)]
        for row in rows:
            seconds = [f"{each:.4f}" for each in row.pop("all_seconds")]
            named = {"problem": search.problem, "graph": search.name, "detail": search.detail.name}
            print(json.dumps({**named, **row, "all": " ".join(seconds)}), flush=True)
        agree &= len({row["found"] for row in rows if row["ended"]}) <= 1
    return 0 if agree else 1


def _searches(options: Any) -> Iterator[Search]:
    """Return the requested searches: bicliques, cliques and counts."""
    query = BicliqueQuery(min_left=options.min_left or 1, min_right=options.min_right or 1)
    for name in options.graphs:
        graph = read_graph(name)
        for detail in (Detail.COUNT, Detail.MEMBERS) if options.members else (Detail.COUNT,):
            yield Search("bicliques", name, graph, query, detail)
    for name in options.cliques:
        undirected = dense_random() if name == LONG_CLIQUES else undirected_on_device(name).on_host()
        for detail in (CliqueDetail.COUNT, CliqueDetail.MEMBERS) if options.members else (CliqueDetail.COUNT,):
            yield Search("cliques", name, undirected, CliqueQuery(), detail)
    for name, p, q in options.pq:
        yield Search("pq_counts", f"{name} {p} {q}", read_graph(name), PqQuery.of(int(p), int(q)), PqDetail.COUNTS)


def _measured(search: Search, devices: str, options: Any) -> dict[str, Any]:
    """Return the best of several runs by one engine (``engine``: without the runner), or by these devices."""
    best: dict[str, Any] = {}
    all_seconds = []
    copying = _copy_seconds(search.graph)
    for _ in range(options.repeats + 1):
        runner = None if devices == "engine" else DeviceRunner([int(each) for each in devices.split(",")])
        start = time.perf_counter()
        found, ended = _found(search, runner, start + options.most_seconds)
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


def _found(search: Search, runner: DeviceRunner | None, until: float) -> tuple[int, bool]:
    """Return the number of results and whether the search is complete."""
    problem, _, graph, query, detail = search
    if runner is None:
        blocks = search.engine.run(graph, query, Execution(), detail)
    else:
        blocks = runner.run(problem, "cuda", graph, query, Execution(memory_budget_bytes=8 << 30), detail)
    found, sink = 0, PqSink(query) if problem == "pq_counts" else None
    for block in blocks:
        found += len(block)
        if sink is not None:
            sink.accept(block)
        if time.perf_counter() > until:
            blocks.close()
            return found, False
    return found if sink is None else sum(sink.counts().values()), True


def _copy_seconds(graph: Graph) -> float:
    import cupy as cp

    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        copy = [cp.asarray(getattr(graph, name)) for name in graph.__slots__ if name.endswith(("offsets", "members"))]
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - start)
        del copy
    return min(seconds)


if __name__ == "__main__":
    sys.exit(main())
