"""The section `itemsets`; its fields are also the options of ``mbe itemsets``."""

from __future__ import annotations

from pydantic import Field

from mbe_stage.options import NO_LIMIT
from mbe_stage.pipeline.config.section import Section


class ItemsetsSection(Section):
    """Select closed itemsets. Baskets are on the left, items on the right."""

    min_support: float = Field(0.01, gt=0, le=1, description="Least share of the baskets that hold the items.")
    min_count: int | None = Field(
        None, ge=1, lt=NO_LIMIT, description="Least number of these baskets, in place of the share."
    )
    max_len: int | None = Field(
        None, ge=1, lt=NO_LIMIT, description="Most items; larger closed sets are left out, and not replaced by subsets."
    )
    maximal: bool = Field(False, description="Only sets without a superset of the minimum support.")
    min_confidence: float | None = Field(
        None, gt=0, le=1, description="Publish association rules, of at least this confidence, too."
    )
