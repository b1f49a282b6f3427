"""Run the CUDA engine on the emulator with each technique left out. As a script, prints a JSON line per case."""

from __future__ import annotations

import json
import warnings
from dataclasses import fields

import numpy as np

from mbe_stage import BicliqueQuery, Execution, TableSink
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import emulated_cuda, graphs

# Bitset frames, with twins and a column of one pair; list children whose columns merge, and subgraphs.
_SHAPES = ((20, 16, 0.35), (80, 7, 0.55))
_ONLY_COUNTING = ("ahead", "settling", "bitmaps")
_SIZES = {"n_blocks": 1, "quantum_seconds": 1000.0}


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = emulated_cuda.install_emulator()
    for seed, shape in enumerate(_SHAPES):
        launcher.seed = seed
        matrix = graphs.random_matrix(seed, *shape)
        if seed == 0:
            matrix[1::2] = matrix[::2]
            matrix[:, 0] = np.arange(len(matrix)) < 2
        graph = graphs.from_matrix(matrix)
        wanted = set(reference.maximal_bicliques(graph))
        for field in fields(Techniques):
            techniques = Techniques.without(field.name)
            same = True
            if field.name not in _ONLY_COUNTING:
                sink = TableSink()
                for block in engine_cuda.run(
                    graph, BicliqueQuery(), Execution(), Detail.MEMBERS, sizes=_SIZES, techniques=techniques
                ):
                    sink.accept(block)
                table = sink.table()
                same = table.as_set() == wanted and len(table) == len(wanted)
            # Counts of frames within sizes, and of lists without.
            query = BicliqueQuery(min_left=2, min_right=3) if seed == 0 else BicliqueQuery()
            blocks = engine_cuda.run(graph, query, Execution(), Detail.COUNT, sizes=_SIZES, techniques=techniques)
            counted = sum(block.n_bicliques for block in blocks)
            n_wanted = sum(reference.matches(*pair, query) for pair in wanted)
            print(
                json.dumps(
                    {"without": field.name, "shape": shape, "wanted": n_wanted, "counted": counted, "same": same}
                ),
                flush=True,
            )
    count_twins_that_stay_apart()


def count_twins_that_stay_apart() -> None:
    """With one hash for all lists only the first vertex of a side finds twins; other roots have an earlier twin."""
    from mbe_stage.bicliques.cuda import collapse_twins

    collapse_twins._mix = lambda _value: np.uint64(0)
    matrix = graphs.random_matrix(2, 60, 6, 0.7)
    graph = graphs.from_matrix(np.concatenate([matrix, matrix[:, :4]], axis=1))
    counted = emulated_cuda.found(graph, BicliqueQuery(), Detail.COUNT, _SIZES)
    wanted = len(reference.maximal_bicliques(graph))
    case = {"without": "hashes", "shape": (60, 10), "wanted": wanted, "counted": counted, "same": counted == wanted}
    print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
