"""The walk over the search tree, in time quanta.

A task is a range of roots, or a node with a range of its branches. A quantum works on a worker's stack until the task
is done, the quantum's share of work is used up, the output is full or an arena is short; the state stays where it is,
the host makes room and calls again. A child is visited as a whole or not at all.
"""

from __future__ import annotations

from numba import int64, none

from mbe_stage.cliques.cpu import layout as at
from mbe_stage.cliques.cpu.emit import has_room
from mbe_stage.cliques.cpu.root_nodes import visit_root
from mbe_stage.cliques.cpu.wide_children import visit_branch
from mbe_stage.cliques.cpu.word_walk import walk_words
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OK, OUTPUT_FULL, QUANTUM_OVER

# By whether cliques are written, or only counted.
_VARIANTS = {
    "counting": (at.GRAPH, at.WORKER_STATE, none, int64),
    "collecting": (at.GRAPH, at.WORKER_STATE, at.OUTPUT, int64),
}


def compile_steps(collects: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the walk that writes cliques, the one that only counts, or both."""
    return steps_of(run_quantum, variant={None: None, True: "collecting", False: "counting"}[collects])


@compiled(variants=_VARIANTS, seconds=15.0, nrt=False)
def run_quantum(graph, worker, output, work_limit):
    """Go on with a worker's task.

    Parameters
    ----------
    output : Output or None
        None only counts.
    work_limit : int
        Elementary steps after which to stop.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or which arena is short (``control[NEEDED]`` entries would do).
    """
    control = worker.control
    control[at.WORK] = 0
    while True:
        status = walk_words(worker, output, work_limit)
        if status != OK:
            return status
        depth = control[at.DEPTH]
        if depth < 0:
            return DONE
        frame = worker.frames[depth]
        if frame[at.CURSOR] >= frame[at.END]:
            control[at.DEPTH] = depth - 1
            continue
        if control[at.WORK] >= work_limit:
            return QUANTUM_OVER
        if not has_room(worker, output):
            return OUTPUT_FULL
        if depth + 2 > worker.frames.shape[0]:
            control[at.NEEDED] = 2 * worker.frames.shape[0]
            return at.FRAMES_SHORT
        if frame[at.KIND] == at.ROOTS:
            status = visit_root(graph, worker, output, frame[at.CURSOR])
        else:
            status = visit_branch(worker, output, frame, frame[at.CURSOR])
        if status != OK:
            return status
        frame[at.CURSOR] += 1
