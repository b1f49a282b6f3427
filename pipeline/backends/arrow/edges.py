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
from mbe_stage.pipeline.clean.events import Events
from mbe_stage.pipeline.clean.facts import InputFacts, written_integer


@dataclass(frozen=True, slots=True, eq=False)
class EdgeData:
    """Distinct edges between dense ids, and the keys of the ids.

    Attributes
    ----------
    left_ids, right_ids : (n_edges,) int32
        Ordered by left id and then right id.
    left_keys, right_keys : pa.Array
        int64 or string; position is the dense id. Ascending (integers by value, strings by UTF-8 bytes), distinct, and
        each in at least one edge.
    facts : InputFacts
    hashes : pair of (n,) uint64, optional
        The result of `key_hashes`, if known.
    events : Events, optional
        Weights and times of the rows behind the edges, if they are kept.
    half_later : EdgeData, optional
        As `pipeline.backends.backend.Edges.half_later`.
    degrees : pair of (n,) int64, optional
        As `pipeline.backends.backend.Edges.degrees`.
    """

    left_ids: np.ndarray
    right_ids: np.ndarray
    left_keys: pa.Array
    right_keys: pa.Array
    facts: InputFacts
    hashes: tuple[np.ndarray, np.ndarray] | None = None
    events: Events | None = None
    half_later: EdgeData | None = None
    degrees: tuple[np.ndarray, np.ndarray] | None = None

    def to_host(self) -> EdgeData:
        """Return the edges themselves."""
        return self

    def graph(self) -> Any:
        """Return the edges in CSR form: a `BipartiteCSR` or, with `InputFacts.undirected`, an `UndirectedCSR`."""
        if self.facts.undirected is not None:
            return UndirectedCSR.from_edges(self.left_ids, self.right_ids, len(self.left_keys))
        return BipartiteCSR.from_edges(self.left_ids, self.right_ids, len(self.left_keys), len(self.right_keys))

    def key_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the vertex hash of each left and of each right key, uint64."""
        if self.hashes is not None:
            return self.hashes
        return key_hashes(self.left_keys, "left"), key_hashes(self.right_keys, "right")

    def vertex_of(self, text: str, side: str) -> int | None:
        """Return the dense id of the key with this text; None if there is no such key."""
        keys = self.left_keys if side == "left" else self.right_keys
        wanted = written_integer(text) if pa.types.is_integer(keys.type) else text
        vertex = -1 if wanted is None else pc.index(keys, pa.scalar(wanted, keys.type)).as_py()
        return None if vertex < 0 else vertex

    def key_of(self, vertex: int, side: str) -> int | str:
        """Return the key of a dense id."""
        return (self.left_keys if side == "left" else self.right_keys)[vertex].as_py()
