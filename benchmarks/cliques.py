"""Maximal cliques on the CPU, compared with igraph: counted, and with all members in memory.

    python -m benchmarks.cliques [--graphs ca_HepPh email_Enron] [--repeats 3] [--peer PYTHON]

The graphs are the files `uni_NAME.npz` of the directory `MBE_DATA`. On one thread seconds are processor time, which
other processes disturb least, from the graph in memory, including ordering; of ours the best of the repeats. Programs
alternate for each graph. igraph runs in a separate process, in an interpreter that has it (`--peer`, by default this
one). It cannot only count, so counting is compared with the faster of its two outputs: lists in memory, or text into
the null device. Without igraph the table says so. Two threads are timed by the clock, alternating with one.

The fastest programs known on one CPU thread are quoted, not run (`QUOTED`): HBBMC (Wang, Yu and Long, ICDE 2025, arXiv
2412.08218) and RMCE (Deng, Zheng and Cheng, PVLDB 17(10), 2024, arXiv 2311.00279), with this engine's time on the same
machine then. RMCE gave one clique too many on three of eight graphs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.graphs import data_directory
from benchmarks.machine import describe
from benchmarks.targets import geometric_mean
from mbe_stage import CliqueCountSink, CliqueTableSink, Execution, UndirectedCSR, enumerate_cliques_into
from mbe_stage.cliques import engine_cpu
from mbe_stage.pipeline.errors import InputError
from mbe_stage.runtime.compile_ahead import compile_ahead

__all__ = ["GRAPHS", "QUOTED", "Quoted", "graph_path", "main"]

GRAPHS = {
    "ca_HepPh": 14_937,
    "email_Enron": 226_859,
    "wiki_Vote": 459_002,
    "soc_Epinions1": 1_775_065,
    "follow_flickr": 10_342_039,
    "Cornell5": 11_200_870,
    "blogcatalog": 116_299_960,
}
"""Numbers of maximal cliques, confirmed by at least two programs."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """Seconds of one thread on one machine, and of this engine there; None if a program was not run."""

    hbbmc: float
    rmce: float | None
    ours: float


QUOTED = {
    "ca_HepPh": Quoted(0.090, 0.067, 0.016),
    "email_Enron": Quoted(0.218, 0.381, 0.037),
    "wiki_Vote": Quoted(0.381, 0.503, 0.045),
    "soc_Epinions1": Quoted(2.10, 2.47, 0.272),
    "follow_flickr": Quoted(5.97, 8.31, 0.509),
    "Cornell5": Quoted(10.9, None, 1.07),
}

# Lists of all its cliques do not fit a small machine; it is compared with another graph's time.
_TOO_LARGE, _UNIT = "blogcatalog", "soc_Epinions1"
_AT_LEAST_COUNT, _AT_LEAST_MEMBERS, _AT_MOST_UNITS, _SPEED_UP = 20.0, 15.0, 2.5, 1.8
_PEER = """
import json, os, sys, time
import numpy as np
try:
    import igraph
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit()
with np.load(sys.argv[1]) as arrays:
    edges = np.stack([arrays["src"], arrays["dst"]], 1)
graph = igraph.Graph(n=int(edges.max()) + 1, edges=edges)
began = time.process_time()
graph.maximal_cliques(file=os.devnull)
text = time.process_time() - began
began = time.process_time()
cliques = graph.maximal_cliques()
lists = time.process_time() - began
print(json.dumps({"version": igraph.__version__, "n": len(cliques), "lists": lists, "text": text}), flush=True)
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """Seconds of one graph; None without igraph."""

    name: str
    n_cliques: int
    count: float
    members: float | None
    one_thread: float
    two_threads: float
    peer_lists: float | None
    peer_count: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a count is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", default=sys.executable, help="an interpreter that has igraph")
    options = parser.parse_args(arguments)
    compile_ahead(engine_cpu.compile_steps())
    load = os.getloadavg()
    print("\n".join(f"{name}: {value}" for name, value in describe().items()))
    rows = []
    print(
        f"\n{'graph':14}{'cliques':>12}{'count':>9}{'members':>9}{'igraph':>9}{'times':>7}{'times':>7}"
        f"{'HBBMC':>8}{'RMCE':>8}{'2 threads':>11}"
    )
    for name in options.graphs:
        rows.append(_measured(name, options.repeats, options.peer))
        print(_line(rows[-1]), flush=True)
    print("seconds; igraph with lists in memory; its time as a multiple of ours counting, and with members")
    print(f"HBBMC and RMCE are quoted, {_quoted_times()}")
    _print_summary(rows)
    print(f"load of the machine before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}, cores {os.cpu_count()}")
    wrong = [row for row in rows if row.n_cliques != GRAPHS[row.name]]
    for row in wrong:
        print(f"error: {row.name}: {row.n_cliques:,} cliques, not {GRAPHS[row.name]:,}", file=sys.stderr)
    return 1 if wrong else 0


