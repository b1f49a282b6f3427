"""Counts of (p, q)-bicliques, as the pipeline sees them; see `pipeline.problems.base.Publication`.

What is heavy is imported when it is asked for: the command line reads this for its help.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.problems.base import Collecting, Collector, Numbers, Page, Publication, Room, Told
from mbe_stage.pipeline.problems.pq_counts.counts import Counts
from mbe_stage.pipeline.problems.pq_counts.section import PqCountsSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.execution.forecast import Prospect, Trying
    from mbe_stage.pipeline.problems.query import KeyedEdges
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.pq_counts.query import PqQuery
    from mbe_stage.pq_counts.results import Detail, PqSink

__all__ = ["PUBLICATION"]


def _query(asked: PqCountsSection, edges: KeyedEdges) -> PqQuery:
    from mbe_stage.pipeline.problems.pq_counts.query import to_query

    return to_query(asked, edges)


def _query_shape(config: Config) -> PqQuery:
    """Whom the query wants as members makes no difference to compiling, only whether there are any."""
    from mbe_stage.pq_counts.query import PqQuery

    asked = config.asked
    return PqQuery(
        *(1 if asked.table else asked.p, asked.p, 1 if asked.table else asked.q, asked.q),
        containing_left=(0,) if asked.containing_left else (),
        containing_right=(0,) if asked.containing_right else (),
    )


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
    from mbe_stage.pipeline.problems.both_sides import key_type
    from mbe_stage.pipeline.problems.pq_counts.schemas import PQ_COUNTS, pq_edges, pq_vertices

    local = config.asked.local
    return {
        "pq_counts.parquet": PQ_COUNTS,
        **({"pq_vertices.parquet": pq_vertices(key_type(key_types))} if local != "none" else {}),
        **({"pq_edges.parquet": pq_edges(*key_types)} if local == "edges" else {}),
    }


def _collector(collecting: Collecting) -> Collector:
    from mbe_stage.pipeline.problems.pq_counts.collector import PqCollector

    return PqCollector(collecting)


def _detail(config: Config | None) -> Detail:
    from mbe_stage.pipeline.problems.pq_counts.query import detail_of
    from mbe_stage.pq_counts.results import Detail

    return Detail.EDGES if config is None else detail_of(config.asked)


def _sink(query: PqQuery) -> PqSink:
    from mbe_stage.pq_counts.results import PqSink

    return PqSink(query)


def _count_sink() -> PqSink:
    from mbe_stage.pq_counts.query import PqQuery

    return _sink(PqQuery.of(1, 1))


def _told(sink: PqSink, config: Config, graph: BipartiteCSR, truncated: str | None) -> Told:
    from mbe_stage.pipeline.problems.pq_counts import result_text

    return result_text.told(sink, config, graph, truncated)


def _told_of_run(run_path: Path, manifest: Manifest) -> Told:
    from mbe_stage.pipeline.problems.pq_counts import result_text

    return result_text.told_of_run(run_path, manifest)


def _listed(manifest: Manifest) -> str:
    from mbe_stage.pipeline.problems.pq_counts import result_text

    return result_text.listed(manifest)


def _page(run_path: Path, manifest: Manifest, top: int) -> Page:
    from mbe_stage.pipeline.report.pq_counts import page

    return page(run_path, manifest, top)


def _check(job: Any) -> None:
    from mbe_stage.pipeline.verify.pq_counts import check

    check(job)


def _markdown(run_path: Path, manifest: Manifest) -> list[str]:
    from mbe_stage.pipeline.problems.pq_counts.shown import essence

    return essence(run_path, manifest)


def _largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    from mbe_stage.pipeline.problems.pq_counts.shown import largest

    return largest(run_path, limit)


def _outlook(trying: Trying) -> Prospect:
    from mbe_stage.pipeline.problems.pq_counts.trial import outlook

    return outlook(trying)


def _room(config: Config, query: PqQuery, graph: BipartiteCSR) -> Room:
    from mbe_stage.pipeline.problems.pq_counts.memory import room

    return room(config, query, graph)


PUBLICATION = Publication(
    problem="pq_counts",
    about="Count (p, q)-bicliques.",
    section_name="pq_counts",
    section=PqCountsSection,
    query=_query,
    schemas=_schemas,
    collector=_collector,
    detail=_detail,
    count_sink=_count_sink,
    page=_page,
    check=_check,
    unit=("count", "counts"),
    counted="counts",
    counts=Counts,
    query_shape=_query_shape,
    frames=("arrow", "cudf"),
    markdown=_markdown,
    largest=_largest,
    numbers=Numbers(_sink, _told, _told_of_run, _listed),
    counts_first=True,
    of_tables_only=("local",),
    instead="results are numbers and no list, and p and q are the only sizes",
    outlook=_outlook,
    room=_room,
    is_resumable=True,
)
