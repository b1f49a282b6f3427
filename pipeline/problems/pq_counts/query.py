"""The query in dense ids."""

from __future__ import annotations

from mbe_stage.pipeline.problems.pq_counts.section import PqCountsSection
from mbe_stage.pipeline.problems.query import KeyedEdges, dense_ids
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail


def to_query(section: PqCountsSection, edges: KeyedEdges) -> PqQuery:
    """Return the query for the engines.

    Raises
    ------
    InputError
        A key of `containing_left` or `containing_right` is not in the graph.
    """
    return PqQuery(
        min_p=1 if section.table else section.p,
        max_p=section.p,
        min_q=1 if section.table else section.q,
        max_q=section.q,
        containing_left=dense_ids(section.containing_left, edges, "left", "pq_counts"),
        containing_right=dense_ids(section.containing_right, edges, "right", "pq_counts"),
    )


def detail_of(section: PqCountsSection) -> Detail:
    """Return the detail that the engine has to produce."""
    return {"none": Detail.COUNTS, "vertices": Detail.VERTICES, "edges": Detail.EDGES}[section.local]
