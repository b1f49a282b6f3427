"""The largest bicliques of blocks in device memory: those that may be among them are brought to the host."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.device.lists import take_lists
from pipeline.outputs.bicliques.largest import Bounds, Largest

__all__ = ["add_largest"]


def add_largest(largest: Largest, block: DeviceBlock, n_edges: cp.ndarray, keys: cp.ndarray) -> None:
    """Have the largest of a block among those that are kept.

    Parameters
    ----------
    largest : Largest
    block : DeviceBlock
    n_edges, keys : (n_bicliques,) int64
        On the device.
    """
    chosen = [_worth_keeping(each, block, n_edges, keys) for each in largest.bounds()]
    rows = cp.unique(cp.concatenate(chosen))
    if not rows.size:
        return
    left_sizes, left_members = _on_host(block.left_offsets, block.left_members, rows)
    right_sizes, right_members = _on_host(block.right_offsets, block.right_members, rows)
    found = BicliqueBlock(int(rows.size), left_sizes, right_sizes, left_members, right_members)
    largest.add(found, cp.asnumpy(n_edges[rows]), cp.asnumpy(keys[rows]))


def _on_host(offsets: cp.ndarray, members: cp.ndarray, rows: cp.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and members of some lists, both int32."""
    taken = take_lists(offsets, members, rows)
    return np.diff(cp.asnumpy(taken[0])).astype(np.int32), cp.asnumpy(taken[1])


def _worth_keeping(bounds: Bounds, block: DeviceBlock, n_edges: cp.ndarray, keys: cp.ndarray) -> cp.ndarray:
    """The rows of a block that `Largest` would keep, had it seen this block alone; and one more where not all fit."""
    narrow = cp.minimum(block.left_sizes, block.right_sizes)
    is_better = (n_edges > bounds.least) | ((n_edges == bounds.least) & (keys <= bounds.last))
    rows = cp.flatnonzero((narrow >= bounds.fewest) & is_better)
    if not rows.size:
        return rows
    rows = rows[cp.lexsort(cp.stack([keys[rows], -n_edges[rows]]))[: bounds.n_most]]
    n_members = cp.cumsum((cp.diff(block.left_offsets) + cp.diff(block.right_offsets))[rows])
    # The one that does not fit says that some were let go of.
    return rows[: max(bounds.n_at_least, int((n_members <= bounds.most_members).sum())) + 1]
