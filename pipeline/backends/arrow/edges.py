"""Clean edges in host memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.backends.backend import Edges
from mbe_stage.pipeline.clean.facts import written_integer


@dataclass(frozen=True, slots=True, eq=False)
class EdgeData(Edges[np.ndarray, pa.Array]):
    """Distinct edges between dense ids, and the keys of the ids.

    Attributes
    ----------
    left_ids, right_ids : (n_edges,) int32
        Ordered by left id and then right id.
    left_keys, right_keys : pa.Array
        int64 or string; position is the dense id. Ascending (integers by value, strings by UTF-8 bytes), distinct, and
        each in at least one edge. In an undirected graph both sides have the same keys, an edge has the smaller id on
        the left, and an isolated vertex is joined to itself.
    facts : InputFacts
    hashes : pair of (n,) uint64, optional
        The result of `key_hashes`, if known.
    events : Events, optional
        Weights and times of the rows behind the edges, if they are kept.
    half_later : EdgeData, optional
        The edges of the same rows with time buckets shifted by half, for outputs that use events. The left vertices are
        the same.
    degrees : pair of (n,) int64, optional
        Degrees of the left and right vertices, if edges that no result can have were left out.
    held : HeldGraph, optional
        The graph, if workers of a cluster have the edges; then the ids are None.
    """

    held: Any = None
    hashed = staticmethod(key_hashes)

    def to_host(self) -> EdgeData:
        return self

    def graph(self) -> Any:
        if self.held is not None:
            return self.held
        if self.facts.undirected is not None:
            return UndirectedCSR.from_edges(self.left_ids, self.right_ids, len(self.left_keys))
        return BipartiteCSR.from_edges(self.left_ids, self.right_ids, len(self.left_keys), len(self.right_keys))

    def vertex_of(self, text: str, side: str) -> int | None:
        keys = self._keys_of(side)
        wanted = written_integer(text) if pa.types.is_integer(keys.type) else text
        vertex = -1 if wanted is None else pc.index(keys, pa.scalar(wanted, keys.type)).as_py()
        return None if vertex < 0 else vertex

    def key_of(self, vertex: int, side: str) -> int | str:
        return self._keys_of(side)[vertex].as_py()
