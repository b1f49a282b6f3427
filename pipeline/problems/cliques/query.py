"""The query in dense ids, and the graph to search."""

from __future__ import annotations

from typing import Any, Literal

from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.cliques.section import CliquesSection
from mbe_stage.pipeline.problems.query import KeyedEdges, dense_ids
from mbe_stage.shared_neighbours.projection import projected


def to_query(section: CliquesSection, edges: KeyedEdges) -> CliqueQuery:
    """Return the query for the engines.

    Raises
    ------
    InputError
        A key of `containing` is not in the graph.
    """
    return CliqueQuery(
        min_size=section.min_size,
        max_size=section.max_size,
        containing=dense_ids(section.containing, edges, side_of(section), "cliques", "containing"),
    )


def side_of(section: CliquesSection) -> Literal["left", "right"]:
    """Return the side of the edges that has the vertices; an undirected graph has equal sides."""
    return section.project or "left"


def keys_of(section: CliquesSection, edges: Any) -> Any:
    """Return the keys of the vertices as a column of the backend; the position is the dense id."""
    return edges.left_keys if side_of(section) == "left" else edges.right_keys


def hashes_of(section: CliquesSection, edges: Any, backend: Any) -> Any:
    """Return the hash of each vertex as a left one, from either side: (n,) uint64."""
    return edges.key_hashes()[0] if side_of(section) == "left" else backend.key_hashes(keys_of(section, edges), "left")


def graph_of(config: Config, edges: Any) -> UndirectedCSR:
    """Return the graph to search.

    Raises
    ------
    MemoryBudgetExceeded
        The projection does not fit the budget.
    """
    section = config.problem_section
    if section.project is None:
        return edges.graph()
    bipartite = edges.to_host().graph()
    oriented = bipartite if section.project == "left" else bipartite.swapped()
    return projected(oriented, section.min_shared, config.execution.memory_bytes, config.execution.threads)
