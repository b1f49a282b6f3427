"""The query and the sink of a run of closed itemsets, and the table of items after the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.itemsets.covers import maximal_of, rows_of
from mbe_stage.pipeline.itemsets.baskets import baskets_of, least_of
from mbe_stage.pipeline.itemsets.rules import closed_with_covers, rules_of
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.itemsets.arrow import ParquetSink
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
        self._section, graph = collecting.config.problem_section, collecting.graph
        self._least = fewest_baskets(self._section, collecting.edges.facts.n_left)
        self._items = rows_of(graph.left_offsets, graph.left_members, graph.n_right) if self._section.maximal else None
        self.detail = Detail.MEMBERS if self._section.maximal else Detail.RIGHT

    @property
    def parts(self) -> Any:
        """See `SinkCollector.parts`; None if maximal sets are chosen here."""
        return None if self._section.maximal else super().parts

    def accept(self, block: Any) -> int:
        """Accept one block, or only its maximal sets; return their number."""
        kept = block if self._items is None else maximal_of(self._items, block, self._least)
        super().accept(kept)
        return len(kept)

    def finish(self) -> Collected:
        """Write the table of items; called once, after leaving the context.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        collecting, summary = self._collecting, self._sink.summary
        run_path, edges = collecting.run_path, collecting.edges
        keys = edges.right_keys
        columns = (
            pa.array(np.arange(len(keys), dtype=np.int32)),
            keys,
            pa.array(collecting.graph.right_degrees),
            pa.array(summary.n_itemsets),
        )
        of_items, further = items(keys.type), dict[str, int]()
        with as_publish_errors(run_path):
            tables = {run_path / "items.parquet": (pa.table(columns, schema=of_items), of_items)}
            for name, count, schema, table in self._of_all_closed_sets():
                tables[run_path / name] = table, schema
                further[count] = table.num_rows
            self._backend.write_tables(tables, self._sink.write_file)
        return Collected(
            counts={
                "itemsets": summary.fingerprint.n_items,
                "members": int(summary.n_itemsets.sum()),
                "max_items": summary.max_items,
                "min_count": self._least,
                **further,
            },
            content_fingerprint=str(summary.fingerprint),
        )

    def _of_all_closed_sets(self) -> Iterator[tuple[str, str, pa.Schema, pa.Table]]:
        """Yield the tables of rules and of covers: file, count, schema and rows."""
        section, execution = self._section, self._collecting.config.execution
        if section.min_confidence is None and not section.lattice:
            return
        graph, kept = baskets_of(self._collecting.graph).frequent(self._least)
        closed, smaller, larger = closed_with_covers(graph, self._least, execution.engine, execution.threads)
        if section.min_confidence is not None:
            rules = rules_of(closed, smaller, larger, section.min_confidence, kept.tolist(), graph.n_left)
            yield "rules.parquet", "rules", RULES, rules.cast(RULES)
        if section.lattice:
            sizes = np.diff(closed.right_offsets).astype(np.int32)
            is_listed = (sizes[smaller] > 0) & (sizes[larger] <= (section.max_len or graph.n_right))
            block = BicliqueBlock(sizes.size, None, sizes, None, closed.right_members)
            keys = ParquetSink.keys(self._collecting.edges.key_hashes()[1][kept], block)
            pairs = pa.table([keys[larger[is_listed]], keys[smaller[is_listed]]], schema=LATTICE)
            yield "lattice.parquet", "covers", LATTICE, pairs.sort_by([(name, "ascending") for name in LATTICE.names])
