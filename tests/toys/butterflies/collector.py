"""Write blocks of edges to `edges.parquet`; they are small enough to keep until the end."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Collected, Collecting
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from tests.toys.butterflies.results import EdgeBlock
from tests.toys.butterflies.tables import schemas

__all__ = ["EdgesCollector"]


class EdgesCollector:
    """See `pipeline.problems.base.Collector`."""

    detail = None
    shares = None

    def __init__(self, collecting: Collecting) -> None:
        self.seconds = {"write": 0.0}
        self._collecting = collecting
        self._blocks: list[EdgeBlock] = []
        self._thread = threading.get_ident()

    def accept(self, block: EdgeBlock) -> None:
        assert threading.get_ident() == self._thread
        self._blocks.append(block)
        for each in self._collecting.derived:
            each.accept(block, np.arange(len(block)))

    def __enter__(self) -> EdgesCollector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No write is pending."""

    def finish(self) -> Collected:
        start = time.perf_counter()
        making = self._collecting
        table = self._table()
        with as_publish_errors(making.run_path):
            pq.write_table(table, making.run_path / "edges.parquet", compression=making.config.output.compression)
        self.seconds["write"] += time.perf_counter() - start
        n = table["butterflies"].to_numpy()
        lines = sorted(json.dumps(list(row)) for row in zip(*(c.to_pylist() for c in table.columns[:3]), strict=True))
        return Collected(
            counts={"counted": n.size, "in_butterflies": int(np.count_nonzero(n)), "most": int(n.max(initial=0))},
            content_fingerprint=hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        )

    def _table(self) -> pa.Table:
        making = self._collecting
        edges, asked = making.edges, making.config.problem_section
        left, right, n = (
            np.concatenate([np.empty(0, np.int64), *(getattr(block, name) for block in self._blocks)]).astype(np.int64)
            for name in ("left", "right", "butterflies")
        )
        order = np.lexsort((right, left) if asked.order == "edges" else (right, left, -n))
        left, right, n = left[order], right[order], n[order]
        columns = [edges.left_keys.take(pa.array(left)), edges.right_keys.take(pa.array(right)), pa.array(n)]
        if asked.degrees:
            columns += [pa.array(making.graph.left_degrees[left]), pa.array(making.graph.right_degrees[right])]
        key_types = edges.left_keys.type, edges.right_keys.type
        return pa.Table.from_arrays(columns, schema=schemas(making.config, key_types)["edges.parquet"])
