"""Members of bicliques that differ, in the user's keys: of some by their keys, or of a side in its files' order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.publish.reading import bicliques_parts, open_part, reading, vertex_keys
from mbe_stage.pipeline.views.diff.keys import KeySet
from mbe_stage.pipeline.views.diff.rows import Side
from mbe_stage.pipeline.views.top import Biclique

__all__ = ["bicliques_with", "rows_with_members"]

# Rows with member lists that are decoded at once.
_DECODED_ROWS = 1 << 14
_COLUMNS = ["biclique_key", "left", "right"]


def bicliques_with(run_path: Path, keys: np.ndarray) -> dict[int, Biclique]:
    """The bicliques of a run with these keys, by key; row groups without one of them are not decoded."""
    wanted = KeySet(np.unique(keys))
    found: dict[int, Biclique] = {}
    if not keys.size:
        return found
    names = _names(run_path)
    with reading(run_path):
        for part in bicliques_parts(run_path):
            with open_part(part) as file:
                for group in range(file.metadata.num_row_groups):
                    here = file.read_row_group(group, columns=["biclique_key"]).column(0).to_numpy()
                    if not wanted.positions_in(here).size:
                        continue
                    for batch in file.iter_batches(_DECODED_ROWS, row_groups=[group], columns=_COLUMNS):
                        at = wanted.positions_in(batch.column("biclique_key").to_numpy())
                        found |= {one.key: one for one in _bicliques(batch.take(pa.array(at)), names)}
    return found


def rows_with_members(side: Side, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, pa.ListArray, pa.ListArray]]:
    """Chosen bicliques of a side, some at a time: their positions, and their left and right members' own keys.

    Parameters
    ----------
    chosen : (n,) bool
    """
    names = _names(side.run_path)
    of_side = KeySet(np.sort(side.keys))
    first = 0
    with reading(side.run_path):
        for part in bicliques_parts(side.run_path):
            with open_part(part) as file:
                for batch in file.iter_batches(_DECODED_ROWS, columns=_COLUMNS):
                    # The rows of a side are in the order of its files.
                    at = of_side.positions_in(batch.column("biclique_key").to_numpy())
                    positions = np.arange(first, first + at.size)
                    first += at.size
                    kept = chosen[positions]
                    if kept.any():
                        rows = batch.take(pa.array(at[kept]))
                        left, right = (_named(rows.column(name), names[name]) for name in ("left", "right"))
                        yield positions[kept], left, right


def _names(run_path: Path) -> dict[str, pa.Array]:
    return {side: _one_array(vertex_keys(run_path, side)) for side in ("left", "right")}


def _one_array(keys: pa.ChunkedArray) -> pa.Array:
    whole = keys.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _named(members: pa.ListArray, names: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(members.offsets, names.take(members.values))


def _bicliques(rows: pa.RecordBatch, names: dict[str, pa.Array]) -> Iterator[Biclique]:
    lists = (_named(rows.column(side), names[side]).to_pylist() for side in ("left", "right"))
    for key, left, right in zip(rows.column("biclique_key").to_pylist(), *lists, strict=True):
        yield Biclique(key=key, left=tuple(left), right=tuple(right), n_edges=len(left) * len(right))
