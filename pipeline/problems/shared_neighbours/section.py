"""The section `shared_neighbours`; its fields are also the options of ``mbe project``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mbe_stage.options import NO_LIMIT
from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting


class SharedNeighboursSection(Section):
    """Select pairs of vertices of one side."""

    side: Literal["left", "right"] = Field("left", description="The side whose vertices form pairs.")
    min_shared: int = Field(
        1, ge=1, lt=NO_LIMIT, description="Fewest neighbours that both have.", json_schema_extra={"metavar": "K"}
    )
    top: int | None = Field(
        None, ge=1, lt=NO_LIMIT, description="Only the K best pairs, by --by.", json_schema_extra={"metavar": "K"}
    )
    by: Literal["p_value", "jaccard", "cosine", "shared"] | None = Field(
        None, description="What ranks with --top; by default p_value, smallest first."
    )

    @model_validator(mode="after")
    def _ranks_the_best(self) -> SharedNeighboursSection:
        if self.by is not None and self.top is None:
            raise ValueError(
                f"{setting('shared_neighbours.by')} ranks the best pairs: set {setting('shared_neighbours.top')} to "
                "their number, or leave it out"
            )
        return self
