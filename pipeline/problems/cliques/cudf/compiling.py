"""What is compiled for the tables of cliques in device memory: their kernels, and what the host does for them."""

from __future__ import annotations

from collections.abc import Sequence

from mbe_stage.bicliques.cuda import keys, vertex_statistics
from mbe_stage.cliques import ordering
from mbe_stage.device.jit import compile_steps_of
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["compile_steps"]

_NAMING = (
    keys.hash_sum_warp_per_list,
    vertex_statistics.count_warp_per_list,
    vertex_statistics.smallest_key_warp_per_list,
)


def compile_steps() -> Sequence[CompileStep]:
    """What such a run needs beside the engine, reading and the projection."""
    return (*compile_steps_of(*_NAMING), *ordering.compile_steps())
