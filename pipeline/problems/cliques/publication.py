"""Maximal cliques, as the pipeline sees them; see `pipeline.problems.base.Publication`.

What is heavy is imported when it is asked for: the command line reads this for its help.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from mbe_stage.cliques.ordering import degeneracy_order
from mbe_stage.cliques.results import Detail
from mbe_stage.pipeline.problems.base import Collected, Collecting, Collector, Differences, Page, Publication, Shown
from mbe_stage.pipeline.problems.cliques.query import keys_of
from mbe_stage.pipeline.problems.cliques.schemas import SIZE_HISTOGRAM
from mbe_stage.pipeline.problems.cliques.section import CliquesSection
from mbe_stage.pipeline.problems.sink_collector import SinkCollector
from mbe_stage.pipeline.publish.run_files import as_publish_errors

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.cliques.query import CliqueQuery
    from mbe_stage.cliques.results import CliqueCountSink, Detail
    from mbe_stage.graphs.undirected import UndirectedCSR
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.problems.query import KeyedEdges
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["PUBLICATION", "CliqueCollector", "Counts"]


class Counts(BaseModel):
    """How many of what.

    Attributes
    ----------
    members : int
        Summed over all cliques.
    sizes : int
        Distinct sizes.
    max_size : int
        Of the largest clique: the clique number, where the run is complete and asks for no largest size and no members.
    vertices, edges : int
        Of the graph that was searched: the input, or its projection.
    degeneracy : int
        Largest core number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cliques: int
    members: int
    sizes: int
    max_size: int
    vertices: int
    edges: int
    degeneracy: int


class CliqueCollector(SinkCollector):
    """See `pipeline.problems.base.Collector`: writes `cliques/` and the tables of sums."""

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, collecting: Collecting) -> None:
        super().__init__(collecting, __package__)

    def finish(self) -> Collected:
        """Write the table of vertices and the size histogram; once, after the context was left.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        collecting, summary, frames = self._collecting, self._sink.summary, self._of_backend("tables")
        run_path, graph = collecting.run_path, collecting.graph.on_host()
        keys = keys_of(collecting.config.asked, collecting.edges)
        # Vertices are peeled off one by one: work of the host, whatever the backend.
        _, cores = degeneracy_order(graph)
        sizes, counts = summary.sizes.sorted_rows()
        statistics = summary.vertex_statistics()
        tables = {
            run_path / "vertices.parquet": (
                frames.vertex_table(keys, graph.degrees, cores, statistics),
                frames.vertex_schema(keys),
            ),
            run_path / "size_histogram.parquet": (frames.histogram_table(sizes, counts), SIZE_HISTOGRAM),
        }
        with as_publish_errors(run_path):
            self._backend.write_tables(tables, self._sink.write_file)
        return Collected(
            counts={
                "cliques": summary.fingerprint.n_items,
                "members": summary.members,
                "sizes": len(sizes),
                "max_size": int(sizes.max(initial=0)),
                "vertices": graph.n,
                "edges": graph.n_edges,
                "degeneracy": int(cores.max(initial=0)),
            },
            content_fingerprint=str(summary.fingerprint),
        )


def _undirected(config: Config) -> bool:
    return config.asked.project is None


def _made_of_input(config: Config) -> str | None:
    return None if config.asked.project is None else f"{config.asked.project} projection"


def _graph(config: Config, edges: Any) -> UndirectedCSR:
    from mbe_stage.pipeline.problems.cliques.query import graph_of

    return graph_of(config, edges)


def _query(asked: CliquesSection, edges: KeyedEdges) -> CliqueQuery:
    from mbe_stage.pipeline.problems.cliques.query import to_query

    return to_query(asked, edges)


def _query_shape(config: Config) -> CliqueQuery:
    """Whom the query wants as members makes no difference to compiling, only whether there are any."""
    from mbe_stage.cliques.query import CliqueQuery

    asked = config.asked
    return CliqueQuery(asked.min_size, asked.max_size, containing=(0,) if asked.containing else ())


def _schemas(config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
    from mbe_stage.pipeline.problems.cliques.query import side_of
    from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices

    return {
        "cliques": CLIQUES,
        "vertices.parquet": vertices(key_types[side_of(config.asked) == "right"]),
        "size_histogram.parquet": SIZE_HISTOGRAM,
    }


def _collector(collecting: Collecting) -> Collector:

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
    from mbe_stage.pipeline.problems.cliques.cudf.compiling import compile_steps

    return compile_steps()


def _graph_steps(config: Config | None) -> Sequence[CompileStep]:
    from mbe_stage.graphs import projection

    return projection.compile_steps() if config is None or config.asked.project is not None else ()


def _page(run_path: Path, manifest: Manifest, top: int) -> Page:
    from mbe_stage.pipeline.report.cliques import page
    from mbe_stage.pipeline.stores.part_objects import fetch_missing

    # Which are the largest only the table says.
    fetch_missing(run_path)
    return page(run_path, manifest, top)


def _check(job: Any) -> None:
    from mbe_stage.pipeline.verify.cliques import check

    check(job)


def _check_steps() -> Sequence[CompileStep]:
    from mbe_stage.pipeline.verify.cliques import compile_steps

    return compile_steps()


def _beside_number(manifest: Manifest) -> str:
    return f", largest {manifest.counts.max_size:,} vertices"


def _markdown(run_path: Path, manifest: Manifest) -> list[str]:
    from mbe_stage.pipeline.problems.cliques.shown import essence

    return essence(run_path, manifest)


def _largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    from mbe_stage.pipeline.problems.cliques.shown import largest

    return largest(run_path, limit)


def _top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    from mbe_stage.pipeline.problems.cliques.shown import top

    return top(run_path, limit, vertex)


def _diff(old: Path, new: Path, limit: int, out: Path | None) -> Differences:
    from mbe_stage.pipeline.problems.cliques.differences import differences
    from mbe_stage.pipeline.views.diff.write import check_free

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
