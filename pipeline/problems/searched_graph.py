"""The graph that a run searches: the input's graph, or one that the problem derives from it."""

from __future__ import annotations

from dataclasses import dataclass

from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.wording import plural


@dataclass(frozen=True, slots=True)
class SearchedGraph:
    """The size of the searched graph.

    Attributes
    ----------
    n_vertices : int
        Number of vertices; in a bipartite graph, of both sides together.
    made_of_input : str or None
        Name of a derived graph, such as ``left projection``; None for the input's graph.
    """

    n_vertices: int
    n_edges: int
    made_of_input: str | None = None


def graph_of_input(facts: InputFacts) -> SearchedGraph:
    """Return the graph of the input itself."""
    n_vertices = facts.n_left if facts.undirected is not None else facts.n_left + facts.n_right
    return SearchedGraph(n_vertices, facts.n_edges)


def sizes_text(graph: SearchedGraph, facts: InputFacts) -> str:
    """Return its size in words, with that of the input if it differs.

    Examples
    --------
    >>> facts = InputFacts("visits.csv", "csv", 6, 0, 0, 0, 0, 3, 3, 6, "0-0")
    >>> sizes_text(graph_of_input(facts), facts)
    '3 left x 3 right, 6 edges'
    >>> sizes_text(SearchedGraph(3, 1, "left projection"), facts)
    '3 vertices, 1 edge, the left projection of 3 left x 3 right, 6 edges'
    """
    of_input = f"{facts.vertices_text}, {plural(facts.n_edges, 'edge')}"
    if graph.made_of_input is None:
        return of_input
    sizes = f"{plural(graph.n_vertices, 'vertex', 'vertices')}, {plural(graph.n_edges, 'edge')}"
    return f"{sizes}, the {graph.made_of_input} of {of_input}"
