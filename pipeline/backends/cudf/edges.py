"""Clean edges in device memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa
import pylibcudf as plc

from mbe_stage.device.graph import graph_from_edges, undirected_from_edges
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.backends.backend import Edges
from mbe_stage.pipeline.backends.cudf.buffers import kind_of, values_of
from mbe_stage.pipeline.backends.cudf.hashes import key_hashes
from mbe_stage.pipeline.clean.facts import written_integer


@dataclass(frozen=True, slots=True, eq=False)
class DeviceEdges(Edges[cp.ndarray, cudf.Series]):
    """The device's `EdgeData`: ids are CuPy's, keys are cuDF's; `events` are in host memory."""

    hashed = staticmethod(key_hashes)

    @classmethod
    def from_host(cls, edges: EdgeData) -> DeviceEdges:
        """Copy edges to the device."""
        return _copied(cls, edges, cp.asarray, cudf.Series.from_arrow)

    def to_host(self) -> EdgeData:
        return _copied(EdgeData, self, cp.asnumpy, _host_keys)

    def graph(self) -> BipartiteCSR | UndirectedCSR:
        if self.facts.undirected is not None:
            return undirected_from_edges(self.left_ids, self.right_ids, len(self.left_keys))
        return graph_from_edges(self.left_ids, self.right_ids, len(self.left_keys), len(self.right_keys))

    def vertex_of(self, text: str, side: str) -> int | None:
        keys = self._keys_of(side)
        if kind_of(keys) == plc.TypeId.STRING:
            found = cp.flatnonzero((keys == text).values)
        else:
            number = written_integer(text)
            found = cp.flatnonzero(values_of(keys) == np.int64(number)) if number is not None else cp.zeros(0)
        return int(found[0]) if found.size else None

    def key_of(self, vertex: int, side: str) -> int | str:
        return self._keys_of(side).iloc[vertex : vertex + 1].to_arrow()[0].as_py()


def _host_keys(keys: cudf.Series) -> pa.Array:
    # Plain strings if they fit, as on the host.
    array = as_plain(pa.chunked_array([keys.to_arrow()]))
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) and array.nbytes < 2**31 else array


def _copied(kind: type[Any], edges: Any, array: Callable[[Any], Any], keys: Callable[[Any], Any]) -> Any:
    """Return the same edges in another class, given the functions that copy arrays and keys."""
    ids, both_keys = (edges.left_ids, edges.right_ids), (edges.left_keys, edges.right_keys)
    hashes = None if edges.hashes is None else tuple(map(array, edges.hashes))
    later = None if edges.half_later is None else _copied(kind, edges.half_later, array, keys)
    return kind(*map(array, ids), *map(keys, both_keys), edges.facts, hashes, edges.events, later)
