"""Counts of (p, q)-bicliques, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.problems.base import Numbers, Publication, deferred
from mbe_stage.pipeline.problems.pq_counts.section import PqCountsSection
from mbe_stage.pq_counts.query import PqQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pq_counts.results import Detail, PqSink


class Counts(BaseModel):
    """Counts of a run.

    Attributes
    ----------
    counts : int
        Rows of `pq_counts`.
    above_zero : int
        Number of these that are above zero.
    largest : str
        The largest count, with all its digits.
    largest_p, largest_q : int
        Sizes with this count; ties go to the smallest p, then to the smallest q.
    most_left_degree, most_right_degree : int
        The largest degrees; counts with a larger q or p are 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    counts: int
    above_zero: int
    largest: str
    largest_p: int
    largest_q: int
    most_left_degree: int
    most_right_degree: int


class PqCountsPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "pq_counts"
    about = "Count (p, q)-bicliques."
    section_name = "pq_counts"
    section = PqCountsSection
    unit = ("count", "counts")
    counted = "counts"
    counts = Counts
    frames = ("arrow", "cudf")
    counts_first = True
    of_tables_only = ("local",)
    instead = "results are numbers and no list, and p and q are the only sizes"
    is_resumable = True
    numbers = Numbers(
        sink=deferred("mbe_stage.pq_counts.results:PqSink"),
        result_text=deferred(f"{__package__}.result_text:result_text"),
        text_of_run=deferred(f"{__package__}.result_text:text_of_run"),
        listed=deferred(f"{__package__}.result_text:listed"),
    )

    query = deferred(f"{__package__}.query:to_query")
    collector = deferred(f"{__package__}.collector:PqCollector")
    page = deferred("mbe_stage.pipeline.report.pq_counts:page")
    check = deferred("mbe_stage.pipeline.verify.pq_counts:check")
    markdown = deferred(f"{__package__}.result_text:essence")
    largest = deferred(f"{__package__}.result_text:largest")
    forecast = deferred(f"{__package__}.trial:forecast")
    table_memory = deferred(f"{__package__}.memory:table_memory")

    def query_shape(self, config: Config) -> PqQuery:
        """Return a query with or without members; compiling does not depend on which members they are."""
        section = config.problem_section
        return PqQuery(
            *(1 if section.table else section.p, section.p, 1 if section.table else section.q, section.q),
            containing_left=(0,) if section.containing_left else (),
            containing_right=(0,) if section.containing_right else (),
        )

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.both_sides import key_type
        from mbe_stage.pipeline.problems.pq_counts.schemas import PQ_COUNTS, pq_edges, pq_vertices

        local = config.problem_section.local
        return {
            "pq_counts.parquet": PQ_COUNTS,
            **({"pq_vertices.parquet": pq_vertices(key_type(key_types))} if local != "none" else {}),
            **({"pq_edges.parquet": pq_edges(*key_types)} if local == "edges" else {}),
        }

    def least_sizes(self, config: Config) -> tuple[int, int] | None:
        section = config.problem_section
        sizes = (1, 1) if section.table else (section.p, section.q)
        return None if section.local == "edges" else sizes

    def detail(self, config: Config | None) -> Detail:
        from mbe_stage.pipeline.problems.pq_counts.query import detail_of
        from mbe_stage.pq_counts.results import Detail

        return Detail.EDGES if config is None else detail_of(config.problem_section)

    def count_sink(self) -> PqSink:
        from mbe_stage.pq_counts.results import PqSink

        return PqSink(PqQuery.of(1, 1))


PUBLICATION = PqCountsPublication()
