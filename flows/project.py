"""The flow of shared neighbours: edges in, a table of pairs with their similarity out."""

from mbe_stage.flows.of_problem import flow_of

configure, shared_neighbours_flow = flow_of(
    "shared_neighbours",
    "mbe_stage.flows.project.shared_neighbours_flow",
    "list-shared-neighbours",
    "List the pairs of vertices of one side that share neighbours, and publish them.",
)

if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("project")
