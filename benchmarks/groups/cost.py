"""What the groups cost beside the enumeration: seconds of one thread, and the peak memory of a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.graphs import find_graph
from benchmarks.groups.ours import groups, scores_of, search
from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution

__all__ = ["measured_cost"]


class _Nowhere:
    """Takes members and forgets them."""

    detail = Detail.MEMBERS

    def accept(self, block: BicliqueBlock) -> None:
        """Nothing."""


def measured_cost(name: str = "EuAll", repeats: int = 3) -> dict:
    """Best of some repeats, in a process of its own: seconds of enumeration alone, of the groups, and peak bytes."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.groups.cost", name, str(repeats)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"benchmarks.groups.cost {name} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _main(name: str, repeats: int) -> dict:
    # Compiles everything, on a graph of one edge.
    scores_of([search(BipartiteCSR.from_edges([0, 0, 1], [0, 1, 0]), 1, 1)])
    with np.load(find_graph(name)[0]) as arrays:
        graph = BipartiteCSR.from_edges(arrays["u"], arrays["v"])
    peak = alone = beside = short = float("inf")
    for repeat in range(repeats):
        found = search(graph, 1, 1)
        begun = time.perf_counter()
        n_short = len(groups([found], 100))
        scores_of([found])
        short = min(short, time.perf_counter() - begun)
        beside = min(beside, found.sink_seconds)
        if not repeat:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for _ in range(repeats):
        facts = enumerate_into(_Nowhere(), graph, BicliqueQuery(), Execution(threads=1), engine="cpu")
        alone = min(alone, facts.seconds)
    return {
        "n_bicliques": found.n_bicliques,
        "enumeration_seconds": alone,
        "groups_seconds": beside,
        "list_seconds": short,
        "n_short": n_short,
        "peak_bytes": peak,
    }


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1], int(sys.argv[2]))))
