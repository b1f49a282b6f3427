"""Ending a time quantum: when its time is over, or when something is short.

Words that other warps change are read past the caches, by one lane for all.
"""

from __future__ import annotations

from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.warp import ALL, global_nanoseconds, load_fresh


@cuda.jit(device=True, forceinline=True)
def read_shared(values, index):
    """A word that other warps change, the same for all lanes: two lanes must never take different turns on it."""
    value = 0
    if cuda.laneid == 0:
        value = load_fresh(values, index)
    return cuda.shfl_sync(ALL, value, 0)


@cuda.jit(device=True, forceinline=True)
def ask_to_stop(control, reason):
    """End the quantum: every warp stops before its next child."""
    if cuda.laneid == 0:
        cuda.atomic.or_(control, at.STATUS, reason)
        cuda.atomic.or_(control, at.SIGNAL, at.STOP_BIT)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def ask_for_words(needed, words, launch):
    """Whether a warp's arenas have so many entries; if not, the quantum ends and the host enlarges them."""
    if needed <= words.size:
        return True
    if cuda.laneid == 0:
        cuda.atomic.max(launch.control_64, at.NEEDED_WORDS, needed)
    ask_to_stop(launch.control, at.WORDS_SHORT)
    return False


@cuda.jit(device=True, forceinline=True)
def stop_if_late(launch):
    """End the quantum when its time is over."""
    if cuda.any_sync(ALL, global_nanoseconds() > launch.deadline):
        ask_to_stop(launch.control, at.TIME_OVER)
