"""Collect bicliques from the host or a device into one small table."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.problems.base import Collecting

__all__ = ["SidesCollector"]


class SidesCollector:
    """See `pipeline.problems.base.DerivedCollector`; blocks of either kind have `left_sizes` and `right_sizes`."""

    def __init__(self, collecting: Collecting, schema: pa.Schema) -> None:
        self._xp = collecting.backend.xp
        self._asked = collecting.config.section("smaller_sides")
        self._path = collecting.run_path / "smaller_sides.parquet"
        self._compression = collecting.config.output.compression
        self._schema = schema
        self._found: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> SidesCollector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No file is open between blocks; counts are dropped on an error or interrupt."""
        self._found.clear()

    def accept(self, block: Any, keys: Any) -> None:
        if not len(block):
            return
        smaller = self._xp.minimum(block.left_sizes, block.right_sizes)
        for size in self._xp.unique(smaller).tolist():
            of_size = keys[smaller == size]
            n, largest = self._found.get(size, (0, int(np.iinfo(np.int64).min)))
            self._found[size] = n + int(of_size.size), max(largest, int(of_size.max()))

    def finish(self) -> dict[str, int]:
        rows = [(size, *of) for size, of in sorted(self._found.items()) if size >= self._asked.at_least]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=False)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=self._schema), self._path, compression=self._compression)
        return {"sizes": len(rows), "bicliques": sum(row[1] for row in rows)}
