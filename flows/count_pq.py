"""The flow of (p, q)-counts: edges in, a table of counts out, per vertex and edge if requested."""

from mbe_stage.flows.of_problem import flow_of

configure, count_pq_flow = flow_of(
    "pq_counts",
    "mbe_stage.flows.count_pq.count_pq_flow",
    "count-pq-bicliques",
    "Count the (p, q)-bicliques of a graph, one count or a table of them, and publish them.",
)

if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("count_pq")
