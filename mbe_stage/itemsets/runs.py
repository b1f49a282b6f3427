"""The problem of closed itemsets: maximal bicliques without the members of their left sides, which are transactions.

Imported to list the installed problems, so engines import arrays later.
"""

from __future__ import annotations

from dataclasses import replace

from mbe_stage.bicliques.problem import PROBLEM as BICLIQUES

PROBLEM = replace(
    BICLIQUES,
    name="itemsets",
    limit=None,
    sampler=None,
    publication="mbe_stage.pipeline.problems.itemsets.publication:PUBLICATION",
    about="Enumerate the closed itemsets of baskets.",
)
