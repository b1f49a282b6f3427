"""Maximal bicliques, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from mbe_stage.pipeline.config.model import Config, QueryConfig
from mbe_stage.pipeline.problems.base import Publication, deferred

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.bicliques.enumerate import Progress
    from mbe_stage.bicliques.query import BicliqueQuery
    from mbe_stage.bicliques.results import Detail
    from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
    from mbe_stage.pipeline.publish.staging import Store
    from mbe_stage.runtime.compile_ahead import CompileStep
    from mbe_stage.stream import Progress as StreamProgress


class Counts(BaseModel):
    """Counts of a run; each `max_*` is the largest value of any biclique.

    Attributes
    ----------
    left_members, right_members : int
        Sums over all bicliques.
    sizes : int
        Distinct sizes ``(n_left, n_right)``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    bicliques: int
    left_members: int
    right_members: int
    sizes: int
    max_left: int
    max_right: int
    max_edges: int


class BicliquesPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "bicliques"
    about = "Enumerate the maximal bicliques of one input, all in options."
    section_name = "query"
    section = QueryConfig
    unit = ("maximal biclique", "maximal bicliques")
    counted = "bicliques"
    counts = Counts
    frames = ("arrow", "cudf")
    next_command = "mbe top {}"
    is_resumable = True

    query = deferred("mbe_stage.pipeline.problems.query:to_query")
    collector = deferred(f"{__package__}.collector:BicliqueCollector")
    count_sink = deferred("mbe_stage.bicliques.results:CountSink")
    page = deferred("mbe_stage.pipeline.report.bicliques:page")
    check = deferred("mbe_stage.pipeline.verify.bicliques:check")
    check_steps = deferred("mbe_stage.pipeline.verify.bicliques:compile_steps")
    markdown = deferred("mbe_stage.pipeline.report.markdown:essence")
    forecast = deferred(f"{__package__}.trial:forecast")
    forecast_steps = deferred("mbe_stage.bicliques.estimation:compile_steps")

    def query_shape(self, config: Config) -> BicliqueQuery:
        """Return a query with or without members; compiling does not depend on which members they are."""
        from mbe_stage.bicliques.query import BicliqueQuery

        query = config.query
        return BicliqueQuery(
            *(query.min_left, query.min_right, query.max_left, query.max_right, query.min_edges),
            containing_left=(0,) if query.containing_left else (),
            containing_right=(0,) if query.containing_right else (),
        )

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.publish.schemas import BICLIQUES, GRAPH, MEMBERS, SIZE_HISTOGRAM, vertices

        bicliques = BICLIQUES if config.input.by is None else BICLIQUES.append(GRAPH)
        schemas = {
            **({"bicliques": bicliques} if config.output.bicliques else {}),
            "size_histogram.parquet": SIZE_HISTOGRAM,
            "left_vertices.parquet": vertices(key_types[0]),
            "right_vertices.parquet": vertices(key_types[1]),
        }
        return schemas | ({"members": MEMBERS} if config.output.members else {})

    def compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.bicliques import keys, vertex_statistics
        from mbe_stage.graphs import two_hop
        from mbe_stage.pipeline.problems.bicliques import largest

        with_members = config is None or config.output.members
        with_two_hop = config is None or config.output.two_hop_steps != 0
        return (
            *keys.compile_steps(),
            *vertex_statistics.compile_steps(with_members),
            *(largest.compile_steps() if config is None or largest.n_shown(config.output) else ()),
            *(two_hop.compile_steps() if with_two_hop else ()),
        )

    def device_compile_steps(self, config: Config | None) -> Sequence[CompileStep]:
        from mbe_stage.bicliques.cuda import keys, vertex_statistics
        from mbe_stage.device import copying, two_hop
        from mbe_stage.device.jit import compile_steps_of
        from mbe_stage.pipeline.problems.bicliques import largest

        kernels = [
            keys.hash_sum_warp_per_list,
            vertex_statistics.count_warp_per_list,
            vertex_statistics.smallest_key_warp_per_list,
        ]
        if config is None or config.output.members:
            kernels.append(vertex_statistics.long_form_warp_per_biclique)
        if shows_some := config is None or largest.n_shown(config.output) > 0:
            kernels.append(copying.take_warp_per_list)
        if config is None or config.output.two_hop_steps != 0:
            kernels += [two_hop.hub_warp_per_vertex, two_hop.walk_warp_per_neighbour, two_hop.ask_warp_per_pair]
        return (*compile_steps_of(*kernels), *(largest.compile_steps() if shows_some else ()))

    def detail(self, config: Config | None) -> Detail:
        from mbe_stage.bicliques.results import Detail

        return Detail.MEMBERS

    def beside_number(self, manifest: Manifest) -> str:
        return f", largest {manifest.counts.max_edges:,} edges"

    def largest(self, run_path: Path, limit: int) -> list[dict[str, Any]] | None:
        from mbe_stage.pipeline.publish.reading import has_bicliques
        from mbe_stage.pipeline.report.markdown import groups_table

        return groups_table(run_path, limit) if has_bicliques(run_path) else None

    def least_sizes(self, config: Config) -> tuple[int, int] | None:
        return config.query.min_left, config.query.min_right

    def progress(self, progress: StreamProgress) -> Progress:
        from mbe_stage.bicliques.enumerate import Progress

        return Progress.of(progress)

    def compare(self, store: Store, run_path: Path, manifest: Manifest) -> tuple[Comparison, Mapping[str, float]]:
        """Compare with the run before, and compile first if there is one."""
        from mbe_stage.pipeline.views.comparison import compare_with_last
        from mbe_stage.pipeline.views.diff import compile_steps
        from mbe_stage.runtime.compile_ahead import compile_ahead

        prepared: dict[str, float] = {}

        def compile_first() -> None:
            prepared.update(compile_ahead(compile_steps()))

        return compare_with_last(store, run_path, manifest, compile_first), prepared


PUBLICATION = BicliquesPublication()
