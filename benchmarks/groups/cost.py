"""Cost of groups besides the enumeration: processor seconds of one thread, and a process's peak memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from benchmarks.graphs import find_graph
from benchmarks.groups.labelled import available, load
from benchmarks.groups.metrics import best_f1
from benchmarks.groups.published import config_of, groups_in
from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pipeline import run

__all__ = ["COSTLY", "found_rings", "measured_cost"]

COSTLY = ("amazon_spammers", "yelpchi", "EuAll", "bookcrossing")


class _Nowhere:
    """A sink that drops members."""

    detail = Detail.MEMBERS

    def accept(self, block: BicliqueBlock) -> None:
        """Nothing."""


def measured_cost(name: str) -> dict:
    """Return figures of one run in a separate process: those of the manifest, and of the enumeration alone.

    Seconds are processor time: those of the manifest times the process's share of the processor.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.groups.cost", name],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"benchmarks.groups.cost {name} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def found_rings(script: Path, n_edges: float = 2e7) -> tuple[list[int], int, float, int]:
    """Search the script's edges for its fifty rings.

    Returns
    -------
    ranks : list of int
        First group of each ring with a Jaccard index of at least 0.5; a rank after all others without one.
    n_alone : int
        Rings with a group of F1 at least 0.8.
    seconds : float
        Time of the run.
    peak_bytes : int
    """
    with TemporaryDirectory() as directory:
        path = Path(directory) / "edges.parquet"
        subprocess.run([sys.executable, script, str(n_edges), "int", path], check=True, capture_output=True)
        begun = time.perf_counter()
        options = "--min-left 6 --min-right 6 --keys plain --chance-copies 0 --no-report --left account --right item"
        mbe = [sys.executable, "-m", "mbe_stage.pipeline.cli.entry"]
        command = [*mbe, "groups", path, *options.split(), "--out", directory]
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - begun
        manifest = next(Path(directory).rglob("manifest.json"))
        listed = [left for _, left in groups_in(manifest.parent)]
        peak_bytes = json.loads(manifest.read_text())["peak_memory_bytes"]
    ranks, n_alone = [], 0
    for ring in range(50):
        accounts = 10**10 + 7 * (int(n_edges) // 8 + 15 * ring + np.arange(15))
        f1 = [best_f1([left], accounts) for left in listed]
        # An F1 of 2 / 3 is a Jaccard index of 1 / 2.
        ranks.append(next((i for i, one in enumerate(f1, 1) if one >= 2 / 3), 10**6))
        n_alone += max(f1, default=0.0) >= 0.8
    return ranks, n_alone, seconds, peak_bytes


def _rows(name: str) -> pa.Table:
    if name not in available():
        with np.load(find_graph(name)[0]) as arrays:
            return pa.table({"account": arrays["u"], "item": arrays["v"]})
    events = load(name)
    columns = {"account": events.left, "item": events.right}
    if events.weights is not None:
        columns["stars"] = events.weights
    if events.times is not None:
        columns["time"] = pa.array(events.times * (86_400 // events.day), pa.timestamp("s"))
    return pa.table(columns)


def _main(name: str) -> dict:
    rows = _rows(name)
    with TemporaryDirectory() as directory:
        # Compiles everything.
        run(config_of(directory), rows.slice(0, 1_000))
        begun = time.perf_counter(), time.process_time()
        manifest = run(config_of(directory), rows).manifest
        share = (time.process_time() - begun[1]) / (time.perf_counter() - begun[0])
    graph = BipartiteCSR.from_edges(
        *(np.unique(rows[side].to_numpy(), return_inverse=True)[1] for side in ("account", "item"))
    )
    begun_alone = time.process_time()
    facts = enumerate_into(_Nowhere(), graph, BicliqueQuery(), Execution(threads=1), engine="cpu")
    return {
        "n_edges": graph.n_edges,
        "n_bicliques": facts.n_bicliques,
        "enumeration": time.process_time() - begun_alone,
        **{name: manifest.seconds.get(name, 0.0) * share for name in ("partners", "enumerate", "tables", "keys")},
        "peak_bytes": manifest.peak_memory_bytes,
    }


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1])))
