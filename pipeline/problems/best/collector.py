"""The query of a run, and the sink that keeps the latest best list and writes it at the end."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.results import BestSink
from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.pipeline.backends.arrow.parts import write_table
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.best.rows import best_schema
from mbe_stage.pipeline.problems.best.section import BestSection
from mbe_stage.pipeline.publish.run_files import as_publish_errors


def to_query(section: BestSection, edges: Any) -> BestQuery:
    """Return the query for the engines.

    Raises
    ------
    InputError
        A row has no weight, or a negative one.
    """
    weights = None if section.by != "weight" else _weights(edges)
    sizes = section.min_left, section.min_right
    return BestQuery(section.by, section.k, *sizes, section.overlap, section.missing, weights, edges.key_hashes())


def _weights(edges: Any) -> np.ndarray:
    """Return the weight of each edge: the sum of the weights of its rows."""
    events, n = edges.events, len(edges.right_keys)
    if (is_wrong := ~(events.weights >= 0)).any():
        row = int(np.argmax(is_wrong))
        ends = edges.left_keys[int(events.left[row])].as_py(), edges.right_keys[int(events.right[row])].as_py()
        value = f"the weight {events.weights[row]:g}" if events.weights[row] < 0 else "no finite weight"
        raise InputError.at(
            edges.facts.source,
            found=f"row {row + 1:,} of those that are kept, from {ends[0]!r} to {ends[1]!r}, has {value}",
            expected="weights of at least 0, to rank bicliques by weight",
            remedy="correct the rows, or leave them out",
        )
    order = edges.left_ids.astype(np.int64) * n + edges.right_ids
    places = np.searchsorted(order, events.left.astype(np.int64) * n + events.right)
    return np.bincount(places, events.weights, order.size)


class BestCollector(BestSink, AbstractContextManager[Any]):
    """See `pipeline.problems.base.Collector`: writes `best.parquet`."""

    shares = None

    def __init__(self, collecting: Collecting) -> None:
        super().__init__()
        self._collecting = collecting
        self.seconds: dict[str, float] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing waits to be written."""

    def finish(self) -> Collected:
        """Write the table; called once.

        Raises
        ------
        PublishError
            It cannot be written.
        """
        collecting, standing = self._collecting, self.standing
        assert standing is not None
        best = standing.best()
        members, edges, config = best.members, collecting.edges, collecting.config
        schema = best_schema(config.problem_section.by, (edges.left_keys.type, edges.right_keys.type))
        sizes = members.left_sizes, members.right_sizes
        numbers = np.arange(1, len(best) + 1), best.scores, best.keys, *sizes, best.n_edges
        lists = (
            pa.ListArray.from_arrays(offsets.astype(np.int32), keys.take(pa.array(ids)), type=schema.field(name).type)
            for offsets, ids, keys, name in (
                (members.left_offsets, members.left_members, edges.left_keys, "left_keys"),
                (members.right_offsets, members.right_members, edges.right_keys, "right_keys"),
            )
        )
        columns = [pa.array(values, field.type) for values, field in zip(numbers, schema, strict=False)]
        with as_publish_errors(collecting.run_path):
            table = pa.Table.from_arrays([*columns, *lists], schema=schema)
            write_table(table, collecting.run_path / "best.parquet", config.output.compression)
        fingerprint, scores = Fingerprint(), best.scores.tolist()
        fingerprint.add(best.keys)
        highest, last = (scores[0], scores[-1]) if scores else (None, 0)
        bound = last if standing.is_complete else standing.bound
        counts = {"best": len(best), "highest": highest, "bound": bound if math.isfinite(bound) else None}
        return Collected(counts, str(fingerprint))
