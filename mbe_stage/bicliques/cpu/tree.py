"""The walk over the search tree, in time quanta.

A task is a frame with a range of children. A quantum works on a worker's stack until the task is done, the quantum's
share of work is used up, the output is full or an arena is short; the state stays where it is, the host makes room and
calls again. A child is visited as a whole or not at all: what is short is found out before anything counts.

An explicit stack in the place of recursion: cuMBE 4.2. Frames own consecutive pieces of shared arenas, where cuMBE 4.3
(compact representation) keeps pointers into one array for each set.
"""

from __future__ import annotations

import numpy as np
from numba import int64, none

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bitset_walk import walk_bitset_frames
from mbe_stage.bicliques.cpu.subgraph_children import visit_subgraph_child
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OK, QUANTUM_OVER

# By whether members are wanted, or sizes have to be checked.
_VARIANTS = {
    "counting": (INTS, at.WORKER_STATE, none, int64),
    "collecting": (INTS, at.WORKER_STATE, at.OUTPUT, int64),
}


def compile_steps(collects: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the walk that collects members, the one that only counts, or both."""
    return steps_of(run_quantum, variant={None: None, True: "collecting", False: "counting"}[collects])


@compiled(variants=_VARIANTS, seconds=15.0, nrt=False)
def run_quantum(graph, worker, output, work_limit):
    """Go on with a worker's task.

    Parameters
    ----------
    graph : int32
        The whole graph in the layout of a subgraph.
    output : Output or None
        None only counts, and checks no size constraints.
    work_limit : int
        Elementary steps after which to stop.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or which arena is short (``control[NEEDED]`` entries would do).
    """
    frames, control = worker.frames, worker.control
    control[at.WORK] = 0
    while control[at.DEPTH] >= 0:
        depth = control[at.DEPTH]
        if control[at.WORK] >= work_limit:
            return QUANTUM_OVER
        if depth + 2 > frames.shape[0]:
            control[at.NEEDED] = 2 * frames.shape[0]
            return at.FRAMES_SHORT
        if frames[depth, at.CURSOR] >= frames[depth, at.END]:
            control[at.DEPTH] = depth - 1
            continue
        n_out, left_used, right_used = control[at.N_OUT], control[at.LEFT_USED], control[at.RIGHT_USED]
        count = control[at.COUNT]
        if frames[depth, at.KIND] == at.BITSET:
            status = walk_bitset_frames(worker, output, work_limit)
        else:
            node, offset = (
                (graph, np.int64(0))
                if frames[depth, at.KIND] == at.WHOLE_GRAPH
                else (worker.ints, frames[depth, at.INTS])
            )
            status = visit_subgraph_child(node, offset, worker, output)
            if status != OK:
                control[at.N_OUT], control[at.LEFT_USED], control[at.RIGHT_USED] = n_out, left_used, right_used
                control[at.COUNT] = count
        if status != OK:
            return status
    return DONE
