"""The query and the sink of a run of closed itemsets, and the table of items after the search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail, TableSink
from mbe_stage.itemsets.covers import covers, maximal_of
from mbe_stage.options import Execution
from mbe_stage.pipeline.itemsets.baskets import least_of
from mbe_stage.pipeline.itemsets.rules import association_rules
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.itemsets.schemas import LATTICE, RULES, items
from mbe_stage.pipeline.problems.itemsets.section import ItemsetsSection
from mbe_stage.pipeline.problems.query import KeyedEdges
from mbe_stage.pipeline.problems.sink_collector import SinkCollector
from mbe_stage.pipeline.publish.run_files import as_publish_errors


def to_query(section: ItemsetsSection, edges: KeyedEdges) -> BicliqueQuery:
    """Return the query for the engines."""
    return BicliqueQuery(min_left=fewest_baskets(section, edges.facts.n_left), max_right=section.max_len)


def fewest_baskets(section: ItemsetsSection, n_baskets: int) -> int:
    """Return the minimum support as a number of baskets."""
    return section.min_count or least_of(section.min_support, n_baskets)


class ItemsetCollector(SinkCollector):
    """See `pipeline.problems.base.Collector`: writes `itemsets/` and the table of items."""

    def __init__(self, collecting: Collecting) -> None:
        super().__init__(collecting, __package__)
        self._section = collecting.config.problem_section
        self._least = fewest_baskets(self._section, collecting.edges.facts.n_left)
        self.detail = Detail.MEMBERS if self._section.maximal else Detail.RIGHT

    @property
    def parts(self) -> Any:
        """As `SinkCollector.parts`; None if maximal sets are chosen here."""
        return None if self._section.maximal else super().parts

    def accept(self, block: Any) -> int:
        """Take one block, or the maximal sets of it; return their number."""
        kept = maximal_of(self._collecting.graph, block, self._least) if self._section.maximal else block
        super().accept(kept)
        return len(kept)

    def finish(self) -> Collected:
        """Write the table of items; once, after the context was left.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        collecting, summary = self._collecting, self._sink.summary
        execution = collecting.config.execution
        run_path, edges = collecting.run_path, collecting.edges
        keys = edges.right_keys
        columns = (
            pa.array(np.arange(len(keys), dtype=np.int32)),
            keys,
            pa.array(collecting.graph.right_degrees),
            pa.array(summary.n_itemsets),
        )
        schema, further = items(keys.type), dict[str, int]()
        with as_publish_errors(run_path):
            tables = {run_path / "items.parquet": (pa.table(columns, schema=schema), schema)}
            if self._section.min_confidence is not None:
                asked = collecting.graph, self._least, self._section.min_confidence
                rules = association_rules(*asked, engine=execution.engine, threads=execution.threads)
                tables[run_path / "rules.parquet"] = rules.cast(RULES), RULES
                further["rules"] = rules.num_rows
            if self._section.lattice:
                pairs = self._covers()
                tables[run_path / "lattice.parquet"] = pairs, LATTICE
                further["covers"] = pairs.num_rows
            self._backend.write_tables(tables, self._sink.write_file)
        return Collected(
            counts={
                "itemsets": summary.fingerprint.n_items,
                "members": summary.members,
                "max_items": summary.max_items,
                "min_count": self._least,
                **further,
            },
            content_fingerprint=str(summary.fingerprint),
        )

    def _covers(self) -> pa.Table:
        """The cover relation of the listed sets."""
        graph, execution, sink = self._collecting.graph, self._collecting.config.execution, TableSink()
        query = BicliqueQuery(min_left=self._least)
        enumerate_into(sink, graph, query, Execution(threads=execution.threads), execution.engine)
        closed, hashes = sink.table(), self._collecting.edges.key_hashes()[1]
        upper, lower = covers(graph, closed, self._least)
        sizes = np.diff(closed.right_offsets).astype(np.int32)
        if self._section.max_len is not None:
            is_listed = sizes[lower] <= self._section.max_len
            upper, lower = upper[is_listed], lower[is_listed]
        none = np.zeros_like(sizes)
        keys = biclique_keys(BicliqueBlock(sizes.size, none, sizes, none[:0], closed.right_members), hashes, hashes)
        pairs = pa.table([keys[lower], keys[upper]], schema=LATTICE)
        return pairs.sort_by([(name, "ascending") for name in LATTICE.names])
