"""networkx on this package's engines: its own tests without fallback, and what its functions promise."""

from __future__ import annotations

import random
import re
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from mbe_stage.pipeline.networkx_backend import interface
from mbe_stage.pipeline.networkx_backend.info import get_info
from mbe_stage.pipeline.networkx_backend.interface import MbeGraph
from mbe_stage.problem import problem_named
from tests.pipeline.networkx_backend_support import in_a_new_process

# Counts calls of the backend's function and prints the number at the end; networkx's own function fails the test.
COUNTING = """
from networkx.utils.backends import _registered_algorithms
from mbe_stage.pipeline.networkx_backend import interface

n_calls, ours = 0, interface.find_cliques

def counted(*arguments, **options):
    global n_calls
    n_calls += 1
    return ours(*arguments, **options, engine="cpu")

def never(*_, **__):
    raise AssertionError("networkx's own code ran")

interface.find_cliques = counted
interface.should_run = lambda *_: True
_registered_algorithms["find_cliques"].orig_func = never

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"backend called {n_calls} times")
"""


def found(graph: nx.Graph, **options: object) -> set[frozenset]:
    cliques = [frozenset(each) for each in interface.find_cliques(MbeGraph.of(graph), engine="reference", **options)]
    assert len(cliques) == len(set(cliques))
    return set(cliques)


def test_networkx_own_tests_of_cliques_pass_without_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    tests = Path(nx.__file__).parent / "algorithms" / "tests" / "test_clique.py"
    shown = in_a_new_process(
        tmp_path,
        *("-m", "pytest", "-q", "-rxX", "-p", "counting", "-p", "no:cacheprovider", str(tests), "-k", "find_cliques"),
        NETWORKX_BACKEND_PRIORITY_ALGOS="mbe",
        NETWORKX_FALLBACK_TO_NX="",
    )
    calls = re.search(r"backend called (\d+) times", shown)
    assert calls is not None, shown
    assert int(calls[1]) >= 5, shown
    assert re.search(r"^[1-9]\d* passed, \d+ deselected(, \d+ warnings?)? in", shown, re.MULTILINE), shown


def test_networkx_finds_the_backend_and_runs_it(tmp_path: Path) -> None:
    code = """
import networkx as nx
import numpy as np
graph = nx.MultiGraph([(1, 2), (1, 2), (2, 3), (3, 1), (3, 3), ("x", 3)])
graph.add_node("alone")
print(sorted(sorted(map(str, each)) for each in nx.find_cliques(graph, backend="mbe", engine="reference")))
try:
    nx.find_cliques(nx.DiGraph([(1, 2)]), backend="mbe")
except nx.NetworkXNotImplemented as error:
    print(error)
"""
    lines = in_a_new_process(tmp_path, "-c", code).splitlines()
    assert lines[0] == "[['1', '2', '3'], ['3', 'x'], ['alone']]"
    assert lines[1] == "not implemented for directed type"


@pytest.mark.parametrize("seed", range(30))
def test_cliques_are_those_of_networkx(seed: int) -> None:
    dice = random.Random(seed)
    graph = nx.gnp_random_graph(dice.randrange(0, 16), dice.choice([0.1, 0.5, 0.9]), seed=seed)
    graph = nx.relabel_nodes(graph, {node: (node, str(node)) for node in graph if node % 3})
    graph.add_edges_from((node, node) for node in list(graph)[::4])
    assert found(graph) == {frozenset(each) for each in nx.find_cliques(graph)}
    some = dice.sample(list(graph), min(2, len(graph)))
    if len(some) == 2 and graph.has_edge(*some):
        assert found(graph, nodes=some) == {frozenset(each) for each in nx.find_cliques(graph, nodes=some)}


def test_nodes_may_be_an_array() -> None:
    assert found(nx.path_graph(4), nodes=np.array([1, 2])) == {frozenset({1, 2})}


