"""The flow of closed itemsets: baskets in, a published run out."""

from mbe_stage.flows.of_problem import flow_of

configure, enumerate_itemsets_flow = flow_of(
    "itemsets",
    "mbe_stage.flows.itemsets.enumerate_itemsets_flow",
    "enumerate-itemsets",
    "Enumerate the closed itemsets of baskets, and publish them.",
)

if __name__ == "__main__":
    from mbe_stage.flows.command import main

    main("itemsets")