def graph_path(name: str) -> Path:
    """Return the file of a listed graph; any other name is a path.

    Raises
    ------
    InputError
        There is no such file.
    """
    path = data_directory() / f"uni_{name}.npz" if name in GRAPHS else Path(name)
    if not path.is_file():
        raise InputError.at(
            path,
            found="no such file",
            expected=f"a path, or one of {', '.join(GRAPHS)}",
            remedy="set MBE_DATA to the directory that holds its file uni_NAME.npz, or correct the name",
        )
    return path


def _quoted_times() -> str:
    hbbmc = [entry.hbbmc / entry.ours for entry in QUOTED.values()]
    rmce = [entry.rmce / entry.ours for entry in QUOTED.values() if entry.rmce is not None]
    return (
        f"{geometric_mean(hbbmc):.1f} and {geometric_mean(rmce):.1f} times the time of this engine beside them, "
        "geometric mean"
    )


def _measured(name: str, repeats: int, peer: str) -> _Row:
    path = graph_path(name)
    with np.load(path) as arrays:
        graph = UndirectedCSR.from_edges(arrays["src"], arrays["dst"])
    figures = {} if name == _TOO_LARGE else _asked(peer, path)
    count, members, one, two, n = [], [], [], [], 0
    for _ in range(repeats):
        seconds, n = _counted(graph, 1, time.process_time)
        count.append(seconds)
        one.append(_counted(graph, 1, time.perf_counter)[0])
        two.append(_counted(graph, 2, time.perf_counter)[0])
        if name != _TOO_LARGE:
            members.append(_in_memory(graph))
    return _Row(
        name,
        n,
        min(count),
        min(members, default=None),
        min(one),
        min(two),
        figures.get("lists"),
        min(figures["lists"], figures["text"]) if figures else None,
    )


def _asked(peer: str, path: Path) -> dict[str, float]:
    """Return igraph's times; empty if it is missing."""
    done = subprocess.run([peer, "-c", _PEER, str(path)], capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    if "missing" in figures:
        print(f"igraph is not asked: {peer} has none ({figures['missing']}); pip install igraph, or --peer")
        return {}
    return figures


def _counted(graph: UndirectedCSR, threads: int, clock: Callable[[], float]) -> tuple[float, int]:
    sink = CliqueCountSink()
    began = clock()
    enumerate_cliques_into(sink, graph, execution=Execution(threads=threads), engine="cpu")
    return clock() - began, sink.n_cliques


def _in_memory(graph: UndirectedCSR) -> float:
    sink = CliqueTableSink()
    began = time.process_time()
    enumerate_cliques_into(sink, graph, execution=Execution(threads=1), engine="cpu")
    sink.table()
    return time.process_time() - began


def _line(row: _Row) -> str:
    by_count = "" if row.peer_count is None else f"{row.peer_count / row.count:.1f}"
    by_members = "" if row.peer_lists is None or row.members is None else f"{row.peer_lists / row.members:.1f}"
    members = "" if row.members is None else f"{row.members:.3f}"
    peer = "" if row.peer_lists is None else f"{row.peer_lists:.2f}"
    quoted = QUOTED.get(row.name)
    hbbmc = "" if quoted is None else f"{quoted.hbbmc:.3f}"
    rmce = "" if quoted is None or quoted.rmce is None else f"{quoted.rmce:.3f}"
    speed_up = row.one_thread / row.two_threads
    return (
        f"{row.name:14}{row.n_cliques:12,}{row.count:9.3f}{members:>9}{peer:>9}{by_count:>7}{by_members:>7}"
        f"{hbbmc:>8}{rmce:>8}{row.two_threads:7.3f} {speed_up:.2f}"
    )


def _print_summary(rows: Sequence[_Row]) -> None:
    counts = [row.peer_count / row.count for row in rows if row.peer_count is not None]
    members = [row.peer_lists / row.members for row in rows if row.peer_lists is not None and row.members is not None]
    if counts:
        print(f"counting {geometric_mean(counts):.1f} times faster (asked {_AT_LEAST_COUNT:g}), geometric mean")
    if members:
        print(f"with members {geometric_mean(members):.1f} times faster (asked {_AT_LEAST_MEMBERS:g}), geometric mean")
    by_name = {row.name: row for row in rows}
    unit = by_name[_UNIT].peer_count if _UNIT in by_name else None
    if unit is not None and _TOO_LARGE in by_name:
        share = by_name[_TOO_LARGE].count / unit
        print(f"{_TOO_LARGE} counted in {share:.2f} times what igraph takes for {_UNIT} (asked {_AT_MOST_UNITS:g})")
    longest = max(rows, key=lambda row: row.one_thread)
    speed_up = longest.one_thread / longest.two_threads
    print(f"two threads {speed_up:.2f} times one on {longest.name} (asked {_SPEED_UP:g})")


if __name__ == "__main__":
    sys.exit(main())
