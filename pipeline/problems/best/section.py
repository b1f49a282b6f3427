"""The section `best`; its fields are also the options of ``mbe best``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mbe_stage.pipeline.config.section import Section

_MOST = 1 << 31


class BestSection(Section):
    """Select the best maximal bicliques by a score."""

    by: Literal["edges", "vertices", "balance", "weight", "surprise"] = Field(
        "edges", description="The score; balance is the size of the smaller side, weight the sum of the edges' weights."
    )
    k: int = Field(10, ge=1, lt=_MOST, description="How many to list.", json_schema_extra={"metavar": "K"})
    min_left: int = Field(2, ge=1, lt=_MOST, description="Fewest left vertices; with 1 the best is usually a star.")
    min_right: int = Field(2, ge=1, lt=_MOST, description="Fewest right vertices.")
    overlap: float = Field(
        1.0, ge=0, le=1, description="Leave out what has more than this share of its edges in a better one."
    )
    missing: int = Field(
        0, ge=0, le=5, description="Most missing edges; below both minimum sizes.", json_schema_extra={"metavar": "D"}
    )
