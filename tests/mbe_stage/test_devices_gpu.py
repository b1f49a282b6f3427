"""Several workers on one GPU, or several GPUs, share a search; a process is killed holding one. `make test-gpu`"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage import BicliqueQuery, CliqueQuery, CountSink, Detail, Execution, PqQuery, TableSink, enumerate_into
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.cliques import engine_cuda as clique_engine
from mbe_stage.cliques import reference as clique_reference
from mbe_stage.cliques.results import CliqueTableSink
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.pq_counts import engine_cpu as pq_engine_cpu
from mbe_stage.pq_counts.results import Detail as PqDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.search.cpu.pool import Barrier
from tests.mbe_stage import graphs
from tests.mbe_stage.cliques import undirected_graphs
from tests.patience import begun, completed, output_of

pytestmark = pytest.mark.gpu

_ROOT = Path(__file__).parents[2]
PLENTY = Execution(device_memory_bytes=4 << 30)
TINY: list[dict[str, Any]] = [
    {"n_blocks": 2, "quantum_seconds": 0.0005},
    {"n_blocks": 2, "quantum_seconds": 0.0005, "nodes": 8, "pool_extra": 4096},
    {"n_blocks": 1, "quantum_seconds": 0.0005, "words": 64},
    {"n_blocks": 2, "members": 512, "descriptors": 64, "chunk_members": 16},
]


@pytest.mark.parametrize("n", [2, 3, 8])
def test_workers_on_one_device_find_everything(n: int) -> None:
    given = 0
    for seed in range(12):
        graph = graphs.from_matrix(graphs.random_matrix(seed, *((12, 24), (60, 45))[seed % 2], (0.7, 0.15)[seed % 2]))
        wanted = set(reference.maximal_bicliques(graph))
        runner = DeviceRunner([0] * n, options={"sizes": TINY[seed % 4]})
        sink, counted = TableSink(), CountSink()
        enumerate_into(sink, graph, None, Execution(device_memory_bytes=4 << 30, runner=runner), "cuda")
        given += sum(rank.n_given for rank in runner.ranks)
        assert sink.table().as_set() == wanted
        assert len(sink.table()) == len(wanted)
        enumerate_into(counted, graph, None, Execution(device_memory_bytes=4 << 30, runner=runner), "cuda")
        assert counted.n_bicliques == len(wanted)
    assert given > 0


def test_barriers_and_handovers() -> None:
    crown = graphs.crown(24)
    barrier, n_found, markers = Barrier(), 0, []
    barrier.ask()
    runner = DeviceRunner([0, 0], options={"sizes": {"n_blocks": 4, "quantum_seconds": 0.002}})
    for block in runner.run("bicliques", "cuda", crown, BicliqueQuery(), PLENTY, Detail.COUNT, barrier=barrier):
        n_found += len(block)
        if block.remaining is not None:
            markers.append((n_found, block.remaining))
    assert n_found == 2**24 - 2
    for before, remaining in markers:
        rest = engine_cuda.run(crown, BicliqueQuery(), PLENTY, Detail.COUNT, remaining)
        assert before + sum(map(len, rest)) == n_found


def on_each() -> list[int]:
    """Return two GPUs, or two workers on the only one."""
    cupy = pytest.importorskip("cupy")
    return [0, 1] if cupy.cuda.runtime.getDeviceCount() > 1 else [0, 0]


def test_sizes_of_two_devices() -> None:
    """Nodes that are handed over or moved have no ids, but offsets for counting sizes."""
    runner = DeviceRunner(on_each(), options={"sizes": {"n_blocks": 2, "quantum_seconds": 0.0005, "nodes": 8}})
    skewed = np.random.default_rng(4).random((300, 40)) < np.minimum(0.9, 1.5 / np.arange(1, 41))
    for graph, query in (
        (graphs.crown(34), BicliqueQuery(min_left=32)),
        (graphs.from_matrix(skewed), BicliqueQuery()),
        (graphs.from_matrix(skewed.T), BicliqueQuery(min_left=2, min_right=3)),
    ):
        found, wanted = (
            sorted(
                pair
                for block in blocks
                if len(block)
                for pair in zip(block.left_sizes.tolist(), block.right_sizes.tolist(), strict=True)
            )
            for blocks in (
                runner.run("bicliques", "cuda", graph, query, PLENTY, Detail.SIZES),
                engine_cpu.run(graph, query, PLENTY, Detail.SIZES),
            )
        )
        assert found == wanted


# Small pools, and quanta so short that nodes are handed over.
SCARCE: list[dict[str, Any]] = [
    {"n_blocks": 2, "quantum_seconds": 0.0005},
    {"n_blocks": 2, "quantum_seconds": 0.0005, "narrow": 8},
    {"n_blocks": 1, "quantum_seconds": 0.0005, "narrow": 5, "n_nodes": 8},
]


def test_cliques_of_two_devices() -> None:
    given = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        sparse = undirected_graphs.random_graph(rng, (24, 40, 60)[seed % 3], (0.14, 0.5, 0.8)[seed % 3])
        graph, query = undirected_graphs.complement(sparse), (CliqueQuery(), CliqueQuery(3, 8))[seed % 2]
        wanted = {one for one in clique_reference.maximal_cliques(graph) if clique_reference.matches(one, query)}
        runner = DeviceRunner(on_each(), options={"sizes": SCARCE[seed // 3 % 3]}, epoch_seconds=0.01 * (seed % 4))
        sink, n = CliqueTableSink(), 0
        for block in runner.run("cliques", "cuda", graph, query, PLENTY, CliqueDetail.MEMBERS):
            sink.accept(block)
        for block in runner.run("cliques", "cuda", graph, query, PLENTY, CliqueDetail.COUNT):
            n += len(block)
        given += sum(rank.n_given for rank in runner.ranks)
        assert sink.table().as_set() == wanted, seed
        assert len(sink.table()) == n == len(wanted), seed
    assert given > 0


def test_cliques_of_two_devices_in_device_memory_and_at_barriers() -> None:
    graph = undirected_graphs.two_densities(np.random.default_rng(4), 400, 130, 0.4)
    wanted = sum(map(len, clique_engine.run(graph, CliqueQuery(), PLENTY, CliqueDetail.COUNT)))
    for on_device in (False, True):
        barrier, n_found = Barrier(), 0
        barrier.ask()
        runner = DeviceRunner(on_each(), options={"sizes": {"n_blocks": 4, "quantum_seconds": 0.002}})
        asked = ("cliques", "cuda", graph, CliqueQuery(), PLENTY, CliqueDetail.MEMBERS)
        for block in runner.run(*asked, barrier=barrier, on_device=on_device):
            n_found += len(block)
            if block.remaining is not None:
                rest = clique_engine.run(graph, CliqueQuery(), PLENTY, CliqueDetail.COUNT, block.remaining)
                assert n_found + sum(map(len, rest)) == wanted
        assert n_found == wanted


def test_counts_of_two_devices() -> None:
    given = 0
    for seed in range(16):
        shape, density = ((13, 26), 0.75) if seed % 2 else ((60, 45), 0.25)
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        query = (PqQuery(1, 6, 1, 6), PqQuery.of(3, 3), PqQuery(4, 8, 3, 9))[seed % 3]
        found, expected, barrier = PqSink(query), PqSink(query), Barrier()
        runner = DeviceRunner(on_each(), options={"sizes": SCARCE[seed % 3]}, epoch_seconds=0.01 * (seed % 4))
        barrier.ask()
        asked = ("pq_counts", "cuda", graph, query, PLENTY, PqDetail.COUNTS)
        for block in runner.run(*asked, barrier=barrier):
            found.accept(block)
        for block in pq_engine_cpu.run(graph, query, Execution(), PqDetail.COUNTS):
            expected.accept(block)
        given += sum(rank.n_given for rank in runner.ranks)
        assert found.counts() == expected.counts(), seed
    assert given > 0


def test_all_devices_of_this_machine() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(3, 90, 70, 0.25))
    sink, expected = TableSink(), TableSink()
    facts = enumerate_into(sink, graph, None, Execution(devices="all", device_memory_bytes=4 << 30))
    for block in engine_cpu.run(graph, BicliqueQuery(), Execution(), Detail.MEMBERS):
        expected.accept(block)
    assert sink.table().as_set() == expected.table().as_set()
    assert facts.device.startswith("cuda, ")


_ENDLESS = """
from mbe_stage import CountSink, Execution, enumerate_into
from tests.mbe_stage.graphs import crown
enumerate_into(CountSink(), crown(52), None, Execution(device_memory_bytes=4 << 30), "cuda",
               on_progress=lambda progress: print(progress.n_bicliques, flush=True))
