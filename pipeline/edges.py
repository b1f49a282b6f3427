"""Clean edges with dense ids: what ingestion hands to everything after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["EdgeData", "InputFacts", "written_integer"]


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What was read and what became of it; published in the manifest.

    Attributes
    ----------
    source : str
        The path as given, or ``memory:<kind>``.
    format : str
        The format that was read.
    rows_read, rows_dropped_null, rows_dropped_weight, rows_dropped_time, duplicate_edges : int
        ``n_edges = rows_read - rows_dropped_* - duplicate_edges``.
    n_left, n_right, n_edges : int
    fingerprint : str
        Names the set of edges by their own keys, whatever their order or file format.
    warnings : tuple of str
        What reading had to do otherwise than asked, or could not check; a sentence each.
    """

    source: str
    format: str
    rows_read: int
    rows_dropped_null: int
    rows_dropped_weight: int
    rows_dropped_time: int
    duplicate_edges: int
    n_left: int
    n_right: int
    n_edges: int
    fingerprint: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EdgeData:
    """Distinct edges between dense ids, and the keys the ids stand for.

    Attributes
    ----------
    left_ids, right_ids : (n_edges,) int32
        Ordered by left id and then right id.
    left_keys, right_keys : pa.Array
        int64 or string; position is the dense id. Ascending (integers by value, strings by UTF-8 bytes), distinct, and
        each in at least one edge.
    facts : InputFacts
    """

    left_ids: np.ndarray
    right_ids: np.ndarray
    left_keys: pa.Array
    right_keys: pa.Array
    facts: InputFacts

    def graph(self) -> BipartiteCSR:
        """The edges in CSR form, both directions."""
        return BipartiteCSR.from_edges(self.left_ids, self.right_ids, len(self.left_keys), len(self.right_keys))

    def vertex_of(self, text: str, side: str) -> int | None:
        """The dense id of the key that is written so; None where no key is."""
        keys = self.left_keys if side == "left" else self.right_keys
        wanted = written_integer(text) if pa.types.is_integer(keys.type) else text
        vertex = -1 if wanted is None else pc.index(keys, pa.scalar(wanted, keys.type)).as_py()
        return None if vertex < 0 else vertex

    def key_of(self, vertex: int, side: str) -> int | str:
        """The key of a dense id."""
        return (self.left_keys if side == "left" else self.right_keys)[vertex].as_py()


def written_integer(text: str) -> int | None:
    """The integer within int64 that is written exactly so; None for every other text."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and str(int(text)) == text):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None
