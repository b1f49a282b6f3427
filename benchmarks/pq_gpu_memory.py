"""The counting CUDA engine with less device memory: equal counts, in parts, and their times.

For each graph and cell: plenty, then a half, an eighth and a thirty-second of the first measured need of the whole
(`NEEDED`; of other graphs the current need), and the smallest budget that a refusal names. Each has the best seconds,
from the graph on the device to the count, also as a multiple of plenty's; and of them the kernel's, the host's (core
and cutting into parts), waiting for lists, transfer, and moving waiting nodes to the host and back. The graph itself,
in device memory, is in no budget. ``python -m benchmarks.pq_gpu_memory --help`` lists the options.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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

_Counted = Callable[[int | None], tuple[int | None, dict[str, int], str]]
_GRAPHS = ("bookcrossing", "kddcup99_onehot")
_SIZES = (2, 3)
_PARTS = (2, 8, 32)
_COMPILING = 60.0
NEEDED = {
    ("bookcrossing", 2): 499_497_768,
    ("bookcrossing", 3): 362_980_520,
    ("kddcup99_onehot", 2): 2_107_747_232,
    ("kddcup99_onehot", 3): 2_107_747_232,
}
"""Bytes of device memory of the whole at commit 60f9c07, by p and q. Budgets stay if it needs less now."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a count differs, 4 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=_GRAPHS)
    parser.add_argument("--sizes", nargs="*", type=int, default=_SIZES, help="p and q, which are equal")
    parser.add_argument("--parts", nargs="*", type=int, default=_PARTS, help="of what the whole needs: 2 is a half")
    parser.add_argument("--no-smallest", action="store_true", help="not the smallest budget that a refusal names")
    parser.add_argument("--repeats", type=int, default=3, help="of which the best is told")
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
            counted = partial(_counted, graph, size, options.seconds, options.repeats)
            needed = NEEDED.get((name, size))
            for line, is_same in _measured(
                graph, counted, options.parts, needed, with_smallest=not options.no_smallest
            ):
                print(f"{name} ({size},{size}) {line}", flush=True)
                worst |= not is_same
    return worst


def _measured(
    graph: BipartiteCSR,
    counted: _Counted,
    parts: Sequence[int] = _PARTS,
    needed: int | None = None,
    *,
    with_smallest: bool = True,
) -> Iterator[tuple[str, bool]]:
    """Yield a line for each budget, and whether its count equals that of plenty.

    Parameters
    ----------
    graph : BipartiteCSR
    counted : function
        Takes a budget, as `_counted`.
    parts : sequence of int
        Divisors of the memory of the whole.
    needed : int, optional
        Bytes of the whole; measured by default.
    with_smallest : bool
        Also measure the budget that a refusal names.
    """
    from mbe_stage.pq_counts.cuda.prepare import preparation_bytes

    wanted, facts, text = counted(None)
    yield f"plenty: {text}", True
    needed = needed or max(preparation_bytes(graph), facts.get("plan_bytes", 0))
    budgets = [(f"1/{part} of {needed:,}", needed // part) for part in parts]
    try:
        if with_smallest:
            counted(1)
    except MemoryBudgetExceeded as refusal:
        budgets.append(("smallest", refusal.needed_bytes or 1))
    for name, budget in budgets:
        try:
            found, less, text = counted(budget)
        except MemoryBudgetExceeded as refusal:
            # The budget that a refusal names must be enough.
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
    graph: BipartiteCSR, size: int, limit: float, repeats: int, budget: int | None
) -> tuple[int | None, dict[str, int], str]:
    """Return the count, None after a timeout; the engine's figures; and a line with both.

    Parameters
    ----------
    graph : BipartiteCSR
    size : int
        p and q.
    limit : float
        Seconds.
    repeats : int
        After the first, which may compile and allocates memory that the others reuse.
    budget : int or None
        Bytes; by default the free memory.
    """
    query, execution, seconds = PqQuery.of(size, size), Execution(device_memory_bytes=budget), float("inf")
    for repeat in range(repeats + 1):
        now: dict[str, int] = {}
        start = time.perf_counter()
        found, is_whole = count(graph, query, now, limit + _COMPILING * (repeat == 0), execution)
        took, n = time.perf_counter() - start, found[size, size]
        if not is_whole:
            return None, now, f"given up after {took:.1f} s, {n:,} or more"
        if repeat > 0 and took < seconds:
            seconds, facts = took, now
    facts["all_us"] = round(1e6 * seconds)
    loaded = facts.get("entries", 0) / max(1, facts.get("core_entries", 0))
    times = "  ".join(
        f"{name} {facts.get(f'{name}_us', 0) / 1e6:.4f}" for name in ("kernel", "host", "lists", "transfer", "waiting")
    )
    keys = ("plan_bytes", "warps", "quanta", "drains", "waits")
    told = "  ".join(f"{key} {facts[key]:,}" for key in keys if key in facts)
    line = f"{seconds:.4f} s  {times}  count {n:,}  parts {facts.get('parts', 0)}  loaded {loaded:.2f}  {told}"
    return n, facts, line


if __name__ == "__main__":
    sys.exit(main())
