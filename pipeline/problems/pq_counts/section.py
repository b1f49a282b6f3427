"""The section `pq_counts`; its fields are also the options of ``mbe count-pq``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from mbe_stage.pipeline.config.section import Section
from mbe_stage.pipeline.config.setting_names import setting, switch
from mbe_stage.pq_counts.query import LARGEST_SIZE

MOST_CELLS = 1 << 16
"""Maximum number of cells in a table: more are unreadable, and each costs a sum over all leaf signatures."""


class PqCountsSection(Section):
    """Select one count or a table of counts, and local counts of vertices and edges."""

    p: int = Field(
        2, ge=1, le=LARGEST_SIZE, description="Left vertices of a biclique.", json_schema_extra={"metavar": "P"}
    )
    q: int = Field(
        2, ge=1, le=LARGEST_SIZE, description="Right vertices of a biclique.", json_schema_extra={"metavar": "Q"}
    )
    table: bool = Field(False, description="Every count from (1, 1) to (P, Q).")
    local: Literal["none", "vertices", "edges"] = Field(
        "none", description="Also in how many each vertex is, or each vertex and edge; with --out."
    )
    containing_left: tuple[int | str, ...] = Field(
        (), description="Only bicliques with this left key.", json_schema_extra={"metavar": "KEY"}
    )
    containing_right: tuple[int | str, ...] = Field(
        (), description="Only bicliques with this right key.", json_schema_extra={"metavar": "KEY"}
    )

    @field_validator("containing_left", "containing_right", mode="before")
    @classmethod
    def _one_key_is_a_list_of_one(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | str) else value

    @model_validator(mode="after")
    def _is_a_readable_table(self) -> PqCountsSection:
        n_cells = self.p * self.q
        if self.table and n_cells > MOST_CELLS:
            raise ValueError(
                f"{switch('pq_counts.table')} asks for {n_cells:,} counts; expected at most {MOST_CELLS:,}; lower "
                f"{setting('pq_counts.p')} or {setting('pq_counts.q')}"
            )
        return self
