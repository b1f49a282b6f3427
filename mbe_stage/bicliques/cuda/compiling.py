"""Which kernels a run of the CUDA engine launches, so that they can be compiled before it begins."""

from __future__ import annotations

from typing import Any

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.collapse import collapse_twins_warp_per_tile
from mbe_stage.bicliques.cuda.core import keep_alive_warp_per_tile, peel_warp_per_vertex, shrinks
from mbe_stage.bicliques.cuda.device import walking_kernel
from mbe_stage.bicliques.cuda.expand_kernels import (
    expanded_lists_warp_per_tile,
    full_sizes_warp_per_tile,
    sort_long_lists_block_per_list,
)
from mbe_stage.bicliques.cuda.groups import groups_thread_per_vertex, weights_thread_per_vertex
from mbe_stage.bicliques.cuda.growth import copy_pieces_block_per_piece
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.bicliques.cuda.whole_graph import write_whole_graph_warp_per_tile
from mbe_stage.options import BicliqueQuery

__all__ = ["kernels_of"]

_MODES = (at.COUNTS, at.SIZES, at.MEMBERS, at.WITHIN)
_PREPARING = (collapse_twins_warp_per_tile, write_whole_graph_warp_per_tile)
_SHRINKING = (peel_warp_per_vertex, keep_alive_warp_per_tile)
_WEIGHING = (weights_thread_per_vertex,)
_EXPANDING = (
    groups_thread_per_vertex,
    full_sizes_warp_per_tile,
    expanded_lists_warp_per_tile,
    sort_long_lists_block_per_list,
)
_GROWING = (copy_pieces_block_per_piece,)


def kernels_of(query: BicliqueQuery | None = None, mode: int | None = None) -> tuple[Any, ...]:
    """The kernels that a run launches on the current device, but for those that only a run short of memory does.

    Parameters
    ----------
    query : BicliqueQuery, optional
        Any, by default.
    mode : int, optional
        Of `layout`; by default any, and runs that are short of memory too.
    """
    if query is None or mode is None:
        walking = tuple(walking_kernel(each, ALL_TECHNIQUES) for each in _MODES)
        return (*walking, *_PREPARING, *_SHRINKING, *_WEIGHING, *_EXPANDING, *_GROWING)
    return (
        walking_kernel(mode, ALL_TECHNIQUES),
        *_PREPARING,
        *(_SHRINKING if shrinks(query) else ()),
        *(_WEIGHING if mode > at.COUNTS else ()),
        *(_EXPANDING if mode in (at.MEMBERS, at.WITHIN) else ()),
    )
