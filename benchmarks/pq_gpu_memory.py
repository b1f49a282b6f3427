"""What the CUDA engine of counts does with less device memory: the same counts, at which times, and what it refuses.

For each graph and cell: what a plan takes of plenty, then a half, an eighth and a thirty-second of it, and the smallest
budget that a refusal names. ``python -m benchmarks.pq_gpu_memory [GRAPH ...]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, graph_on_device
from benchmarks.pq_gpu import count
from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cuda
from mbe_stage.pq_counts.query import PqQuery

__all__ = ["main"]

_GRAPHS = ("bookcrossing", "kddcup99_onehot")
_SIZES = (2, 3)
_PARTS = (2, 8, 32)
# A refusal names what the next step needs, and that may ask for more.
_MOST_STEPS = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a count differs, 4 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=_GRAPHS)
    parser.add_argument("--seconds", type=float, default=20.0, help="after which a count is given up")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    print(json.dumps(device_facts(options.commit)))
    worst = 0
    for name in options.graphs:
        graph = graph_on_device(name)
        for size in _SIZES:
            for line, is_same in _measured(graph, size, options.seconds):
                print(f"{name} ({size},{size}) {line}", flush=True)
                worst |= not is_same
    return worst


def _measured(graph: BipartiteCSR, size: int, limit: float) -> Iterator[tuple[str, bool]]:
    """A line for each budget, and whether its count is that of plenty."""
    facts: dict[str, int] = {}
    try:
        wanted, text = _counted(graph, size, None, limit, facts)
    except MemoryBudgetExceeded as refusal:
        yield f"plenty: refused: {refusal}", True
        return
    yield f"plenty: {text}", True
    planned = facts.get("plan_bytes")
    if planned is None or wanted is None:
        return
    for part in _PARTS:
        yield _with_budget(f"1/{part} of {planned:,}", graph, size, planned // part, limit, wanted)
    budget = 1
    for _ in range(_MOST_STEPS):
        try:
            found, text = _counted(graph, size, budget, limit, facts)
        except MemoryBudgetExceeded as refusal:
            if refusal.needed_bytes is None:
                yield f"smallest: refused without a number: {refusal}", False
                return
            budget = refusal.needed_bytes
            continue
        yield f"smallest {budget:,}: {text}", found in (None, wanted)
        return
    yield f"smallest: refused at {budget:,} after {_MOST_STEPS} steps", False


def _with_budget(name: str, graph: BipartiteCSR, size: int, budget: int, limit: float, wanted: int) -> tuple[str, bool]:
    """A line of one budget.

    Parameters
    ----------
    name : str
    graph : BipartiteCSR
    size : int
        p and q.
    budget : int
        Bytes.
    limit : float
        Seconds.
    wanted : int
        The count.
    """
    try:
        found, text = _counted(graph, size, budget, limit, {})
    except MemoryBudgetExceeded as refusal:
        return f"{name}: refused: {refusal}", True
    return f"{name}: {text}", found in (None, wanted)


def _counted(
    graph: BipartiteCSR, size: int, budget: int | None, limit: float, facts: dict[str, int]
) -> tuple[int | None, str]:
    """The count, None where the time was over, and a line that has it."""
    execution = Execution(device_memory_bytes=budget)
    start = time.perf_counter()
    found, is_whole = count(graph, PqQuery.of(size, size), facts, limit, execution)
    seconds = time.perf_counter() - start
    n = found[size, size]
    if not is_whole:
        return None, f"given up after {seconds:.1f} s, {n:,} or more"
    told = "  ".join(f"{key} {facts[key]:,}" for key in ("plan_bytes", "warps", "quanta") if key in facts)
    return n, f"{seconds:.4f} s  count {n:,}  {told}"


if __name__ == "__main__":
    sys.exit(main())
