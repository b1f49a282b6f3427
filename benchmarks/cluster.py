"""Speedup of a local Dask cluster: ``python -m benchmarks.cluster [options] [GRAPH ...]``; see ``--help``.

Every maximal biclique is counted from the graph in memory, with compiled code: by one thread, by as many threads as
there will be workers, and by newly started workers of one thread each, twice. Each round runs all of them in separate
processes, one after the other. Ratios are taken within a round, because machines vary over time, and the median of the
rounds counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from benchmarks.count_and_write import CountTimes, bench_count
from benchmarks.graphs import find_graph
from mbe_stage import BipartiteCSR, CountSink, Execution, enumerate_into
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.runners.clusters import dask_cluster

__all__ = ["Counted", "by_cluster", "main"]


@dataclass(frozen=True, slots=True)
class Counted:
    """Count and times of a cluster.

    Attributes
    ----------
    n_bicliques : int
    start_seconds : float
        Seconds until it has started.
    seconds : tuple of float
        First and second search.
    busy : tuple of float
        Busy share of each worker in the first search.
    """

    n_bicliques: int
    start_seconds: float
    seconds: tuple[float, float]
    busy: tuple[float, ...]


_Round = tuple[CountTimes, CountTimes, Counted]


def by_cluster(graph: str, workers: int) -> Counted:
    """Count twice with newly started workers."""
    edges = ingest(InputConfig(path=str(find_graph(graph)[0]))).graph()
    begun = time.perf_counter()
    with dask_cluster(workers=workers, threads=1, problem="bicliques") as runner:
        start_seconds = time.perf_counter() - begun
        n, first = _timed(edges, Execution(runner=runner))
        busy = runner.busy
        again, second = _timed(edges, Execution(runner=runner))
    if n != again:
        raise SystemExit(f"the first search counted {n:,}, the second {again:,}")
    return Counted(n, start_seconds, (first, second), busy)


def _timed(graph: BipartiteCSR, execution: Execution) -> tuple[int, float]:
    begun = time.perf_counter()
    enumerate_into(sink := CountSink(), graph, None, execution, "cpu")
    return sink.n_bicliques, time.perf_counter() - begun


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["bookcrossing"])
    parser.add_argument("--workers", type=int, default=2, help="of one thread each; there should be as many idle cores")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    for graph in options.graphs:
        rounds = [_round(graph, options.workers) for _ in range(options.rounds)]
        for line in _table(graph, options.workers, rounds):
            print(line, flush=True)


def _round(graph: str, workers: int) -> _Round:
    """Run one thread, several threads and a cluster, each in a separate process."""
    one, several = (bench_count(find_graph(graph)[0], threads, 1, "cpu") for threads in (1, workers))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        cluster = process.submit(by_cluster, graph, workers).result()
    if len({one.n_bicliques, several.n_bicliques, cluster.n_bicliques}) > 1:
        raise SystemExit(f"counted {one.n_bicliques:,}, {several.n_bicliques:,}, {cluster.n_bicliques:,}: not the same")
    return one, several, cluster


def _table(graph: str, workers: int, rounds: Sequence[_Round]) -> list[str]:
    start = statistics.median(cluster.start_seconds for _, _, cluster in rounds)
    busy = " ".join(
        f"{statistics.median(shares):.2f}" for shares in zip(*(each[2].busy for each in rounds), strict=True)
    )
    one = [each[0].seconds[0] for each in rounds]
    rows = {
        "one thread": one,
        f"{workers} threads of one process": [each[1].seconds[0] for each in rounds],
        f"{workers} workers, first search": [each[2].seconds[0] for each in rounds],
        "the same cluster again": [each[2].seconds[1] for each in rounds],
    }
    lines = [f"{graph}, {rounds[0][0].n_bicliques:,} maximal bicliques counted, {len(rounds)} rounds:"]
    for what, seconds in rows.items():
        gains = [before / each for before, each in zip(one, seconds, strict=True)]
        lines.append(
            f"  {what:28} {statistics.median(seconds):7.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
            f"{statistics.median(gains):.2f} times one thread ({min(gains):.2f} to {max(gains):.2f})"
        )
    whole = [before / (each[2].start_seconds + each[2].seconds[0]) for before, each in zip(one, rounds, strict=True)]
    lines.append(f"  its start counted, the first search gains {statistics.median(whole):.2f} times one thread")
    lines.append(
        f"  the workers were there, code loaded, after {start:.1f} s; in the first search they were busy {busy}"
    )
    return lines


if __name__ == "__main__":
    main()
