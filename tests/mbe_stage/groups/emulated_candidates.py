"""Run the candidate sink on the emulator, with NumPy instead of CuPy. As a script, prints a JSON line per part."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from mbe_stage import InvalidArgument
from mbe_stage.groups import NullModel
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_device import use_the_emulator
from tests.mbe_stage.groups.random_graphs import (
    best_first,
    block_of,
    blocks_of,
    candidates_of_sets,
    keyed,
    small_graphs,
)

N_GRAPHS = 150
"""Default; the script's argument may reduce it."""


def random_cases(device_checks) -> Iterator[int]:
    """Random graphs, some with ties, in blocks of any size and order; twice each."""
    for seed, graph in enumerate(small_graphs(N_GRAPHS, most=8)):
        rng = np.random.default_rng(seed)
        bicliques, top = keyed(graph), int(rng.integers(1, 12))
        wanted = candidates_of_sets(graph, bicliques, top)
        for _ in range(2):
            assert device_checks.check(graph, list(blocks_of(bicliques, rng)), top) == wanted
            yield seed


def merged(device_checks) -> Iterator[int]:
    """Several sinks of disjoint bicliques, merged into one."""
    for seed, graph in enumerate(small_graphs(N_GRAPHS, most=8)):
        rng = np.random.default_rng(seed)
        bicliques, top = keyed(graph), int(rng.integers(1, 12))
        found = device_checks.check_merge(graph, list(blocks_of(bicliques, rng)), top, rng)
        assert found == candidates_of_sets(graph, bicliques, top)
        yield seed


def ties(device_checks) -> Iterator[int]:
    """A crown's bicliques of equal sizes all have the same surprise."""
    graph = graphs.crown(6)
    bicliques = keyed(graph)
    rng = np.random.default_rng(0)
    for top in (5, 9, 14, 30):
        keys = rng.permutation(np.array(list(bicliques), np.int64))
        blocks = [(block_of([bicliques[key] for key in part.tolist()]), part) for part in np.split(keys, [40, 50])]
        assert device_checks.check(graph, blocks, top) == candidates_of_sets(graph, bicliques, top)
        yield top


def lists_longer_than_a_warp(device_checks) -> Iterator[int]:
    """Worst first and best first, one biclique per block: the pool is compacted repeatedly."""
    for seed, shape in enumerate([(90, 7), (6, 80)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.6))
        bicliques = keyed(graph)
        assert max(len(side) for pair in bicliques.values() for side in pair) > 32
        ranked = best_first(graph, bicliques)
        for order in (ranked, ranked[::-1]):
            blocks = [(block_of([bicliques[key]]), np.array([key])) for key in order]
            assert device_checks.check(graph, blocks, 3) == candidates_of_sets(graph, bicliques, 3)
            yield len(order)


def pool_stays_small(device_checks) -> Iterator[int]:
    """Return the bytes held between blocks if each biclique is the best so far."""
    graph, top = graphs.crown(8), 3
    bicliques = keyed(graph)
    ranked = best_first(graph, bicliques)
    sink = device_checks.DeviceCandidateSink(NullModel.of(graph), graph.n_left, graph.n_right, top)
    empty = sink.nbytes
    for key in ranked[::-1]:
        sink.accept(device_checks.DeviceBlock.from_host(block_of([bicliques[key]])), np.array([key]))
        n_kept = top + graph.n_left + graph.n_right
        assert sink.nbytes - empty <= (2 * n_kept + top + 1) * (32 + 4 * 8)
    yield len(ranked)


def refusals(device_checks) -> Iterator[int]:
    """The host sink's refusals, before any change."""
    graph = graphs.star(3)
    model = NullModel.of(graph)
    with pytest.raises(InvalidArgument, match="top is 0: expected 1 or more"):
        device_checks.DeviceCandidateSink(model, 3, 1, top=0)
    sink = device_checks.DeviceCandidateSink(model, 3, 1)
    with pytest.raises(InvalidArgument, match="a biclique has 4 members on a side where degrees allow 3"):
        sink.accept(device_checks.DeviceBlock.from_host(block_of([((0, 1, 2, 3), (0,))])), np.array([1]))
    assert sink.n_bicliques_of_left.tolist() == [0, 0, 0]
    assert len(sink.finish()) == 0
    with pytest.raises(InvalidArgument, match="is this sink itself"):
        sink.merge(sink)
    with pytest.raises(InvalidArgument, match="the top of the other sink is 4: expected 20000"):
        sink.merge(device_checks.DeviceCandidateSink(model, 3, 1, top=4))
    with pytest.raises(InvalidArgument, match="of a graph of other degrees"):
        sink.merge(device_checks.DeviceCandidateSink(NullModel.of(graphs.path(4)), 3, 2))
    yield 3


def main(n_graphs: int) -> None:
    global N_GRAPHS
    N_GRAPHS = n_graphs
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    from mbe_stage.device import grid, launch

    # Blocks of one warp: most of these graphs have few bicliques, and idle warps take time on the emulator.
    grid.WARPS_PER_BLOCK, launch.WARPS_PER_BLOCK, launch.THREADS = 1, 1, 32
    from tests.mbe_stage.groups import device_checks

    for part in (random_cases, merged, ties, lists_longer_than_a_warp, pool_stays_small, refusals):
        print(json.dumps({"part": part.__name__, "cases": len(list(part(device_checks)))}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else N_GRAPHS)
