"""Run the CUDA engine on the emulator. As a script, prints a JSON line per case."""

from __future__ import annotations

import json

from mbe_stage import Execution
from mbe_stage.runners import local
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_device import use_the_emulator
from tests.toys.butterflies import engine_cuda, reference
from tests.toys.butterflies.problem import EdgeQuery
from tests.toys.butterflies.results import EdgeSink


def main() -> None:
    use_the_emulator()
    for seed, shape in enumerate([(1, 1), (9, 7), (20, 30), (40, 6)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.4))
        sink = EdgeSink()
        tasks = engine_cuda.tasks_of(graph, EdgeQuery(), 5)
        for part in (tasks[::2], tasks[1::2]):
            for block in local.run(engine_cuda, graph, EdgeQuery(), Execution(), None, part):
                sink.accept(block)
        print(json.dumps({"same": sink.found == reference.butterflies(graph), "edges": len(sink.found)}))


if __name__ == "__main__":
    main()
