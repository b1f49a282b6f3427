"""Run `mbe_stage.device` on the emulator, with NumPy instead of CuPy. As a script, prints the passed cases."""

from __future__ import annotations

import warnings

import numpy as np

from mbe_stage import BipartiteCSR
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator


def use_the_emulator() -> None:
    install_emulator()


def cases() -> list[tuple[str, BipartiteCSR]]:
    with_hubs = graphs.random_matrix(5, 70, 20, 0.1)
    with_hubs[:66, :2] = True
    with_hubs[68:] = False
    return [
        ("nothing", BipartiteCSR.from_edges([], [])),
        ("no edges", BipartiteCSR.from_edges([], [], 3, 2)),
        ("one edge", BipartiteCSR.from_edges([1], [2])),
        ("star", graphs.star(50)),
        ("crown", graphs.crown(7)),
        ("half graph", graphs.half_graph(40)),
        ("hubs", graphs.from_matrix(with_hubs)),
        ("sparse", graphs.from_matrix(graphs.random_matrix(2, 40, 30, 0.08))),
        ("dense", graphs.from_matrix(graphs.random_matrix(3, 14, 9, 0.7))),
    ]


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    from tests.mbe_stage import device_checks

    device_checks.check_hashes()
    print("hashes")
    device_checks.check_copies()
    device_checks.check_cuts()
    print("copies and cuts")
    for name, graph in cases():
        device_checks.check_graph(graph)
        device_checks.check_two_hop(graph, 1, 40)
        device_checks.check_sums(graph, device_checks.blocks_of(graph, 3))
        print(name, flush=True)


if __name__ == "__main__":
    main()
