"""Wide nodes, with more candidates than a frame: their blocks in the pool, and their pivots."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.techniques import EXCLUDED_PIVOTS
from mbe_stage.device.masks import bits_below
from mbe_stage.device.warp import ALL, count_bits, inclusive_sum, max_all, next_one, next_tile
from mbe_stage.search.cuda.nodes import new_node, publish, take_words

_I = np.int32
_L = np.int64
_U = np.uint32


class Wide(NamedTuple):
    """The block of a wide node.

    Attributes
    ----------
    ids_at, base_at, branches_at, rows_at : int64
        Begin of the candidates' ids, the base, the bits of the candidates to branch on, and the rows: first of the
        candidates, then of the excluded vertices.
    n, n_excluded, n_base, n_words : int32
        Candidates, rows of excluded vertices, vertices of the base, words of a row.
    """

    ids_at: Any
    base_at: Any
    branches_at: Any
    rows_at: Any
    n: Any
    n_excluded: Any
    n_base: Any
    n_words: Any


NO_BLOCK = -1
"""In `Wide.ids_at`: the pool is short."""


@cuda.jit(device=True, forceinline=True)
def _wide(place, n, n_excluded, n_base):
    """Return the parts of a block that begins at `place`."""
    n_words = _I((n + 31) >> 5)
    base_at = _L(place + n)
    branches_at = _L(base_at + n_base)
    return Wide(place, base_at, branches_at, _L(branches_at + n_words), n, n_excluded, n_base, n_words)


@cuda.jit(device=True, forceinline=True)
def _size_of(n, n_excluded, n_base):
    """Words of a block, int64."""
    n_words = _I((n + 31) >> 5)
    return _L(n + n_base + n_words) + _L(_I(n + n_excluded)) * _L(n_words)


@cuda.jit(device=True, forceinline=True)
def new_wide(n, n_excluded, n_base, device):
    """Allocate a block of the pool; its place is `NO_BLOCK` if there is no room."""
    place = take_words(_size_of(n, n_excluded, n_base), True, device.control, device.settings)
    return _wide(place, n, n_excluded, n_base)


@cuda.jit(device=True, forceinline=True)
def open_wide(node, nodes):
    """Return the block of a node."""
    fields = nodes[node]
    n, n_excluded, n_base = _I(fields[layout.N_CANDIDATES]), _I(fields[layout.N_EXCLUDED]), _I(fields[layout.N_BASE])
    return _wide(_L(fields[layout.OFFSET]), n, n_excluded, n_base)


@cuda.jit(device=True, forceinline=True)
def _pivot(wide, n_rows, words):
    """Return the row with the most bits, and their number."""
    best, most = _I(0), _I(-1)
    row = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_rows:
        if row < n_rows:
            place = _L(wide.rows_at + _L(row) * _L(wide.n_words))
            met = _I(0)
            k = _I(0)
            while k < wide.n_words:
                met = _I(met + count_bits(words[place + k]))
                k = next_one(k)
            if met > most:
                best, most = row, met
        row = next_tile(row)
        tile = next_tile(tile)
    most_of_all = max_all(most)
    return max_all(_I(best if most == most_of_all else -1)), most_of_all


@cuda.jit(device=True, forceinline=True)
def publish_wide(wide, newest, device, techniques):
    """Choose the pivot of a written node, and open the node to all warps.

    Parameters
    ----------
    newest : int32
        The last node that this warp made, or -1.
    techniques : int

    Returns
    -------
    int32
        The newest node of this warp. It is the one before if an excluded vertex is adjacent to all candidates, and -2
        if there is no room.
    """
    words = device.words
    cuda.syncwarp()
    pivot, most = _pivot(wide, _I(wide.n + wide.n_excluded), words)
    if most == wide.n:
        return newest
    if techniques & EXCLUDED_PIVOTS == 0:
        pivot, most = _pivot(wide, wide.n, words)
    node = new_node(True, device.control, device.settings)
    if node < 0:
        return _I(-2)
    row_at = _L(wide.rows_at + _L(pivot) * _L(wide.n_words))
    n_children = _I(0)
    tile = _I(0)
    while tile < wide.n_words:
        word = _I(tile + _I(cuda.laneid))
        n_here = _I(0)
        if word < wide.n_words:
            branches = _U(bits_below(word, wide.n) & _U(~_U(words[row_at + word])))
            words[wide.branches_at + word] = branches
            n_here = count_bits(branches)
        n_children = _I(n_children + cuda.shfl_sync(ALL, inclusive_sum(n_here), 31))
        tile = next_tile(tile)
    if cuda.laneid == 0:
        device.nodes[node, layout.OFFSET] = wide.ids_at
        device.nodes[node, layout.WORDS] = _size_of(wide.n, wide.n_excluded, wide.n_base)
        device.nodes[node, layout.LINK] = _L(newest)
        device.nodes[node, layout.KIND] = _L(layout.WIDE)
        device.nodes[node, layout.N_CANDIDATES] = _L(wide.n)
        device.nodes[node, layout.N_EXCLUDED] = _L(wide.n_excluded)
        device.nodes[node, layout.N_BASE] = _L(wide.n_base)
    cuda.syncwarp()
    publish(node, n_children, device.nodes, device.control)
    return node
