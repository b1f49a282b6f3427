"""The kernels of the tables of bicliques in device memory."""

from __future__ import annotations

from collections.abc import Sequence

from mbe_stage.bicliques.cuda import keys, vertex_statistics
from mbe_stage.device import copying, two_hop
from mbe_stage.device.jit import compile_steps_of
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.bicliques.largest import n_shown
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["compile_steps"]

_NAMING = (
    keys.hash_sum_warp_per_list,
    vertex_statistics.count_warp_per_list,
    vertex_statistics.smallest_key_warp_per_list,
)
_MEMBERS = (vertex_statistics.long_form_warp_per_biclique,)
_LARGEST = (copying.take_warp_per_list,)
_TWO_HOP = (two_hop.hub_warp_per_vertex, two_hop.walk_warp_per_neighbour, two_hop.ask_warp_per_pair)


def compile_steps(config: Config | None) -> Sequence[CompileStep]:
    """What such a run needs beside the engine and reading; of None, any run."""
    members = _MEMBERS if config is None or config.output.members else ()
    two_hop_degrees = _TWO_HOP if config is None or config.output.two_hop_steps else ()
    largest = _LARGEST if config is None or n_shown(config.output) else ()
    return compile_steps_of(*_NAMING, *members, *largest, *two_hop_degrees)
