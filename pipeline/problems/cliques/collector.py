"""The sink of a run of cliques, on every backend, and the tables of sums after the search."""

from __future__ import annotations

from typing import Literal

from mbe_stage.cliques.ordering import degeneracy_order
from mbe_stage.cliques.results import Detail
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.cliques.query import keys_of
from mbe_stage.pipeline.problems.cliques.schemas import SIZE_HISTOGRAM
from mbe_stage.pipeline.problems.sink_collector import SinkCollector
from mbe_stage.pipeline.publish.run_files import as_publish_errors


class CliqueCollector(SinkCollector):
    """See `pipeline.problems.base.Collector`: writes `cliques/` and the tables of sums."""

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, collecting: Collecting) -> None:
        super().__init__(collecting, __package__)

    def finish(self) -> Collected:
        """Write the table of vertices and the size histogram; called once, after leaving the context.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        collecting, summary, frames = self._collecting, self._sink.summary, self._frames
        run_path, graph = collecting.run_path, collecting.graph.on_host()
        keys = keys_of(collecting.config.problem_section, collecting.edges)
        # Core numbers are computed on the host on every backend.
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
