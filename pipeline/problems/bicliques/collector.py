"""The sink of a run of bicliques, on every backend, and the tables of sums after the search."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

from mbe_stage.bicliques.results import Detail
from mbe_stage.pipeline.backends.backend import GraphFacts
from mbe_stage.pipeline.execution.checkpoint_sums import can_be_kept
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.sink_collector import SinkCollector
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.schemas import SIZE_HISTOGRAM


class BicliqueCollector(SinkCollector):
    """See `pipeline.problems.base.Collector`: writes `bicliques/` and `members/` as asked, and the tables of sums.

    Notes
    -----
    Entering the context starts to count two-hop degrees, leaving it waits for them. If they are counted in parallel
    with the engine, their time counts as the engine's.
    """

    detail: Literal[Detail.MEMBERS] = Detail.MEMBERS

    def __init__(self, collecting: Collecting) -> None:
        super().__init__(collecting, __package__)
        self._two_hop_seconds = 0.0
        self._facts: GraphFacts | None = None

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of ``two_hop`` and of the sink: ``write``, and on a device ``plan`` and ``name``."""
        return {"two_hop": self._two_hop_seconds} | super().seconds

    def _is_kept(self) -> bool:
        return self._collecting.config.output.bicliques or can_be_kept(self._collecting.derived)

    def _begin(self, context: ExitStack) -> None:
        config, start = self._collecting.config, time.perf_counter()
        most_steps = self._collecting.edges.facts.most_two_hop_steps(config.output.two_hop_steps)
        wait = context.enter_context(
            self._backend.graph_facts(self._collecting.graph, most_steps, config.execution.to_execution())
        )
        self._two_hop_seconds = time.perf_counter() - start
        context.push(self._waiting_for(wait))

    def _waiting_for(self, facts: Callable[[], GraphFacts]) -> Callable[..., None]:
        """Return an exit callback that waits for the two-hop degrees, unless there was an error.

        It runs after the last block and before the counting threads end.
        """

        def wait(kind: type[BaseException] | None, *_: object) -> None:
            if kind is None:
                start = time.perf_counter()
                self._facts = facts()
                self._two_hop_seconds += time.perf_counter() - start

        return wait

    def finish(self) -> Collected:
        """Write the vertex tables and the size histogram; called once, after leaving the context.

        Raises
        ------
        PublishError
            They cannot be written.
        """
        collecting, summary, facts = self._collecting, self._sink.summary, self._facts
        assert facts is not None
        frames = self._frames
        run_path, edges = collecting.run_path, collecting.edges
        left, right = summary.vertex_statistics()
        left_degrees, right_degrees = edges.degrees or (facts.left_degrees, facts.right_degrees)
        sizes = summary.sizes.sorted_rows()
        tables = {
            run_path / "left_vertices.parquet": (
                frames.vertex_table(edges.left_keys, left_degrees, facts.left_two_hop, left),
                frames.vertex_schema(edges.left_keys),
            ),
            run_path / "right_vertices.parquet": (
                frames.vertex_table(edges.right_keys, right_degrees, facts.right_two_hop, right),
                frames.vertex_schema(edges.right_keys),
            ),
            run_path / "size_histogram.parquet": (frames.histogram_table(sizes), SIZE_HISTOGRAM),
        }
        with as_publish_errors(run_path):
            self._backend.write_tables(tables, self._sink.write_file)
        n_left, n_right, _ = sizes
        return Collected(
            counts={
                "bicliques": summary.fingerprint.n_items,
                "left_members": summary.left_members,
                "right_members": summary.right_members,
                "sizes": len(n_left),
                "max_left": int(n_left.max(initial=0)),
                "max_right": int(n_right.max(initial=0)),
                "max_edges": int(left.largest_edges.max(initial=0)),
            },
            content_fingerprint=str(summary.fingerprint),
            seen=summary.largest,
        )
