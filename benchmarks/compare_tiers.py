"""``make compare-tiers``: publish graphs on two tiers and compare every table.

``python -m benchmarks.compare_tiers [GRAPHS...] [--tiers cpu rapids]`` publishes each graph on both tiers from the same
Parquet file, sorted and with the long form. It reports whether the content fingerprints agree, whether the tables are
equal, row by row and in their schemas, and the result of `mbe verify` for the second tier's run. The exit code is 1 if
anything differs or a tier refuses.

A GPU runs one graph at a time in its own process. Meanwhile the host's tiers work on several graphs at once, with four
cores each, so their seconds are not a measurement. Everything is compiled before, with a generated graph.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.edge_table import edges_as_parquet
from benchmarks.tier_tables import TABLES, differences, publish_with
from mbe_stage.errors import EngineUnavailable, StageError
from mbe_stage.pipeline import RunResult
from mbe_stage.pipeline.errors import VerificationError, exit_code
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.tiers import Tier, tier_named
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.verify import verify_run

__all__ = ["GRAPHS", "Comparison", "compare", "main"]

GRAPHS = (
    "southern_women",
    "corporate_leadership",
    "club_membership",
    "moreno_crime",
    "unicodelang",
    "ucforum",
    "dbpedia_writer",
    "movielens_ti",
    "marvel",
    "mushroom",
    "github_half",
    "youtube",
)
_THREADS_PER_RUN = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one graph on two tiers.

    Attributes
    ----------
    graph : str
    n_bicliques : int
    seconds : tuple of float
        Time of each tier's complete run.
    different : tuple of str
        Differences; see `differences`.
    n_checks : int
        Checks of `mbe verify` that the second tier's run passed against the input; the first failure is in `different`.
    """

    graph: str
    n_bicliques: int
    seconds: tuple[float, float]
    different: tuple[str, ...]
    n_checks: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if two tiers differ or one refuses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=GRAPHS, help="names or files; the smaller ones by default")
    parser.add_argument("--tiers", nargs=2, default=("cpu", "rapids"))
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    graphs = tuple(options.graphs or GRAPHS)
    start = time.perf_counter()
    try:
        tiers = tuple(tier_named(name) for name in options.tiers)
        with tempfile.TemporaryDirectory(prefix="mbe-tiers-") as name, _workers(len(graphs)) as workers:
            directory = Path(name)
            inputs = {graph: edges_as_parquet(graph, directory) for graph in graphs}
            device = _warm_up(workers, tiers, directory)
            about = machine.describe()
            print(f"{device} and {about['processor']}, {about['date']}, commit {options.commit or about['commit']}")
            print(f"tables: {', '.join(TABLES)}; everything compiled after {time.perf_counter() - start:.0f} s\n")
            n_different = _print_all(_compared(workers, tiers, inputs, directory), options.tiers)
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    verdict = f"{n_different} not equal" if n_different else "all equal"
    print(f"\n{len(graphs)} graphs in {time.perf_counter() - start:.0f} s: {verdict}")
    return 1 if n_different else 0


def _print_all(comparisons: Iterable[Comparison], tiers: Sequence[str]) -> int:
    """Print a line for each finished graph; return the number of unequal ones."""
    print(f"{'graph':<22}{'bicliques':>12}" + "".join(f"{tier + ' s':>12}" for tier in tiers) + "  result")
    n_different = 0
    for comparison in comparisons:
        n_different += bool(comparison.different)
        equal = f"fingerprint and {len(TABLES)} tables equal, {comparison.n_checks} checks of verify passed"
        seconds = "".join(f"{seconds:>12.2f}" for seconds in comparison.seconds)
        verdict = "; ".join(comparison.different) or equal
        print(f"{comparison.graph:<22}{comparison.n_bicliques:>12,}{seconds}  {verdict}", flush=True)
    return n_different


@dataclass(frozen=True, slots=True)
class _Workers:
    """Processes that publish and compare: one for the GPU, as a run plans with all memory, several for the host."""

    gpu: Executor
    host: Executor
    threads: int

    def publish(self, tier: Tier, edges: Path, out: Path) -> Future[RunResult | str]:
        return (self.gpu if tier.uses_gpu else self.host).submit(_publish, tier.name, edges, out, self.threads)


@contextmanager
def _workers(n_graphs: int) -> Iterator[_Workers]:
    # Spawned: a device that the parent has used cannot be used after a fork.
    context = multiprocessing.get_context("spawn")
    n_cores = len(os.sched_getaffinity(0))
    n_processes = max(1, min(n_graphs, n_cores // _THREADS_PER_RUN))
    gpu, host = (ProcessPoolExecutor(n, mp_context=context) for n in (1, n_processes))
    try:
        yield _Workers(gpu, host, max(1, n_cores // n_processes))
    finally:
        for pool in (gpu, host):
            pool.shutdown(cancel_futures=True)


def _warm_up(workers: _Workers, tiers: Sequence[Tier], directory: Path) -> str:
    """Let each tier compile once for all its processes; return the device of the second tier.

    Raises
    ------
    EngineUnavailable
        A tier cannot publish even a crown graph of nine.
    """
    edges = directory / "warm-up.parquet"
    # Each vertex lacks a different one: no reduction can remove anything before the engine starts.
    left, right = zip(*((u, v) for u in range(9) for v in range(9) if u != v), strict=True)
    pq.write_table(pa.table({"left": left, "right": right}), edges)
    runs = [workers.publish(tier, edges, directory / f"warm-up-{tier.name}") for tier in tiers]
    results = [future.result() for future in runs]
    for tier, result in zip(tiers, results, strict=True):
        if isinstance(result, str):
            raise EngineUnavailable(f"tier {tier.name}: {result}")
    return results[1].manifest.device


def _compared(
    workers: _Workers, tiers: Sequence[Tier], inputs: Mapping[str, Path], directory: Path
) -> Iterator[Comparison]:
    """Publish every graph on both tiers and compare, in the order of the graphs; remove each when it is done."""

    def follow(graph: str) -> Comparison:
        with tempfile.TemporaryDirectory(dir=directory) as out:
            runs = [workers.publish(tier, inputs[graph], Path(out, tier.name)) for tier in tiers]
            results = [future.result() for future in runs]
            return workers.host.submit(compare, graph, *results).result()

    # Threads that only wait, so that each graph continues when its own runs are done.
    with ThreadPoolExecutor(len(inputs)) as waiting:
        yield from waiting.map(follow, inputs)


def compare(graph: str, one: RunResult | str, other: RunResult | str) -> Comparison:
    """Compare two runs, and the second with its input; text stands for a refused run."""
    refusals = tuple(f"refused: {run}" for run in (one, other) if isinstance(run, str))
    if isinstance(one, str) or isinstance(other, str):
        return Comparison(graph, 0, (0.0, 0.0), refusals, 0)
    different, n_checks = differences(one, other), 0
    try:
        n_checks = len(verify_run(other.run_dir, ingest(reading_of(other.manifest.config))).checks)
    except VerificationError as error:
        different.append(f"verify: {error}")
    seconds = (one.manifest.seconds["total"], other.manifest.seconds["total"])
    return Comparison(graph, one.manifest.counts.bicliques, seconds, tuple(different), n_checks)


def _publish(tier: str, edges: Path, out: Path, threads: int) -> RunResult | str:
    # As text: not every error can be sent to another process.
    try:
        return publish_with(tier, edges, out, threads=threads)
    except StageError as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
