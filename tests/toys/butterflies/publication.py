"""The problem, as the pipeline sees it; what is heavy is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.problems.base import Collecting, Collector, Page, Publication
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.butterflies.section import ButterfliesSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.problems.query import KeyedEdges
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.pipeline.verify import Job
    from tests.toys.butterflies.results import EdgeCount

__all__ = ["PUBLICATION"]


def _query(asked: ButterfliesSection, edges: KeyedEdges) -> EdgeQuery:  # noqa: ARG001 - no key is asked for
    return EdgeQuery(asked.min_butterflies, asked.max_butterflies, asked.min_share)


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
    from tests.toys.butterflies.tables import schemas

    return schemas(config, key_types)


def _collector(collecting: Collecting) -> Collector:
    from tests.toys.butterflies.collector import EdgesCollector

    return EdgesCollector(collecting)


def _count_sink() -> EdgeCount:
    from tests.toys.butterflies.results import EdgeCount

    return EdgeCount()


def _page(run_path: Path, manifest: Manifest, top: int) -> Page:
    from tests.toys.butterflies.page import page

    return page(run_path, manifest, top)


def _largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    from tests.toys.butterflies.page import rows

    return rows(run_path, limit)


def _check(job: Job) -> None:
    from tests.toys.butterflies.check import check

    check(job)


PUBLICATION = Publication(
    problem="butterflies",
    about="Count the butterflies of each edge.",
    section_name="butterflies",
    section=ButterfliesSection,
    query=_query,
    schemas=_schemas,
    collector=_collector,
    detail=lambda _: None,
    count_sink=_count_sink,
    page=_page,
    check=_check,
    unit=("edge counted", "edges counted"),
    counted="counted",
    largest=_largest,
)
