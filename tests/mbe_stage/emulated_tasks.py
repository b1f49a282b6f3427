"""Run the CUDA engine on the emulator on part of the roots at a time.

As a script, with the part ``some`` or ``others``, prints a JSON line per case.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Execution, TableSink
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator

PLENTY = {"n_blocks": 1, "quantum_seconds": 1000.0}
# One for each of the sizes below.
SOME = ("crown", "edges that the CPU leaves out", "random 0", "list children")
# Several quanta, a pool that is compacted, arenas that grow.
SCARCE = [PLENTY, PLENTY | {"quantum_seconds": 0.05}, PLENTY | {"nodes": 2}, PLENTY | {"words": 64, "pool_extra": 64}]


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    install_emulator()
    twins = np.repeat(np.repeat(graphs.random_matrix(3, 8, 8, 0.5), 2, 0), 3, 1)
    cases = [
        ("crown", graphs.crown(6), BicliqueQuery()),
        ("twins", graphs.from_matrix(twins), BicliqueQuery()),
        ("sizes", graphs.from_matrix(graphs.random_matrix(5, 20, 20, 0.4)), BicliqueQuery(min_left=2, min_right=3)),
        ("containing", graphs.from_matrix(graphs.random_matrix(6, 14, 18, 0.5)), BicliqueQuery(containing_left=(3,))),
        ("edges that the CPU leaves out", _with_weak_edges(), BicliqueQuery(min_left=2, min_right=3)),
        ("nothing left", graphs.path(5), BicliqueQuery(min_left=9)),
    ]
    for seed, (n_left, n_right, density) in enumerate([(12, 12, 0.5), (30, 12, 0.3), (9, 40, 0.4), (60, 50, 0.06)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, density))
        cases.append((f"random {seed}", graph, BicliqueQuery()))
    cases.append(("list children", graphs.from_matrix(graphs.random_matrix(7, 100, 7, 0.55)), BicliqueQuery()))
    chosen = [case for case in cases if (case[0] in SOME) == (part == "some")]
    for (name, graph, query), sizes in zip(chosen, itertools.cycle(SCARCE)):
        tasks = engine_cpu.tasks_of(graph, query, 6)
        sink, counted = TableSink(), 0
        parts = [each for each in (tasks[::3], tasks[1::3], tasks[2::3]) if each]
        for each in parts or [[]]:
            for block in engine_cuda.run(graph, query, Execution(), Detail.MEMBERS, each, sizes=sizes):
                sink.accept(block)
            blocks = engine_cuda.run(graph, query, Execution(), Detail.COUNT, each, sizes=sizes)
            counted += sum(block.n_bicliques for block in blocks)
        found = sink.table().as_set()
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        same = found == wanted and len(found) == len(sink.table())
        print(json.dumps({"case": name, "same": same, "counted": counted, "wanted": len(wanted), "parts": len(parts)}))


def _with_weak_edges() -> BipartiteCSR:
    core, leaves = graphs.random_matrix(13, 40, 30, 0.1), np.zeros((40, 100), bool)
    core[:5, :6] = True
    core[3, 2] = False
    leaves[np.arange(100) % 40, np.arange(100)] = True
    return graphs.from_matrix(np.hstack([core, leaves]))


if __name__ == "__main__":
    main(sys.argv[1])
