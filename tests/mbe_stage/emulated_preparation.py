"""Compare the device's prepared graph, on the emulator, with the host's reduction.

As a script, prints a JSON line per case.
"""

from __future__ import annotations

import json
import warnings

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator
from tests.mbe_stage.preparation import differences, expected, is_sorted_as_expected, prepared

N_BLOCKS = 2

# Lists read by one lane up to length 0, the default, and any; bitmaps of one word and of many.
THRESHOLDS = [(0, 1), (8, 1024), (1 << 30, 1), (2, 3)]


def cases() -> list[tuple[str, BipartiteCSR, BicliqueQuery]]:
    everything = BicliqueQuery()
    twins = graphs.from_matrix(np.repeat(np.repeat(graphs.random_matrix(5, 20, 30, 0.4), 3, 0), 2, 1))
    long = graphs.from_matrix(graphs.random_matrix(3, 70, 40, 0.3))
    sparse = graphs.from_matrix(graphs.random_matrix(4, 100, 70, 0.05))
    chain = graphs.path(60)
    return [
        ("crown", graphs.crown(9), everything),
        ("all twins", graphs.complete(40, 3), everything),
        ("twins", twins, everything),
        ("twins, swapped", twins.swapped(), everything),
        ("long lists", long, everything),
        ("vertices without edges", sparse, everything),
        ("core", sparse, BicliqueQuery(min_left=3, min_right=4)),
        ("core of one side", sparse.swapped(), BicliqueQuery(min_left=5)),
        ("core that takes many rounds", chain, BicliqueQuery(min_left=2, min_right=2)),
        ("containing", long, BicliqueQuery(containing_left=(3, 4), containing_right=(0,), min_right=2)),
        ("containing one side", twins, BicliqueQuery(containing_right=(7,))),
        ("containing what is not adjacent", sparse, BicliqueQuery(containing_left=(0,), containing_right=(0,))),
    ]


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    install_emulator()
    from mbe_stage.bicliques.cuda import collapse_twins, prepare, whole_graph

    for number, (name, graph, query) in enumerate(cases()):
        for short, n_words in THRESHOLDS if number in (3, 4) else THRESHOLDS[number % 2 : number % 2 + 1]:
            collapse_twins.SHORT = whole_graph.SHORT = short
            # The host goes first, because it prepares small graphs.
            prepare.SMALL = 1 << 15
            same = not differences(prepared(graph, query, N_BLOCKS), expected(graph, query))
            prepare.SMALL = -1
            whole_graph._BITMAP_ROWS = 32 * n_words
            found = prepared(graph, query, N_BLOCKS)
            same &= not differences(found, expected(graph, query))
            if found is not None:
                same &= is_sorted_as_expected(graph, query, N_BLOCKS)
            print(json.dumps({"case": name, "short": short, "words": n_words, "same": same, "empty": found is None}))


if __name__ == "__main__":
    main()
