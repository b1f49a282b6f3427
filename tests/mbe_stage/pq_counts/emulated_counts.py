"""The CUDA engine that counts (p, q)-bicliques on the emulator, NumPy in the place of CuPy. Run as a script, with one of
`PARTS`: prints a JSON line per case."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts import engine_cuda, reference
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import put_in_place


def use_the_emulator() -> Any:
    """Kernels run on the emulator; returns the launcher, whose `seed` may be changed."""
    launcher = put_in_place()
    from mbe_stage.pq_counts.cuda import kernels, session

    kernels.counting_blocks = lambda: 1
    session.kernel_for = lambda techniques: launcher(kernels.kernel_for(techniques))
    return launcher


def counted(graph: BipartiteCSR, query: PqQuery, **options: Any) -> dict[tuple[int, int], int]:
    """What the engine counts."""
    sink = PqSink(query)
    for block in engine_cuda.run(graph, query, Execution(), Detail.COUNTS, **options):
        sink.accept(block)
    return sink.counts()


def specified(graph: BipartiteCSR, query: PqQuery) -> dict[tuple[int, int], int]:
    """What it should be."""
    sink = PqSink(query)
    for block in reference.run(graph, query, Execution(), Detail.COUNTS):
        sink.accept(block)
    return sink.counts()


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = use_the_emulator()
    import time
    for seed, (n, m, density, narrow) in enumerate([(6, 6, 0.6, 64), (10, 9, 0.6, 64), (10, 9, 0.6, 3), (9, 14, 0.8, 4), (12,12,.7, 2)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, n, m, density))
        for query in (PqQuery(1, 5, 1, 5), PqQuery(3, 3, 2, 2), PqQuery(4,4,4,4)):
            t=time.time()
            stats={}
            found = counted(graph, query, sizes={"narrow": narrow}, statistics=stats)
            t=time.time()-t
            wanted = specified(graph, query)
            print(json.dumps({"same": found == wanted, "n": sum(wanted.values()), "t": t} | stats), flush=True)
            if found != wanted:
                print(found, wanted)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