"""
_AGAIN = """
from mbe_stage import CountSink, Execution, enumerate_into
from tests.mbe_stage.graphs import crown
enumerate_into(sink := CountSink(), crown(20), None, Execution(device_memory_bytes=4 << 30), "cuda")
print(sink.n_bicliques)
"""


def test_a_process_killed_while_it_holds_a_device() -> None:
    for _ in range(2):
        process = begun([sys.executable, "-c", _ENDLESS], cwd=_ROOT, text=True)
        assert process.stdout is not None
        # A quantum is over, and another one is running.
        assert int(process.stdout.readline()) > 0
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
        output_of(process)
        again = completed([sys.executable, "-c", _AGAIN], cwd=_ROOT, check=True)
        assert int(again.stdout) == 2**20 - 2


def test_a_missing_device_is_named() -> None:
    with pytest.raises(ValueError, match="devices has 99: expected numbers below"):
        list(DeviceRunner([99]).run("bicliques", "cuda", graphs.crown(4), BicliqueQuery(), PLENTY, Detail.COUNT))


def test_the_library_accepts_one_device_named_twice() -> None:
    matrix = np.repeat(graphs.random_matrix(4, 60, 50, 0.2), 2, 0)
    graph, counted = graphs.from_matrix(matrix), CountSink()
    enumerate_into(counted, graph, None, Execution(devices=[0, 0], device_memory_bytes=4 << 30))
    assert counted.n_bicliques == sum(map(len, engine_cpu.run(graph, BicliqueQuery(), Execution(), Detail.COUNT)))