@pytest.mark.parametrize("nodes", [[0, 0], [0, 9], [0, 4]])
def test_nodes_that_are_no_clique(nodes: list[int]) -> None:
    with pytest.raises(ValueError, match="do not form a clique"):
        found(nx.path_graph(5), nodes=nodes)
    assert found(nx.path_graph(5), nodes=[2]) == {frozenset((1, 2)), frozenset((2, 3))}


def test_a_search_may_be_closed() -> None:
    cliques = interface.find_cliques(MbeGraph.of(nx.complete_graph(4)), engine="reference")
    assert sorted(next(cliques)) == [0, 1, 2, 3]
    cliques.close()


def test_directed_and_small_graphs_are_declined_with_a_reason() -> None:
    with pytest.raises(nx.NetworkXNotImplemented, match="undirected graphs only"):
        interface.convert_from_nx(nx.DiGraph([(1, 2)]))
    assert interface.can_run("find_cliques", (nx.DiGraph([(1, 2)]),), {}) == "the graph is directed"
    assert "fewer than" in str(interface.should_run("find_cliques", (nx.path_graph(3),), {}))
    assert interface.should_run("find_cliques", (nx.complete_graph(70),), {}) is True
    assert interface.can_run("find_cliques", (), {"G": nx.DiGraph([(1, 2)])}) == "the graph is directed"
    assert "fewer than" in str(interface.should_run("find_cliques", (), {"G": nx.path_graph(3), "nodes": None}))
    assert interface.should_run("find_cliques", (), {"G": nx.complete_graph(70)}) is True


def test_graphs_survive_a_round_trip() -> None:
    graph = nx.gnp_random_graph(9, 0.4, seed=1)
    graph.add_nodes_from(["alone", (1, 2)])
    back = interface.convert_to_nx(interface.convert_from_nx(graph))
    assert nx.utils.graphs_equal(back, graph)
    assert set(nx.isolates(back)) == {"alone", (1, 2)}
    assert set(get_info()["functions"]) <= set(interface.__all__)


@pytest.mark.parametrize(("function", "problem"), [("find_cliques", "cliques"), ("butterflies", "pq_counts")])
def test_networkx_knows_every_engine(function: str, problem: str) -> None:
    (words,) = get_info()["functions"][function]["additional_parameters"].values()
    assert set(re.findall(r"\w+", words)) - {"or"} == {"auto", *problem_named(problem).engines}
    assert all(f"``{name}``" in (getattr(interface, function).__doc__ or "") for name in problem_named(problem).engines)


@pytest.mark.parametrize("seed", range(8))
def test_butterflies_of_each_node(seed: int) -> None:
    graph = nx.disjoint_union(
        nx.bipartite.random_graph(5, 6, 0.6, seed=seed), nx.bipartite.random_graph(3, 3, 0.7, seed)
    )
    graph.add_node("alone")
    expected = dict.fromkeys(graph, 0)
    for four in combinations(graph, 4):
        part = graph.subgraph(four)
        if part.number_of_edges() == 4 and all(degree == 2 for _, degree in part.degree()):
            for node in four:
                expected[node] += 1
    mine = MbeGraph.of(graph)
    assert interface.butterflies(mine, engine="reference") == expected
    assert interface.butterflies(mine, [0, "nobody"], engine="reference") == {0: expected[0]}


@pytest.mark.skipif(
    not hasattr(nx.bipartite, "butterflies"), reason=f"networkx {nx.__version__} has no bipartite.butterflies; 3.7 has"
)
def test_networkx_runs_butterflies_on_the_backend(tmp_path: Path) -> None:
    code = """
import networkx as nx
import numpy as np
graph = nx.complete_bipartite_graph(2, 3)
print(sorted(nx.bipartite.butterflies(graph, backend="mbe", engine="cpu").items()))
"""
    assert in_a_new_process(tmp_path, "-c", code).strip() == "[(0, 3), (1, 3), (2, 2), (3, 2), (4, 2)]"


def test_butterflies_of_a_triangle_are_refused() -> None:
    with pytest.raises(nx.NetworkXError, match="not bipartite"):
        interface.butterflies(MbeGraph.of(nx.complete_graph(3)))
