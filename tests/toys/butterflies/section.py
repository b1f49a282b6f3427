"""The configuration section; its fields are also options of the command."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting

__all__ = ["ButterfliesSection"]


class ButterfliesSection(Section):
    """Selection of edges."""

    min_butterflies: int = Field(0, ge=0, lt=1 << 62, description="Fewest butterflies of an edge.")
    max_butterflies: int | None = Field(None, ge=0, description="Most butterflies of an edge.")
    min_share: float = Field(0.0, ge=0, le=1, description="Least share of the butterflies that it could be in.")
    order: Literal["edges", "butterflies"] = Field("edges", description="Order of the rows.")
    degrees: bool = Field(False, description="Write the degrees of both ends too.")

    @model_validator(mode="after")
    def _most_above_fewest(self) -> ButterfliesSection:
        if self.max_butterflies is not None and self.max_butterflies < self.min_butterflies:
            most, fewest = setting("butterflies.max_butterflies"), setting("butterflies.min_butterflies")
            raise ValueError(f"{most} is {self.max_butterflies}, below {fewest}: no edge can match")
        return self
