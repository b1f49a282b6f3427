"""What a run will take of memory for local counts, as `mbe inspect` says it."""

from __future__ import annotations

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail
from pipeline.config import Config
from pipeline.outputs.pq_counts.memory import lack_of_room, local_bytes
from pipeline.outputs.pq_counts.query import detail_of
from pipeline.publication import Room
from pipeline.wording import bytes_text, plural

__all__ = ["room"]


def room(config: Config, query: PqQuery, graph: BipartiteCSR) -> Room:
    """The bytes that are set aside, and the refusal where they do not fit."""
    detail, degrees = detail_of(config.asked), (graph.left_degrees, graph.right_degrees)
    if detail < Detail.VERTICES:
        return Room()
    n_bytes = local_bytes(query, detail, *degrees)
    n_rows = len(query.cells) * (graph.n_left + graph.n_right + (graph.n_edges if detail >= Detail.EDGES else 0))
    lines = [("local", f"{plural(n_rows, 'row')}, for which {bytes_text(n_bytes)} of memory are set aside")]
    lack = lack_of_room(query, detail, degrees, config.execution.memory_budget)
    return Room(n_bytes, lines if lack is None else [*lines, ("refused", f"a run of this ends here: {lack}")])
