"""The section `cliques`; its fields are also the options of ``mbe cliques``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from mbe_stage.options import NO_LIMIT
from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting


class CliquesSection(Section):
    """Select maximal cliques, and their graph: the input itself, or a projection of it."""

    min_size: int = Field(1, ge=1, description="Fewest members.", json_schema_extra={"metavar": "K"})
    max_size: int | None = Field(None, ge=1, description="Most members.", json_schema_extra={"metavar": "K"})
    containing: tuple[int | str, ...] = Field(
        (), description="Must hold this key.", json_schema_extra={"metavar": "KEY"}
    )
    project: Literal["left", "right"] | None = Field(
        None, description="Of a bipartite input: its vertices of this side, joined where they share neighbours."
    )
    min_shared: int = Field(
        1,
        ge=1,
        description="Neighbours that joined vertices share, with --project.",
        json_schema_extra={"metavar": "K"},
    )

    @field_validator("containing", mode="before")
    @classmethod
    def _one_key_is_a_list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | str) else value

    @field_validator("min_size", "max_size", "min_shared")
    @classmethod
    def _a_number_that_a_size_can_be(cls, size: int | None) -> int | None:
        if size is not None and size >= NO_LIMIT:
            raise ValueError("expected less than 2**62")
        return size

    @model_validator(mode="after")
    def _some_clique_can_match(self) -> CliquesSection:
        if self.max_size is not None and self.max_size < self.min_size:
            raise ValueError(
                f"{setting('cliques.max_size')} is {self.max_size}, below {setting('cliques.min_size')} = "
                f"{self.min_size}: no clique can match"
            )
        n_wanted = len({str(key) for key in self.containing})
        if self.max_size is not None and self.max_size < n_wanted:
            raise ValueError(
                f"{setting('cliques.max_size')} is {self.max_size}, and {setting('cliques.containing')} names "
                f"{n_wanted} vertices: no clique can match"
            )
        return self

    @model_validator(mode="after")
    def _shared_by_what_is_projected(self) -> CliquesSection:
        if self.project is None and self.min_shared != 1:
            raise ValueError(
                f"{setting('cliques.min_shared')} is about a projection: set {setting('cliques.project')} to left or "
                "right, or leave it out"
            )
        return self
