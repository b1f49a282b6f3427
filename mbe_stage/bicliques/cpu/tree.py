"""The walk over the search tree, in time quanta.

A task is a frame with a range of children. A quantum works on a worker's stack until the task is done, the work limit
is reached, the output is full or an arena is short. The state stays, the host makes room and calls again. A child is
visited as a whole or not at all: a shortage is found before any result counts.

An explicit stack replaces recursion: cuMBE 4.2. Frames own consecutive pieces of shared arenas, where cuMBE 4.3
(compact representation) keeps pointers into one array for each set.
"""

from __future__ import annotations

import numpy as np
from numba import int64, none

from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.bitset_walk import walk_bitset_frames
from mbe_stage.bicliques.cpu.subgraph_children import visit_subgraph_child
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OK, OUTPUT_FULL, QUANTUM_OVER

# By whether members are wanted.
_VARIANTS = {
    "counting": (INTS, layout.WORKER_STATE, layout.SIZES, none, int64),
    "collecting": (INTS, layout.WORKER_STATE, layout.SIZES, layout.OUTPUT, int64),
}


def compile_steps(collects: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the walk that collects members, the one that only counts, or both."""
    return steps_of(run_quantum, variant={None: None, True: "collecting", False: "counting"}[collects])


@compiled(variants=_VARIANTS, seconds=15.0, nrt=False)
def run_quantum(graph, worker, sizes, output, work_limit):
    """Continue a worker's task.

    Parameters
    ----------
    graph : int32
        The whole graph in the layout of a subgraph.
    sizes : Sizes
    output : Output or None
        None only counts, and writes sizes if there are buffers for them.
    work_limit : int
        Elementary steps after which to stop.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or the arena that is short (``control[NEEDED]`` entries would do).
    """
    frames, control = worker.frames, worker.control
    control[layout.WORK] = 0
    while control[layout.DEPTH] >= 0:
        depth = control[layout.DEPTH]
        if control[layout.WORK] >= work_limit:
            return QUANTUM_OVER
        if depth + 2 > frames.shape[0]:
            control[layout.NEEDED] = 2 * frames.shape[0]
            return layout.FRAMES_SHORT
        if frames[depth, layout.CURSOR] >= frames[depth, layout.END]:
            control[layout.DEPTH] = depth - 1
            continue
        if output is None and control[layout.N_OUT] > sizes.most_out:
            return OUTPUT_FULL
        n_out, left_used, right_used = control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED]
        count = control[layout.COUNT]
        if frames[depth, layout.KIND] == layout.BITSET:
            status = walk_bitset_frames(worker, sizes, output, work_limit)
        else:
            node, offset = (
                (graph, np.int64(0))
                if frames[depth, layout.KIND] == layout.WHOLE_GRAPH
                else (worker.ints, frames[depth, layout.INTS])
            )
            status = visit_subgraph_child(node, offset, worker, sizes, output)
            if status != OK:
                control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED] = (
                    n_out,
                    left_used,
                    right_used,
                )
                control[layout.COUNT] = count
        if status != OK:
            return status
    return DONE
