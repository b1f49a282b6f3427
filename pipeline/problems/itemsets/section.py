"""The section `itemsets`; its fields are also the options of ``mbe itemsets``."""

from __future__ import annotations

from pydantic import Field, model_validator

from mbe_stage.options import NO_LIMIT
from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting


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
    lattice: bool = Field(False, description="Publish the cover relation of the itemsets, too.")

    @model_validator(mode="after")
    def _has_covers(self) -> ItemsetsSection:
        if self.lattice and self.maximal:
            names = setting("itemsets.lattice"), setting("itemsets.maximal")
            raise ValueError(f"{names[0]} and {names[1]}: no maximal set is above another; leave one of the two out")
        return self
