"""Tables in host memory, for every tier except `rapids`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques import keys as fingerprints
from mbe_stage.graphs import pairs
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow import hashes, keys
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.graph_facts import graph_facts_beside
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.backends.arrow.rows import column_of
from mbe_stage.pipeline.backends.backend import Column, FrameWriter, KeyType
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.io import RawEdges, read_edges


class ArrowBackend:
    """See `pipeline.backends.backend.Backend`."""

    name: str = "arrow"
    xp: ModuleType = np
    is_on_device: bool = False
    edges: type[EdgeData] = EdgeData

    factorised = staticmethod(keys.factorised)
    joined = staticmethod(keys.joined)
    as_utf8 = staticmethod(keys.as_utf8)
    as_integers = staticmethod(keys.as_integers)
    ranked = staticmethod(keys.ranked)
    merged = staticmethod(keys.merged)
    renumbered = staticmethod(keys.renumbered)
    as_json = staticmethod(keys.as_json)
    json_arrays = staticmethod(keys.json_arrays)
    made_in_parts = staticmethod(keys.made_in_parts)
    at_least = staticmethod(operator.ge)
    below = staticmethod(operator.lt)
    distinct_pairs = staticmethod(pairs.distinct_pairs)
    key_hashes = staticmethod(hashes.key_hashes)
    edge_fingerprint = staticmethod(fingerprints.edge_fingerprint)
    graph_facts = staticmethod(graph_facts_beside)
    on_host = from_host = engine_name = staticmethod(lambda given: given)

    def readers(
        self, config: InputConfig, source: object | None
    ) -> tuple[Callable[[], RawEdges], Callable[[], RawEdges]]:
        read = partial(_read, config, source)
        return read, read

    def column(self, rows: RawEdges, role: str, key_type: KeyType) -> Column:
        column = column_of(rows, role, key_type)
        # Converting needed more memory than the column itself.
        pa.default_memory_pool().release_unused()
        return column

    def further(self, rows: RawEdges, role: str) -> pa.Array:
        return as_plain(rows.table.column(role))

    def taken(self, values: Any, positions: np.ndarray) -> Any:
        return values[positions] if isinstance(values, np.ndarray) else values.take(pa.array(positions))

    def largest(self, values: np.ndarray) -> float:
        return np.abs(values).max(initial=0)

    def is_text(self, values: pa.Array) -> bool:
        return not pa.types.is_integer(values.type)

    def ordered(self, distinct: pa.Array) -> tuple[np.ndarray, pa.Array]:
        return keys.ranked(np.arange(len(distinct), dtype=np.int32), distinct)

    def text_column(self, texts: Sequence[str]) -> pa.Array:
        return pa.array(texts, pa.large_string())

    @contextmanager
    def budget(self, execution: Execution, shares: object = None) -> Iterator[Execution]:  # noqa: ARG002 - none to share
        yield execution

    def write_tables(self, tables: Mapping[Path, tuple[pa.Table, pa.Schema]], write_file: FrameWriter) -> None:
        with ThreadPoolExecutor(len(tables)) as pool:
            written = [pool.submit(write_file, table, path, schema) for path, (table, schema) in tables.items()]
            for table in written:
                table.result()

    def peak_device_memory_bytes(self) -> None:
        return None

    def versions(self) -> dict[str, str]:
        return {}


ARROW = ArrowBackend()


def _read(config: InputConfig, source: object | None) -> RawEdges:
    raw = read_edges(config, source)
    # Decoding needed more memory than the graph will.
    pa.default_memory_pool().release_unused()
    return raw
