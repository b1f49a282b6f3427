"""Shared neighbours, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.problems.base import Publication, TableMemory, deferred
from mbe_stage.pipeline.problems.shared_neighbours.section import SharedNeighboursSection
from mbe_stage.shared_neighbours.problem import SharedQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.graphs.bipartite import BipartiteCSR
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.problems.query import KeyedEdges
    from mbe_stage.pipeline.publish.manifest import Manifest


class SharedNeighboursPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "shared_neighbours"
    about = "List the pairs of vertices of one side that share neighbours, with their similarity."
    section_name = "shared_neighbours"
    section = SharedNeighboursSection
    unit = ("pair", "pairs")
    counted = "pairs"
    instead = "min_shared and top select pairs"
    next_command = "mbe top {}"

    collector = deferred(f"{__package__}.collector:PairCollector")
    count_sink = deferred("mbe_stage.bicliques.results:CountSink")
    compile_steps = deferred("mbe_stage.shared_neighbours.results:compile_steps")
    page = deferred(f"{__package__}.rows:page")
    check = deferred("mbe_stage.pipeline.verify.shared_neighbours:check")
    largest = deferred(f"{__package__}.rows:largest")
    top = deferred(f"{__package__}.rows:top")

    def query(self, section: SharedNeighboursSection, edges: KeyedEdges) -> SharedQuery:
        return SharedQuery(section.min_shared)

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.shared_neighbours.rows import pairs_schema

        return {"pairs": pairs_schema(key_types[config.problem_section.side == "right"])}

    def graph(self, config: Config, edges: Any) -> BipartiteCSR:
        graph: BipartiteCSR = edges.graph()
        return graph if config.problem_section.side == "left" else graph.swapped()

    def table_memory(self, config: Config, query: SharedQuery, graph: BipartiteCSR) -> TableMemory:
        from mbe_stage.shared_neighbours.results import bytes_of_best

        return TableMemory(0 if config.problem_section.top is None else bytes_of_best(config.problem_section.top))

    def beside_number(self, manifest: Manifest) -> str:
        counts = manifest.counts
        listed = "" if counts["listed"] == counts["pairs"] else f", the best {counts['listed']:,} listed"
        return f"{listed}, at most {counts['max_shared']:,} shared neighbours"


PUBLICATION = SharedNeighboursPublication()
