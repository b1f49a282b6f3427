"""What may be asked of groups: the section `groups`, and the options ``--groups-...`` of `pipeline.cli_options`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.section import Section

__all__ = ["GroupsSection"]


class GroupsSection(Section):
    """Which groups are published; where the section is there, they are made."""

    limit: int = Field(100, ge=1, le=1_000_000, description="Most groups.")
    rank_by: Literal["surprise", "surprise_per_vertex"] = Field(
        "surprise", description="What ranks them; per vertex suits communities."
    )
    max_overlap: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Left out from this Jaccard with a better one on, by left members.",
    )
