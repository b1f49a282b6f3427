"""Maximal cliques, as the pipeline sees them; see `pipeline.publication.Publication`.

What is heavy is imported when it is asked for: the command line reads this for its help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outputs.cliques.counts import Counts
from pipeline.outputs.cliques.section import CliquesSection
from pipeline.publication import Collecting, Collector, Differences, Page, Publication, Shown

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.cliques.query import CliqueQuery
    from mbe_stage.cliques.results import CliqueCountSink, Detail
    from mbe_stage.compile_ahead import CompileStep
    from mbe_stage.graphs.undirected import UndirectedCSR
    from pipeline.config import Config
    from pipeline.manifest import Manifest
    from pipeline.query import KeyedEdges

__all__ = ["PUBLICATION"]


def _undirected(config: Config) -> bool:
    return config.asked.project is None


def _made_of_input(config: Config) -> str | None:
    return None if config.asked.project is None else f"{config.asked.project} projection"


def _graph(config: Config, edges: Any) -> UndirectedCSR:
    from pipeline.outputs.cliques.query import graph_of

    return graph_of(config, edges)


def _query(asked: CliquesSection, edges: KeyedEdges) -> CliqueQuery:
    from pipeline.outputs.cliques.query import to_query

    return to_query(asked, edges)


def _query_shape(config: Config) -> CliqueQuery:
    """Whom the query wants as members makes no difference to compiling, only whether there are any."""
    from mbe_stage.cliques.query import CliqueQuery

    asked = config.asked
    return CliqueQuery(asked.min_size, asked.max_size, containing=(0,) if asked.containing else ())


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
    from pipeline.outputs.cliques.query import side_of
    from pipeline.outputs.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices

    return {
        "cliques": CLIQUES,
        "vertices.parquet": vertices(key_types[side_of(config.asked) == "right"]),
        "size_histogram.parquet": SIZE_HISTOGRAM,
    }


def _collector(collecting: Collecting) -> Collector:
    from pipeline.outputs.cliques.collector import CliqueCollector

    return CliqueCollector(collecting)


def _detail(config: Config | None) -> Detail:  # noqa: ARG001 - the seam's signature
    from mbe_stage.cliques.results import Detail

    return Detail.MEMBERS


def _count_sink() -> CliqueCountSink:
    from mbe_stage.cliques.results import CliqueCountSink

    return CliqueCountSink()


def _compile_steps(config: Config | None) -> Sequence[CompileStep]:  # noqa: ARG001 - the seam's signature
    from mbe_stage.bicliques import keys, vertex_statistics
    from mbe_stage.cliques import ordering

    return (*keys.compile_steps(), *vertex_statistics.compile_steps(with_members=False), *ordering.compile_steps())


def _device_compile_steps(config: Config | None) -> Sequence[CompileStep]:  # noqa: ARG001 - the seam's signature
    from pipeline.outputs.cliques.cudf.compiling import compile_steps

    return compile_steps()


def _graph_steps(config: Config | None) -> Sequence[CompileStep]:
    from mbe_stage.graphs import projection

    return projection.compile_steps() if config is None or config.asked.project is not None else ()


def _page(run_path: Path, manifest: Manifest, top: int) -> Page:
    from pipeline.report.cliques import page
    from pipeline.stores.part_objects import fetch_missing

    # Which are the largest only the table says.
    fetch_missing(run_path)
    return page(run_path, manifest, top)


def _check(job: Any) -> None:
    from pipeline.verify.cliques import check

    check(job)


def _check_steps() -> Sequence[CompileStep]:
    from pipeline.verify.cliques import compile_steps

    return compile_steps()


def _beside_number(manifest: Manifest) -> str:
    return f", largest {manifest.counts.max_size:,} vertices"


def _markdown(run_path: Path, manifest: Manifest) -> list[str]:
    from pipeline.outputs.cliques.shown import essence

    return essence(run_path, manifest)


def _largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    from pipeline.outputs.cliques.shown import largest

    return largest(run_path, limit)


def _top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    from pipeline.outputs.cliques.shown import top

    return top(run_path, limit, vertex)


def _diff(old: Path, new: Path, limit: int, out: Path | None) -> Differences:
    from pipeline.diff.write import check_free
    from pipeline.outputs.cliques.differences import differences

    if out is not None:
        check_free(out)
    return differences(old, new, limit, out)


PUBLICATION = Publication(
    problem="cliques",
    about="Enumerate the maximal cliques of an undirected graph.",
    section_name="cliques",
    section=CliquesSection,
    query=_query,
    schemas=_schemas,
    collector=_collector,
    detail=_detail,
    count_sink=_count_sink,
    page=_page,
    check=_check,
    unit=("maximal clique", "maximal cliques"),
    counted="cliques",
    counts=Counts,
    query_shape=_query_shape,
    compile_steps=_compile_steps,
    device_compile_steps=_device_compile_steps,
    check_steps=_check_steps,
    frames=("arrow", "cudf"),
    markdown=_markdown,
    beside_number=_beside_number,
    largest=_largest,
    instead="min_size, max_size and containing are asked of cliques",
    next_command="mbe top {}",
    undirected=_undirected,
    top=_top,
    diff=_diff,
    graph=_graph,
    graph_steps=_graph_steps,
    made_of_input=_made_of_input,
    is_resumable=True,
)
