"""The flow of maximal cliques: an undirected graph, or a projection, in; a published run out."""

from mbe_stage.flows.of_problem import flow_of

configure, enumerate_cliques_flow = flow_of(
    "cliques",
    "mbe_stage.flows.cliques.enumerate_cliques_flow",
    "enumerate-cliques",
    "Enumerate the maximal cliques of an undirected graph, or of a projection, and publish them.",
)

if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("cliques")
