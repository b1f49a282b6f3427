"""What the CUDA engine of counts does with less device memory: the same counts, in parts, at which times.

For each graph and cell: what the whole needs, as it is planned with plenty, then a half, an eighth and a
thirty-second of it, and the smallest budget that a refusal names. Of each the parts, the entries that are loaded by
those of the core, and seconds: of the kernel, of the host (core and cut), of waiting for lists, of transfer, of moving
nodes that wait to the host and back, and in all. ``python -m benchmarks.pq_gpu_memory --help`` lists the options.
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a count differs, 4 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=_GRAPHS)
    parser.add_argument("--sizes", nargs="*", type=int, default=_SIZES, help="p and q, which are equal")
    parser.add_argument("--parts", nargs="*", type=int, default=_PARTS, help="of what the whole needs: 2 is a half")
    parser.add_argument("--no-smallest", action="store_true", help="not the smallest budget that a refusal names")
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
        for size in options.sizes:
            for line, is_same in _measured(graph, size, options.seconds, options.parts, not options.no_smallest):
                print(f"{name} ({size},{size}) {line}", flush=True)
                worst |= not is_same
    return worst


def _measured(
    graph: BipartiteCSR, size: int, limit: float, parts: Sequence[int] = _PARTS, with_smallest: bool = True
) -> Iterator[tuple[str, bool]]:
    """A line for each budget, and whether its count is that of plenty.

    Parameters
    ----------
    graph : BipartiteCSR
    size : int
        p and q.
    limit : float
        Seconds.
    parts : sequence of int
        Of what the whole needs.
    with_smallest : bool
        What a refusal names too.
    """
    from mbe_stage.pq_counts.cuda.prepare import preparation_bytes

    # The first compiles, and takes the memory that the others are given again.
    _counted(graph, size, None, limit)
    wanted, facts, text = _counted(graph, size, None, limit)
    yield f"plenty: {text}", True
    needed = max(preparation_bytes(graph), facts.get("plan_bytes", 0))
    budgets = [(f"1/{part} of {needed:,}", needed // part) for part in parts]
    try:
        if with_smallest:
            _counted(graph, size, 1, limit)
    except MemoryBudgetExceeded as refusal:
        budgets.append(("smallest", refusal.needed_bytes or 1))
    for name, budget in budgets:
        try:
            found, less, text = _counted(graph, size, budget, limit)
        except MemoryBudgetExceeded as refusal:
            # What a refusal names has to be enough.
            yield f"{name}: refused: {refusal}", name != "smallest"
            continue
        if found is None:
            yield f"{name}, {budget:,} bytes: {text}", True
            continue
        if wanted is not None:
            kernel, in_all = (less[key] / max(1, facts[key]) for key in ("kernel_us", "all_us"))
            text += f"  kernel {kernel:.2f} times, in all {in_all:.2f} times the whole's"
        yield f"{name}, {budget:,} bytes: {text}", wanted in (found, None)


def _counted(
    graph: BipartiteCSR, size: int, budget: int | None, limit: float
) -> tuple[int | None, dict[str, int], str]:
    """The count, None where the time was over; what the engine tells; and a line that has both.

    Parameters
    ----------
    graph : BipartiteCSR
    size : int
        p and q.
    budget : int or None
        Bytes; by default what is free.
    limit : float
        Seconds.
    """
    facts: dict[str, int] = {}
    execution = Execution(device_memory_bytes=budget)
    start = time.perf_counter()
    found, is_whole = count(graph, PqQuery.of(size, size), facts, limit, execution)
    seconds = time.perf_counter() - start
    n, facts["all_us"] = found[size, size], round(1e6 * seconds)
    if not is_whole:
        return None, facts, f"given up after {seconds:.1f} s, {n:,} or more"
    loaded = facts.get("entries", 0) / max(1, facts.get("core_entries", 0))
    times = "  ".join(
        f"{name} {facts.get(f'{name}_us', 0) / 1e6:.4f}" for name in ("kernel", "host", "lists", "transfer", "waiting")
    )
    told = "  ".join(f"{key} {facts[key]:,}" for key in ("plan_bytes", "warps", "quanta", "waits") if key in facts)
    line = f"{seconds:.4f} s  {times}  count {n:,}  parts {facts.get('parts', 0)}  loaded {loaded:.2f}  {told}"
    return n, facts, line


if __name__ == "__main__":
    sys.exit(main())
