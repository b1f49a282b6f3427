"""The problem of closed itemsets: maximal bicliques without their left members, the transactions.

This module is imported to list the installed problems, so it must not import arrays.
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
