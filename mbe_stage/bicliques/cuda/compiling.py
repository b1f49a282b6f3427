"""Kernels that a run of the CUDA engine launches; they are compiled before it begins."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mbe_stage.bicliques.cuda import layout, prepare_on_host
from mbe_stage.bicliques.cuda.collapse_twins import (
    collapse_twins_warp_per_tile,
    groups_thread_per_vertex,
    multiplicities_thread_per_vertex,
)
from mbe_stage.bicliques.cuda.column_order import (
    column_words_thread_per_column,
    copy_columns_warp_per_tile,
    write_edges_warp_per_tile,
)
from mbe_stage.bicliques.cuda.kernels import walking_kernel
from mbe_stage.bicliques.cuda.prepare import shrinks
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from mbe_stage.bicliques.cuda.twin_expansion import (
    expanded_lists_warp_per_tile,
    full_sizes_warp_per_tile,
    sort_long_lists_block_per_list,
)
from mbe_stage.bicliques.cuda.whole_graph import write_whole_graph_warp_per_tile
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.device.copying import copy_pieces_block_per_piece
from mbe_stage.device.core import keep_alive_warp_per_tile, peel_warp_per_vertex
from mbe_stage.device.jit import compile_steps_of, step_together
from mbe_stage.device.launch import capability
from mbe_stage.runtime.compile_ahead import CompileStep

_GROUPS = ((layout.MEMBERS, layout.COUNT), (layout.CONSTRAINED, layout.SIZES), (layout.WITHIN,))
_PREPARING = (collapse_twins_warp_per_tile, write_whole_graph_warp_per_tile)
_SORTING = (column_words_thread_per_column, copy_columns_warp_per_tile, write_edges_warp_per_tile)
_SHRINKING = (peel_warp_per_vertex, keep_alive_warp_per_tile)
_COUNTING_TWINS = (multiplicities_thread_per_vertex,)
_EXPANDING = (
    groups_thread_per_vertex,
    full_sizes_warp_per_tile,
    expanded_lists_warp_per_tile,
    sort_long_lists_block_per_list,
)
_GROWING = (copy_pieces_block_per_piece,)


def steps_of(query: BicliqueQuery, mode: int) -> Sequence[CompileStep]:
    """Compile the kernels that a run launches on the current device.

    Parameters
    ----------
    mode : int
        A mode of `layout`.
    """
    return _steps_of(shrinks(query), mode, capability())


@functools.cache
def _steps_of(shrinks: bool, mode: int, _capability: tuple[int, int]) -> Sequence[CompileStep]:
    kernels = compile_steps_of(
        walking_kernel(mode, ALL_TECHNIQUES),
        *_PREPARING,
        *(_SHRINKING if shrinks else ()),
        *(_SORTING if mode < layout.MEMBERS else ()),
        *(_COUNTING_TWINS if mode > layout.COUNT else ()),
        *(_EXPANDING if mode in (layout.MEMBERS, layout.CONSTRAINED) else ()),
    )
    # Small graphs are prepared on the host.
    return (*kernels, *prepare_on_host.compile_steps())


def all_steps() -> Sequence[CompileStep]:
    """Compile every kernel of any run, including those launched only if memory is short."""
    # Three processes for the five kernels: one would take longer, and five would slow each other down.
    walking = (step_together(*(walking_kernel(mode, ALL_TECHNIQUES) for mode in group)) for group in _GROUPS)
    others = (*_PREPARING, *_SORTING, *_SHRINKING, *_COUNTING_TWINS, *_EXPANDING, *_GROWING)
    return (*walking, *compile_steps_of(*others), *prepare_on_host.compile_steps())
