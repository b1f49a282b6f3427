"""What may be asked of groups: the section `groups`, and the options ``--groups-...`` of `pipeline.cli_options`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipeline.naming import setting
from pipeline.section import Section

__all__ = ["GroupsSection"]


class GroupsSection(Section):
    """Which groups are published; where the section is there, they are made."""

    limit: int = Field(100, ge=1, le=1_000_000, description="Most groups.")
    kind: Literal["short_list", "grown_cover"] = Field(
        "short_list", description="The best bicliques, or the larger groups that they grow to."
    )
    rank_by: Literal["surprise", "surprise_per_vertex", "surprise_per_edge", "evidence"] = Field(
        "surprise", description="What ranks them; per vertex or edge suits communities, evidence puts large ones first."
    )
    max_overlap: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Left out from this Jaccard with a better one on, by left members.",
    )
    labels: str | None = Field(
        None,
        description="A table of known cases: key, and possibly side and class.",
        json_schema_extra={"metavar": "FILE"},
    )
    negative: tuple[int | str, ...] = Field(
        ("0", "false", "no", "negative", "normal", "good", "benign"),
        description="A class of labels that are no known case, in small or capital letters.",
        json_schema_extra={"metavar": "CLASS"},
    )
    allow: str | None = Field(
        None,
        description="A table of keys that are known good: groups of them alone are muted.",
        json_schema_extra={"metavar": "FILE"},
    )

    @model_validator(mode="after")
    def _a_cover_ranks_by_itself(self) -> GroupsSection:
        for key in ("rank_by", "max_overlap"):
            if self.kind == "grown_cover" and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f"{setting(f'groups.{key}')} is for the short list, and {setting('groups.kind')} is grown_cover: "
                    "leave one of them out"
                )
        return self
