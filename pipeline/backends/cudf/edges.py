"""Clean edges in device memory."""

from __future__ import annotations

from dataclasses import dataclass

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
        return cls(
            cp.asarray(edges.left_ids),
            cp.asarray(edges.right_ids),
            cudf.Series.from_arrow(edges.left_keys),
            cudf.Series.from_arrow(edges.right_keys),
            edges.facts,
            None if edges.hashes is None else (cp.asarray(edges.hashes[0]), cp.asarray(edges.hashes[1])),
            edges.events,
            None if edges.half_later is None else cls.from_host(edges.half_later),
        )

    def to_host(self) -> EdgeData:
        return EdgeData(
            cp.asnumpy(self.left_ids),
            cp.asnumpy(self.right_ids),
            _host_keys(self.left_keys),
            _host_keys(self.right_keys),
            self.facts,
            None if self.hashes is None else (cp.asnumpy(self.hashes[0]), cp.asnumpy(self.hashes[1])),
            self.events,
            None if self.half_later is None else self.half_later.to_host(),
        )

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
