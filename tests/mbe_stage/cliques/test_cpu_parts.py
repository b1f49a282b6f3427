"""Parts of the CPU engine: pauses, growing arenas, shared pieces, orders, bits, and techniques left out."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from mbe_stage import (
    CliqueCountSink,
    CliqueQuery,
    CliqueTableSink,
    Execution,
    MemoryBudgetExceeded,
    UndirectedCSR,
    count_maximal_cliques,
    enumerate_cliques_into,
)
from mbe_stage.bits import deposit_bits, deposited, extract_bits, extracted
from mbe_stage.cliques import engine_cpu
from mbe_stage.cliques.cpu.emit import WIDTH, maximal_subsets, of_sizes
from mbe_stage.cliques.cpu.techniques import TECHNIQUES
from mbe_stage.cliques.cpu.worker import blocks_of
from mbe_stage.cliques.ordering import degeneracy_order, ordered
from mbe_stage.cliques.reference import maximal_cliques
from mbe_stage.cliques.results import Detail
from tests.mbe_stage.cliques import undirected_graphs as graphs
from tests.patience import completed

ROOT = Path(__file__).parents[3]
# Numbers of maximal cliques of real graphs, confirmed by at least two programs.
REAL = {
    "ca_HepPh": 14_937,
    "email_Enron": 226_859,
    "wiki_Vote": 459_002,
    "soc_Epinions1": 1_775_065,
    "follow_flickr": 10_342_039,
    "Cornell5": 11_200_870,
    "blogcatalog": 116_299_960,
}
words = st.integers(0, 2**64 - 1).map(np.uint64)


def real(directory: Path, name: str) -> UndirectedCSR:
    with np.load(directory / f"uni_{name}.npz") as arrays:
        return UndirectedCSR.from_edges(arrays["src"], arrays["dst"])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("block_bytes", [1, 4096])
def test_every_pause_grow_and_share_path(threads: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arenas of one entry, blocks smaller than a clique, quanta of one child: the set stays the same."""
    monkeypatch.setattr("mbe_stage.search.cpu.quanta._FIRST_WORK_LIMIT", 1)
    monkeypatch.setattr("mbe_stage.search.cpu.pool._ALONE_SECONDS", 0.0)
    monkeypatch.setattr("mbe_stage.search.cpu.quanta._QUANTUM_SECONDS", 0.0)
    rng = np.random.default_rng(threads)
    several = [graphs.random_graph(rng, 30, 0.5), graphs.nearly_complete(rng, 90, 10, 12), graphs.complete(100)]
    several += [graphs.turan([2] * 5 + [1] * 70)[0], graphs.nearly_complete(rng, 75, 8, 0)]
    for graph in several:
        query = CliqueQuery(containing=(int(rng.integers(graph.n)),)) if graph.n == 75 else CliqueQuery()
        wanted = graphs.matching(graphs.of_networkx(graph), query)
        execution = Execution(threads=threads, block_bytes=block_bytes)
        sink, n_counted = CliqueTableSink(), 0
        for block in engine_cpu.run(graph, query, execution, Detail.MEMBERS, first_sizes=(1, 1, 1)):
            sink.accept(block)
        for block in engine_cpu.run(graph, query, execution, Detail.COUNT, first_sizes=(1, 1, 1)):
            n_counted += len(block)
        assert sink.table().as_set() == wanted
        assert n_counted == len(sink.table()) == len(wanted)


@pytest.mark.parametrize("n_dense", [70, 90, 140])
def test_nodes_of_many_candidates(n_dense: int) -> None:
    """With degeneracies above 64, nodes have several words per row."""
    rng = np.random.default_rng(n_dense)
    graph = graphs.nearly_complete(rng, n_dense, 14, 20)
    _, cores = degeneracy_order(graph)
    assert cores.max() >= 64
    wanted = graphs.of_networkx(graph)
    sink = CliqueTableSink()
    enumerate_cliques_into(sink, graph, engine="cpu")
    assert sink.table().as_set() == wanted
    assert len(sink.table()) == len(wanted)
    largest = max(map(len, wanted))
    asked = CliqueQuery(largest - 3, largest - 1)
    assert count_maximal_cliques(graph, min_size=largest - 3, max_size=largest - 1, engine="cpu") == len(
        graphs.matching(wanted, asked)
    )


@settings(max_examples=100, deadline=None)
@given(matrix=graphs.matrices(20))
def test_the_order_is_a_degeneracy_order(matrix: np.ndarray) -> None:
    graph = graphs.from_matrix(matrix)
    order, cores = degeneracy_order(graph)
    other = networkx.Graph()
    other.add_nodes_from(range(graph.n))
    other.add_edges_from(zip(*(side.tolist() for side in graph.edges()), strict=True))
    assert sorted(order.tolist()) == list(range(graph.n))
    assert dict(enumerate(cores.tolist())) == networkx.core_number(other)
    found = ordered(graph)
    for k, vertex in enumerate(found.vertices.tolist()):
        later = found.later[found.later_offsets[k] : found.later_offsets[k + 1]]
        earlier = found.earlier[found.earlier_offsets[k] : found.earlier_offsets[k + 1]]
        assert (later > k).all()
        assert (earlier < k).all()
        assert later.size <= found.cores[k] == cores[vertex]
        assert found.vertices[later].tolist() == sorted(found.vertices[later].tolist())
        assert sorted(found.vertices[np.concatenate([later, earlier])].tolist()) == graph.neighbours(vertex).tolist()
    assert (np.diff(found.cores) >= 0).all()


@njit
def within(subsets, fewest, most):
    return of_sizes(subsets, fewest, most)


@njit
def instructions(word, mask):
    return extract_bits(word, mask), deposit_bits(word, mask)


