"""The CUDA engine that counts (p, q)-bicliques on one GPU, compared with GBC on the same kind of device.

Times run from the graph's two CSR directions on the device to the count (including core, order and the sum of leaves,
excluding compilation), best of five; GBC's are its own, without its reordering and reading. Counts are compared with
the recorded ones. ``python -m benchmarks.pq_gpu --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import exp, log
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, graph_on_device
from benchmarks.pq_local import GRAPHS as GRAPHS_WITH_LOCAL_COUNTS
from benchmarks.pq_local import local_rows
from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cuda
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink

__all__ = ["GBC", "count", "main"]

_CELLS = (3, 4, 6, 8)
GBC: dict[str, tuple[float, ...]] = {
    "youtube": (0.396, 0.389, 1.81, 1.99),
    "lastfm_tag_artist": (0.274, 0.498, 1.81, 2.97),
    "github_half": (0.458, 0.216, 0.090, 0.046),
    "actor_movies": (0.807, 0.225, 0.085, 0.029),
}
"""Seconds of GBC on one H200 for (3, 3), (4, 4), (6, 6) and (8, 8), the better of its two layers; 2026-11-20."""
UNFINISHED = "bookcrossing"
"""A graph that GBC does not finish in 12 seconds."""
KNOWN: dict[tuple[str, int], int] = {
    ("youtube", 3): 146_517_782,
    ("youtube", 4): 626_892_852,
    ("youtube", 6): 1_309_342_703,
    ("youtube", 8): 205_411_586,
    ("lastfm_tag_artist", 3): 731_282_108,
    ("lastfm_tag_artist", 4): 8_186_356_587,
    ("lastfm_tag_artist", 6): 45_280_458_274,
    ("lastfm_tag_artist", 8): 25_856_778_483,
    ("github_half", 3): 3_117_279,
    ("github_half", 4): 174_155,
    ("github_half", 6): 0,
    ("actor_movies", 3): 2_381_119,
    ("actor_movies", 4): 4_579_343,
    ("actor_movies", 6): 15_199_206,
    ("actor_movies", 8): 75_601,
}
"""Counts of other programs; except actor_movies (3, 3), where GBC gives 2,381,100, but testing all triples of left
vertices gives this (`tests/mbe_stage/pq_counts/test_counts.py`).
"""
TABLES = ("youtube", "lastfm_tag_artist")
_LIMIT_SECONDS = 20.0
_EXECUTION = Execution()
_EVERYTHING = Techniques()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a count is wrong, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", help="of those that are known; by default all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tables", action="store_true", help="the tables of up to 10 by 10 too")
    parser.add_argument(
        "--ablation",
        action="store_true",
        help="the same with each technique left out in turn too, or added that is off",
    )
    parser.add_argument("--local", action="store_true", help="local counts in place of that, beside the counts")
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="of local counts: by default 2, 3 and 4")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--json", type=Path, help="where the rows go as well")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    facts = device_facts(options.commit)
    print(json.dumps(facts))
    rows = []
    for row in _asked_for(options):
        rows.append(row)
        print("  ".join(f"{name} {_shown(value)}" for name, value in row.items()), flush=True)
    faster = [row["times"] for row in rows if row.get("GBC")]
    if faster:
        mean = exp(sum(map(log, faster)) / len(faster))
        print(f"{len(faster)} cells: {mean:.1f} times GBC in the geometric mean, {min(faster):.1f} at least")
    if options.json:
        options.json.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["right"] is False for row in rows))


def _asked_for(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if options.local:
        graphs = {name: graph_on_device(name) for name in options.graphs or GRAPHS_WITH_LOCAL_COUNTS}
        return local_rows(graphs, options.sizes, options.repeats)
    names = options.graphs or [*GBC, UNFINISHED]
    return _measured(names, options.repeats, with_tables=options.tables, with_ablation=options.ablation)


def count(
    graph: BipartiteCSR,
    query: PqQuery,
    facts: dict[str, int] | None = None,
    seconds: float | None = None,
    execution: Execution = _EXECUTION,
    techniques: Techniques = _EVERYTHING,
) -> tuple[dict[tuple[int, int], int], bool]:
    """Return the counts and whether the work is complete.

    Parameters
    ----------
    graph : BipartiteCSR
    query : PqQuery
    facts : dict, optional
        Receives figures of the warps.
    seconds : float, optional
        Time limit; a quantum more is possible.
    execution : Execution
    techniques : Techniques
    """
    sink = PqSink(query)
    start = time.perf_counter()
    work_done = 0.0
    for block in engine_cuda.run(graph, query, execution, Detail.COUNTS, statistics=facts, techniques=techniques):
        sink.accept(block)
        work_done = block.work_done
        if seconds is not None and time.perf_counter() - start > seconds:
            break
    return sink.counts(), work_done == 1.0


def _measured(
    names: Sequence[str], repeats: int, *, with_tables: bool, with_ablation: bool
) -> Iterator[dict[str, Any]]:
    names_left_out = [field.name for field in fields(Techniques)] if with_ablation else []
    for name in names:
        graph = graph_on_device(name)
        for place, size in enumerate(_CELLS):
            peer = GBC[name][place] if name in GBC else None
            query, known = PqQuery.of(size, size), KNOWN.get((name, size))
            yield _row(name, graph, query, known, peer, repeats)
            for technique in names_left_out:
                row = _row(name, graph, query, known, None, min(3, repeats), Techniques.without(technique))
                yield {"without": technique} | row
        if with_tables and name in TABLES:
            yield _row(name, graph, PqQuery(1, 10, 1, 10), None, None, repeats)


def _row(
    name: str,
    graph: BipartiteCSR,
    query: PqQuery,
    known: int | None,
    peer: float | None,
    repeats: int,
    techniques: Techniques = _EVERYTHING,
) -> dict[str, Any]:
    """Return the row of one cell, or of a table.

    Parameters
    ----------
    name : str
    graph : BipartiteCSR
    query : PqQuery
    known : int, optional
        Known count.
    peer : float, optional
        GBC's seconds.
    repeats : int
    techniques : Techniques
    """
    cell = f"({query.max_p},{query.max_q})" if query.min_p > 1 else f"table {query.max_p}x{query.max_q}"
    row: dict[str, Any] = {"graph": name, "cell": cell, "right": None}
    facts: dict[str, int] = {}
    best = float("inf")
    try:
        found, is_whole = count(graph, query, facts, _LIMIT_SECONDS, techniques=techniques)
        if is_whole:
            # The first may have compiled the kernel.
            count(graph, query, facts, techniques=techniques)
        for _ in range(repeats if is_whole else 0):
            start = time.perf_counter()
            again, _ = count(graph, query, techniques=techniques)
            best = min(best, time.perf_counter() - start)
            if again != found:
                row["right"] = False
    except MemoryBudgetExceeded as refusal:
        return row | {"refused": str(refusal)}
    total = found[query.max_p, query.max_q]
    if known is not None:
        row["right"] = row["right"] is not False and total == known
    elif query.min_p == 1:
        row["right"] = row["right"] is not False and all(found[cell] == n for cell, n in _known_cells(name).items())
    kernel = facts.get("kernel_us", 0) / 1e6
    warps = facts.get("warps", 1)
    return row | {
        "seconds": best if is_whole else None,
        "GBC": peer,
        "times": None if peer is None or not is_whole else peer / best,
        "count": total,
        "whole": is_whole,
        "kernel s": kernel,
        "busy": 1 - facts.get("idle_ns", 0) / max(1.0, 1e9 * kernel * warps),
        "in pieces": facts.get("piece_ns", 0) / max(1.0, 1e9 * kernel * warps),
        **{
            key: facts.get(key)
            for key in ("visited", "pieces", "nodes", "pool_words", "quanta", "kinds", "warps", "plan_bytes")
        },
    }


def _known_cells(name: str) -> dict[tuple[int, int], int]:
    """Return the cells of a table of up to 10 by 10 that other programs gave."""
    cells = {(size, size): n for (graph, size), n in KNOWN.items() if graph == name}
    path = Path(os.environ.get("MBE_DATA", "")) / f"{name}_pq_counts.txt"
    if path.is_file():
        lines = (tuple(map(int, line.split())) for line in path.read_text(encoding="ascii").splitlines())
        cells |= {(p, q): n for p, q, n in lines if p <= 10 and q <= 10}
    return cells


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
