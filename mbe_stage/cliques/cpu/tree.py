"""The walk over the search tree, in time quanta.

A task is a range of roots, or a node with a range of its branches. A quantum works on a worker's stack until the task
is done, the work limit is reached, the output is full or an arena is short. The state stays, the host makes room and
calls again. A child is visited as a whole or not at all.
"""

from __future__ import annotations

from numba import int64, none

from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import has_room
from mbe_stage.cliques.cpu.root_nodes import visit_root
from mbe_stage.cliques.cpu.wide_children import visit_branch
from mbe_stage.cliques.cpu.word_walk import walk_words
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OK, OUTPUT_FULL, QUANTUM_OVER

# Compiled twice: to write cliques, and only to count them.
_VARIANTS = {
    "counting": (layout.GRAPH, layout.WORKER_STATE, none, int64),
    "collecting": (layout.GRAPH, layout.WORKER_STATE, layout.OUTPUT, int64),
}


def compile_steps(collects: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the walk that writes cliques, the one that only counts, or both."""
    return steps_of(run_quantum, variant={None: None, True: "collecting", False: "counting"}[collects])


@compiled(variants=_VARIANTS, seconds=15.0, nrt=False)
def run_quantum(graph, worker, output, work_limit):
    """Continue a worker's task.

    Parameters
    ----------
    output : Output or None
        None to count only.
    work_limit : int
        Elementary steps after which to stop.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or the arena that is short (``control[NEEDED]`` entries would do).
    """
    control = worker.control
    control[layout.WORK] = 0
    while True:
        status = walk_words(worker, output, work_limit)
        if status != OK:
            return status
        depth = control[layout.DEPTH]
        if depth < 0:
            return DONE
        frame = worker.frames[depth]
        if frame[layout.CURSOR] >= frame[layout.END]:
            control[layout.DEPTH] = depth - 1
            continue
        if control[layout.WORK] >= work_limit:
            return QUANTUM_OVER
        if not has_room(worker, output):
            return OUTPUT_FULL
        if depth + 2 > worker.frames.shape[0]:
            control[layout.NEEDED] = 2 * worker.frames.shape[0]
            return layout.FRAMES_SHORT
        if frame[layout.KIND] == layout.ROOTS:
            status = visit_root(graph, worker, output, frame[layout.CURSOR])
        else:
            status = visit_branch(worker, output, frame, frame[layout.CURSOR])
        if status != OK:
            return status
        frame[layout.CURSOR] += 1
