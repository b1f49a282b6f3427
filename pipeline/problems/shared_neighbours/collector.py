"""The sink of a run: writes `pairs/`, in the order of the ids, or the best pairs by rank."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.pipeline.backends.arrow.block_writer import BlockWriter
from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.problems.shared_neighbours.rows import pairs_schema
from mbe_stage.shared_neighbours.results import PairBlock, PairSink
from mbe_stage.splitmix import finalised

# One encoder, so that the rows keep their order.
_BUDGET_OF_ONE = 1
_ROWS_AT_ONCE = 1 << 20


class PairCollector:
    """See `pipeline.problems.base.Collector`."""

    detail = None
    shares = None

    def __init__(self, collecting: Collecting) -> None:
        config, section, edges = collecting.config, collecting.config.problem_section, collecting.edges
        self._keys = edges.left_keys if section.side == "left" else edges.right_keys
        # As for cliques, the hashes do not depend on the side of the vertices.
        self._hashes = collecting.backend.key_hashes(self._keys, "left")
        self._best = PairSink(collecting.graph, section.top, section.by or "p_value")
        self._has_top = section.top is not None
        self._fingerprint, self._n_pairs, self._max_shared = Fingerprint(), 0, 0
        self._derived = collecting.derived
        self._context = ExitStack()
        self._writer = BlockWriter(
            collecting.run_path,
            {"pairs": pairs_schema(self._keys.type)},
            self._rows,
            lambda batch: [batch],
            compression=config.output.compression,
            order=None,
            block_bytes=config.execution.block_bytes,
            memory_budget=_BUDGET_OF_ONE,
        )
        self._seconds = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds that the engine waited."""
        return {"write": self._writer.seconds + self._seconds}

    def accept(self, block: PairBlock) -> None:
        """Take one block.

        Raises
        ------
        PublishError
            An earlier block could not be written.
        """
        self._n_pairs += len(block)
        if self._has_top:
            start = time.perf_counter()
            self._best.accept(block)
            self._seconds += time.perf_counter() - start
        elif len(block):
            self._write(block)

    def __enter__(self) -> Self:
        self._context.enter_context(self._writer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._context:
            if kind is None and self._has_top:
                best = self._best.pairs()
                for start in range(0, len(best), _ROWS_AT_ONCE):
                    self._write(best.part(start, start + _ROWS_AT_ONCE))

    def finish(self) -> Collected:
        """Return the sums; called once, after the context was left."""
        n = self._fingerprint.n_items
        return Collected(
            counts={"pairs": self._n_pairs, "listed": n, "max_shared": self._max_shared},
            content_fingerprint=str(self._fingerprint),
        )

    def _write(self, block: PairBlock) -> None:
        sums = self._hashes[block.first] + self._hashes[block.second]
        keys = finalised(sums + finalised(block.shared.astype(np.uint64))).view(np.int64)
        self._fingerprint.add(keys)
        self._max_shared = max(self._max_shared, int(block.shared.max(initial=0)))
        for each in self._derived:
            each.accept(block, keys)
        self._writer.accept(block, block.first.nbytes * 3)

    def _rows(self, block: Any) -> pa.RecordBatch:
        found = self._best.similarity.of(block)
        ends = (self._keys.take(pa.array(ids)) for ids in (found.first, found.second))
        values = (pa.array(column) for column in (found.shared, found.jaccard, found.cosine, found.p_value))
        return pa.RecordBatch.from_arrays([*ends, *values], schema=pairs_schema(self._keys.type))