@settings(max_examples=200, deadline=None)
@given(word=words, mask=words)
def test_bits_gathered_and_spread(word: np.uint64, mask: np.uint64) -> None:
    places = [k for k in range(64) if int(mask) >> k & 1]
    gathered = sum((int(word) >> place & 1) << k for k, place in enumerate(places))
    spread = sum((int(word) >> k & 1) << place for k, place in enumerate(places))
    assert tuple(map(int, instructions(word, mask))) == (gathered, spread)
    assert (int(extracted(word, mask)), int(deposited(word, mask))) == (gathered, spread)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_maximal_subsets_by_their_definition(data: st.DataObject) -> None:
    """Six columns are candidates; some of the others, and further rows, are excluded vertices."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n = data.draw(st.integers(0, WIDTH))
    chosen = np.sort(rng.choice(64, n, replace=False)).tolist()
    adjacent = np.triu(rng.random((64, 64)) < 0.6, 1)
    adjacent |= adjacent.T
    rows = [sum(1 << k for k in np.flatnonzero(row).tolist()) for row in adjacent]
    excluded = [k for k in rng.integers(0, 64, 3).tolist() if k not in chosen]
    others = [int(word) for word in rng.integers(0, 2**64, 4, dtype=np.uint64)]
    required = 1 << 63
    found = maximal_subsets(
        np.uint64(sum(1 << k for k in chosen)),
        n,
        np.array(rows, np.uint64),
        np.uint64(sum(1 << k for k in set(excluded))),
        np.array(others, np.uint64),
        0,
        4,
        np.uint64(required),
    )
    joining = [rows[k] for k in (*excluded, *chosen)] + [row for row in others if row & required]
    wanted = 0
    for index in range(1 << n):
        members = [chosen[k] for k in range(n) if index >> k & 1]
        mask = sum(1 << k for k in members)
        is_clique = all(adjacent[a, b] for a in members for b in members if a != b)
        if is_clique and not any(row & mask == mask for row in joining):
            wanted |= 1 << index
    assert int(found) == wanted
    for fewest, most in ((0, 9), (2, 4), (-3, 1), (7, 9), (0, -1)):
        kept = sum(1 << s for s in range(1 << n) if wanted >> s & 1 and fewest <= s.bit_count() <= most)
        assert int(within(np.uint64(wanted), fewest, most)) == kept


def test_blocks_of_some_cliques() -> None:
    sizes, members = np.array([2, 5, 1, 1], np.int32), np.arange(9, dtype=np.int32)
    blocks = list(blocks_of(sizes, members, 16, 0.5))
    assert [(block.sizes.tolist(), block.members.tolist()) for block in blocks if block.sizes is not None] == [
        ([2], [0, 1]),
        ([5], [2, 3, 4, 5, 6]),
        ([1, 1], [7, 8]),
    ]
    assert [len(block) for block in blocks_of(sizes, None, 8, 0.5)] == [2, 2]
    assert [len(block) for block in blocks_of(sizes[:0], members[:0], 8, 0.5)] == [0]


def test_a_budget_that_is_too_small_is_refused() -> None:
    execution = Execution(threads=1, memory_budget_bytes=5_000)
    with pytest.raises(MemoryBudgetExceeded, match="the CPU engine needs"):
        enumerate_cliques_into(CliqueCountSink(), graphs.complete(80), execution=execution, engine="cpu")


@pytest.mark.parametrize("name", ["ca_HepPh", "email_Enron", "wiki_Vote"])
def test_real_graphs(name: str, data_dir: Path) -> None:
    graph = real(data_dir, name)
    assert count_maximal_cliques(graph, engine="cpu") == REAL[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REAL)[3:])
def test_large_real_graphs(name: str, data_dir: Path) -> None:
    graph = real(data_dir, name)
    assert count_maximal_cliques(graph, engine="cpu") == REAL[name]


@pytest.mark.slow
@pytest.mark.parametrize("without", [*TECHNIQUES, " ".join(TECHNIQUES)])
def test_every_technique_can_be_left_out(without: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tried = [graphs.nearly_complete(rng, 90, 12, 20), *(graphs.random_graph(rng, 40, p) for p in (0.1, 0.4, 0.7))]
    paths = [str(tmp_path / f"{k}.npz") for k in range(len(tried))]
    for path, graph in zip(paths, tried, strict=True):
        src, dst = graph.edges()
        np.savez(path, src=src, dst=dst, n=graph.n)
    code = (
        "import sys, numpy as np; from mbe_stage import UndirectedCSR, enumerate_maximal_cliques\n"
        "for path in sys.argv[1:]:\n"
        "    with np.load(path) as a: graph = UndirectedCSR.from_edges(a['src'], a['dst'], int(a['n']))\n"
        "    found = enumerate_maximal_cliques(graph, engine='cpu')\n"
        "    print([[int(v) for v in clique] for clique in sorted(found.as_set())])"
    )
    environment = {**os.environ, "MBE_CLIQUES_WITHOUT": without, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = completed([sys.executable, "-c", code, *paths], cwd=ROOT, env=environment, check=True)
    for graph, line in zip(tried, done.stdout.splitlines(), strict=True):
        found = {tuple(clique) for clique in json.loads(line)}
        assert found == set(maximal_cliques(graph))


def test_an_unknown_technique_is_refused() -> None:
    done = completed(
        [sys.executable, "-c", "import mbe_stage.cliques.engine_cpu"],
        cwd=ROOT,
        env={**os.environ, "MBE_CLIQUES_WITHOUT": "magic"},
    )
    assert done.returncode
    assert "MBE_CLIQUES_WITHOUT holds magic: expected some of order" in done.stderr
