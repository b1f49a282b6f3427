"""Run every path through the kernels and check that launches had the declared types: a script, for a GPU.

Only with these types is a kernel compiled ahead of a run. It needs a separate process, because tests may launch
anything. ``--rapids`` also takes the tier of that name through a job.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, CliqueQuery, Execution, UndirectedCSR
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.cuda import prepare
from mbe_stage.bicliques.results import Detail
from mbe_stage.cliques import engine_cuda as clique_engine
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.device import cubins
from mbe_stage.device.jit import known_kernels
from mbe_stage.runtime.compile_ahead import compile_ahead

QUERIES = (BicliqueQuery(), BicliqueQuery(min_left=2, min_right=2), BicliqueQuery(containing_left=(1,), max_right=9))
SIZES: tuple[dict[str, Any], ...] = ({}, {"n_blocks": 4, "words": 128, "nodes": 8, "quantum_seconds": 20.0})

# Compiled ahead for groups only, in a module that the engines import.
OF_GROUPS = {"mbe_stage.device.copying:take_warp_per_list"}


def main() -> None:
    # Kernels installed as machine code would not be compiled.
    cubins.handle_of = lambda *_: None  # type: ignore[assignment]
    compile_ahead((*engine_cuda.compile_steps(), *clique_engine.compile_steps()))
    ahead = {call.name: set(kernel.overloads) for kernel, call in known_kernels().items()}
    prepare.LONG_ROW = 100
    graph = BipartiteCSR.from_edges(*np.nonzero(np.random.default_rng(1).random((300, 12)) < 0.5))
    for query in QUERIES:
        for detail in Detail:
            for sizes in SIZES if detail == Detail.COUNT else SIZES[:1]:
                for _block in engine_cuda.run(graph, query, Execution(), detail, sizes=sizes):
                    pass
    cliques = UndirectedCSR.from_edges(*np.nonzero(np.random.default_rng(2).random((60, 60)) < 0.3), n=60)
    for detail in CliqueDetail:
        for sizes in ({}, {"narrow": 3, "quantum_seconds": 1e-5}):
            for _block in clique_engine.run(cliques, CliqueQuery(), Execution(), detail, sizes=sizes):
                pass
    for kernel, call in known_kernels().items():
        if call.name in ahead and call.name not in OF_GROUPS:
            assert set(kernel.overloads) == ahead[call.name] == {call.signature}, (call.name, set(kernel.overloads))
    if "--rapids" in sys.argv:
        _whole_job()
    for kernel, call in known_kernels().items():
        assert set(kernel.overloads) <= {call.signature}, (call.name, set(kernel.overloads), call.signature)


def _whole_job() -> None:
    import pyarrow as pa

    from mbe_stage.pipeline import Config, run

    left, right = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 1, 2]
    for as_key in (int, "key {}".format):
        edges = pa.table({"left": list(map(as_key, left)), "right": list(map(as_key, right))})
        with tempfile.TemporaryDirectory() as directory:
            output = {"directory": directory, "members": True, "sort": True}
            values = {"execution": {"engine": "rapids"}, "output": output, "groups": {}}
            run(Config.from_mapping(values), edges)
            cliques = {"problem": "cliques", "output": {"directory": f"{directory}/cliques", "sort": True}}
            run(Config.from_mapping({"execution": values["execution"], **cliques}), edges)
    for kernel, call in known_kernels().items():
        if (
            call.name.startswith(("mbe_stage.bicliques.cuda.keys", "mbe_stage.groups"))
            or "vertex_statistics" in call.name
        ):
            assert kernel.overloads, call.name


if __name__ == "__main__":
    main()
