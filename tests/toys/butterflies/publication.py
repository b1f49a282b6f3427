"""The problem for the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbe_stage.pipeline.problems.base import Publication, deferred
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.butterflies.section import ButterfliesSection

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.problems.query import KeyedEdges

__all__ = ["PUBLICATION"]


class ButterfliesPublication(Publication):
    problem = "butterflies"
    about = "Count the butterflies of each edge."
    section_name = "butterflies"
    section = ButterfliesSection
    unit = ("edge counted", "edges counted")
    counted = "counted"

    schemas = deferred(f"{__package__}.tables:schemas")
    collector = deferred(f"{__package__}.collector:EdgesCollector")
    count_sink = deferred(f"{__package__}.results:EdgeCount")
    page = deferred(f"{__package__}.page:page")
    largest = deferred(f"{__package__}.page:rows")
    check = deferred(f"{__package__}.check:check")

    def query(self, asked: ButterfliesSection, edges: KeyedEdges) -> EdgeQuery:  # noqa: ARG002 - it names no key
        return EdgeQuery(asked.min_butterflies, asked.max_butterflies, asked.min_share)

    def detail(self, config: Config | None) -> None:
        pass


PUBLICATION = ButterfliesPublication()
