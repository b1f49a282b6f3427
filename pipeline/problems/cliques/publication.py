"""Maximal cliques, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.problems.base import Differences, Publication, deferred
from mbe_stage.pipeline.problems.cliques.section import CliquesSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.cliques.query import CliqueQuery
    from mbe_stage.cliques.results import Detail
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.publish.manifest import Manifest
    from mbe_stage.runtime.compile_ahead import CompileStep


class Counts(BaseModel):
    """Counts of a run.

    Attributes
    ----------
    members : int
        Sum of the sizes of all cliques.
    sizes : int
        Number of distinct sizes.
    max_size : int
        Size of the largest clique. It is the clique number if the run is complete, without `max_size` and `containing`.
    vertices, edges : int
        Size of the searched graph: the input, or its projection.
    degeneracy : int
        Largest core number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    cliques: int
    members: int
    sizes: int
    max_size: int
    vertices: int
    edges: int
    degeneracy: int


class CliquesPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "cliques"
    about = "Enumerate the maximal cliques of an undirected graph."
    section_name = "cliques"
    section = CliquesSection
    unit = ("maximal clique", "maximal cliques")
    counted = "cliques"
    counts = Counts
    frames = ("arrow", "cudf")
    instead = "min_size, max_size and containing are asked of cliques"
    next_command = "mbe top {}"
    is_resumable = True

    query = deferred(f"{__package__}.query:to_query")
    collector = deferred(f"{__package__}.collector:CliqueCollector")
    count_sink = deferred("mbe_stage.cliques.results:CliqueCountSink")
    graph = deferred(f"{__package__}.query:graph_of")
    check = deferred("mbe_stage.pipeline.verify.cliques:check")
    check_steps = deferred("mbe_stage.pipeline.verify.cliques:compile_steps")
    page = deferred("mbe_stage.pipeline.report.cliques:page")
    markdown = deferred(f"{__package__}.rows:essence")
    largest = deferred(f"{__package__}.rows:largest")
    top = deferred(f"{__package__}.rows:top")

    def undirected(self, config: Config) -> bool:
        return config.problem_section.project is None

    def made_of_input(self, config: Config) -> str | None:
        return None if config.problem_section.project is None else f"{config.problem_section.project} projection"

    def query_shape(self, config: Config) -> CliqueQuery:
        """Return a query with or without members; compiling does not depend on which members they are."""
        from mbe_stage.cliques.query import CliqueQuery

        section = config.problem_section
        return CliqueQuery(section.min_size, section.max_size, containing=(0,) if section.containing else ())

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.cliques.query import side_of
        from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES, SIZE_HISTOGRAM, vertices

        return {
            "cliques": CLIQUES,
            "vertices.parquet": vertices(key_types[side_of(config.problem_section) == "right"]),
            "size_histogram.parquet": SIZE_HISTOGRAM,
        }

    def detail(self, config: Config | None) -> Detail:
        from mbe_stage.cliques.results import Detail

        return Detail.MEMBERS

    def compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.bicliques import keys, vertex_statistics
        from mbe_stage.cliques import ordering

        return (*keys.compile_steps(), *vertex_statistics.compile_steps(with_members=False), *ordering.compile_steps())

    def device_compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.bicliques.cuda import keys, vertex_statistics
        from mbe_stage.cliques import ordering
        from mbe_stage.device.jit import compile_steps_of

        kernels = (
            keys.hash_sum_warp_per_list,
            vertex_statistics.count_warp_per_list,
            vertex_statistics.smallest_key_warp_per_list,
        )
        return (*compile_steps_of(*kernels), *ordering.compile_steps())

    def graph_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.shared_neighbours import projection

        return projection.compile_steps() if config is None or config.problem_section.project is not None else ()

    def beside_number(self, manifest: Manifest) -> str:
        return f", largest {manifest.counts.max_size:,} vertices"

    def diff(self, old: Path, new: Path, limit: int, out: Path | None) -> Differences:
        """Compare two runs; refuse an existing output directory first."""
        from mbe_stage.pipeline.problems.cliques.differences import differences
        from mbe_stage.pipeline.publish.new_directory import check_free

        if out is not None:
            check_free(out)
        return differences(old, new, limit, out)


PUBLICATION = CliquesPublication()
