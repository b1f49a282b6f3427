"""Ask the counting CUDA engine for barriers at random moments: the results before and after them are complete."""

from __future__ import annotations

import random
from typing import Any

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts import engine_cpu, engine_cuda
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task
from tests.mbe_stage.pq_counts.local_counting import Local, plain

__all__ = ["asked_at_random"]

Tasks = tuple[Task, ...] | None


def asked_at_random(
    graph: BipartiteCSR,
    query: PqQuery,
    detail: Detail,
    tasks: Tasks,
    seed: int,
    execution: Execution,
    most_checked: int = 1000,
    **options: Any,
) -> dict[str, Any]:
    """Check that counts before and after barriers are complete; return figures of the barriers.

    The figures are the numbers of barriers, of ranges at most, and of barriers with results on both sides. The engine
    `cpu` counts below the remaining roots.
    """
    wanted = told(counted(PqSink(query, detail), graph, query, detail, tasks))
    dice, barrier, sink, shares = random.Random(seed), Barrier(), PqSink(query, detail), [0.0]
    facts: dict[str, Any] = {"same": True, "markers": 0, "ranges": 0, "between": 0, "n": sum(wanted[0].values())}
    barrier.ask()
    for block in engine_cuda.run(graph, query, execution, detail, tasks, barrier=barrier, **options):
        sink.accept(block)
        shares.append(block.work_done)
        if block.remaining is not None:
            assert len(block) == 0
            assert block.local is None
            facts["markers"] += 1
            facts["ranges"] = max(facts["ranges"], len(block.remaining))
            if facts["markers"] <= most_checked:
                before = PqSink(query, detail)
                before.restore(sink.sums())
                facts["between"] += 0 < sum(before.counts().values()) < facts["n"]
                facts["same"] &= told(counted(before, graph, query, detail, block.remaining)) == wanted
        if dice.random() < 0.8:
            barrier.ask()
    facts["same"] &= told(sink) == wanted and shares == sorted(shares) and shares[-1] == 1.0
    return facts


def counted(sink: PqSink, graph: BipartiteCSR, query: PqQuery, detail: Detail, tasks: Tasks) -> PqSink:
    for block in engine_cpu.run(graph, query, Execution(threads=1), detail, tasks):
        sink.accept(block)
    return sink


def told(sink: PqSink) -> Local:
    """Return its content in plain integers."""
    return sink.counts(), plain(sink.local_counts())
