"""Degrees and two-hop degrees of both sides, counted while an engine works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.two_hop import begin_two_hop_degrees
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.backend import GraphFacts


@contextmanager
def graph_facts_beside(
    graph: BipartiteCSR, most_steps: int, execution: Execution
) -> Iterator[Callable[[], GraphFacts]]:
    """Count two-hop degrees in threads that end with the context; the yielded function waits, and returns all facts.

    A side that needs more than `most_steps` is not counted; 0 counts none.
    """
    if most_steps == 0:
        yield lambda: GraphFacts(graph.left_degrees, graph.right_degrees, None, None, {})
        return
    n_threads = execution.worker_count
    pool = ThreadPoolExecutor(n_threads, "two-hop")
    try:
        left, right = (begin_two_hop_degrees(side, pool, n_threads, most_steps) for side in (graph, graph.swapped()))
        yield lambda: GraphFacts(graph.left_degrees, graph.right_degrees, left(), right(), {})
    finally:
        pool.shutdown(cancel_futures=True)
