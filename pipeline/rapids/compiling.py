"""What the tier ``rapids`` needs compiled: the engine's kernels and those of the tables; see `pipeline.compiling`."""

from __future__ import annotations

from collections.abc import Sequence

from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.cuda import keys, participation
from mbe_stage.bicliques.results import Detail
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.device import two_hop
from mbe_stage.device.jit import all_at_once, compile_steps_of
from pipeline.compiling import Part, sizes_of
from pipeline.config import Config
from pipeline.rapids.rehearsal import rehearsal

__all__ = ["device_steps"]

_READING = (keys.text_hash_thread_per_string, keys.integer_hash_thread_per_value)
_NAMING = (keys.hash_sum_warp_per_list, participation.count_warp_per_list, participation.smallest_key_warp_per_list)
_MEMBERS = (participation.long_form_warp_per_biclique,)
_TWO_HOP = (two_hop.base_warp_per_vertex, two_hop.walk_warp_per_neighbour, two_hop.ask_warp_per_pair)


def device_steps(part: Part | None = None, config: Config | None = None) -> Sequence[CompileStep]:
    """What a part of a job needs compiled; parameters are those of `pipeline.compiling.host_steps`.

    Where some of that has to be compiled, it is everything that any part of any job needs.
    """
    if part is None or config is None:
        return _everything()
    query = sizes_of(config)
    needed: Sequence[CompileStep]
    if part == "read":
        needed = (rehearsal(), *compile_steps_of(*_READING))
    elif part == "count":
        needed = engine_cuda.compile_steps(query, Detail.COUNT)
    else:
        members = _MEMBERS if config.output.members else ()
        two_hop_degrees = _TWO_HOP if config.output.two_hop_steps else ()
        needed = (
            *engine_cuda.compile_steps(query, Detail.MEMBERS),
            *compile_steps_of(*_READING, *_NAMING, *members, *two_hop_degrees),
        )
    return all_at_once(needed, _everything)


def _everything() -> Sequence[CompileStep]:
    return (rehearsal(), *engine_cuda.compile_steps(), *compile_steps_of(*_READING, *_NAMING, *_MEMBERS, *_TWO_HOP))
