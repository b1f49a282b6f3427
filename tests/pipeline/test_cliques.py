"""Runs of maximal cliques: tables against networkx and the specification, readers, projections, limits, refusals."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from typer.testing import CliRunner

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.errors import ConfigError, InputError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import config_fingerprint, file_entry, read_manifest
from mbe_stage.pipeline.verify import VerifyReport, verify_run

Clique = frozenset[Any]
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "f"), ("a", "b")]
CLIQUES = {frozenset("abc"), frozenset("cd"), frozenset("de"), frozenset("f")}


def settings(out: Path | str = "out", engine: str = "reference", **asked: Any) -> Config:
    others = {name: asked.pop(name) for name in ("execution", "output", "input") if name in asked}
    return Config.from_mapping(
        {
            "problem": "cliques",
            "execution": {"engine": engine, **others.get("execution", {})},
            "output": {"directory": str(out), **others.get("output", {})},
            "input": others.get("input", {}),
            "cliques": asked,
        }
    )


def columns(edges: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [u for u, _ in edges], [v for _, v in edges]


def published(out: Path, source: object, engine: str = "reference", **asked: Any) -> RunResult:
    return run(settings(out, engine, **asked), source)


def rows(result: RunResult, name: str) -> list[dict[str, Any]]:
    return pq.read_table(result.run_dir / name).to_pylist()


def cliques_of(result: RunResult) -> set[Clique]:
    keys = [row["key"] for row in rows(result, "vertices.parquet")]
    found = [frozenset(keys[vertex] for vertex in row["vertices"]) for row in rows(result, "cliques")]
    assert len(set(found)) == len(found)
    return set(found)


def checked(result: RunResult, source: object) -> VerifyReport:
    return verify_run(result.run_dir, ingest(reading_of(result.manifest.config), source))


def expected(graph: nx.Graph) -> set[Clique]:
    simple = nx.Graph(graph)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    return {frozenset(clique) for clique in nx.find_cliques(simple)}


def mbe(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app.app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def said(*arguments: object) -> dict[str, Any]:
    return json.loads(mbe(*arguments, "--json", "--quiet").stdout.splitlines()[-1])


def refusal(*arguments: object, code: int = 2) -> str:
    result = mbe(*arguments, "--quiet", code=code)
    assert "Traceback" not in result.output
    return result.stderr.splitlines()[-1]


@pytest.fixture
def edges_file(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst\n" + "".join(f"{u},{v}\n" for u, v in EDGES))
    return path


# --- tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_tables_are_what_networkx_finds(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    graph = nx.gnp_random_graph(dice.randrange(1, 22), dice.choice([0.1, 0.4, 0.8]), seed=seed)
    result = published(tmp_path, graph, output={"sort": bool(seed % 2)}, execution={"block_bytes": 1024})
    found = cliques_of(result)
    assert found == expected(graph)
    counts, vertices = result.manifest.counts, rows(result, "vertices.parquet")
    assert counts.cliques == len(found)
    assert counts.members == sum(map(len, found))
    assert counts.max_size == max(map(len, found))
    assert (counts.vertices, counts.edges) == (graph.number_of_nodes(), graph.number_of_edges())
    sizes = {row["size"]: row["n_cliques"] for row in rows(result, "size_histogram.parquet")}
    assert sizes == Counter(map(len, found))
    assert list(sizes) == sorted(sizes)
    cores, by_key = nx.core_number(graph), {row["clique_key"]: row["size"] for row in rows(result, "cliques")}
    assert counts.degeneracy == max(cores.values())
    for row in vertices:
        mine = [clique for clique in found if row["key"] in clique]
        assert (row["degree"], row["core_number"]) == (graph.degree(row["key"]), cores[row["key"]])
        assert (row["n_cliques"], row["largest_clique_size"]) == (len(mine), max(map(len, mine)))
        assert by_key[row["largest_clique_key"]] == row["largest_clique_size"]
    report = checked(result, graph)
    assert report.n_found == report.n_against_input == len(found)
    assert "nothing missing" in {check.name for check in report.checks}


@pytest.mark.parametrize(
    ("asked", "accepts"),
    [
        ({"min_size": 3}, lambda clique: len(clique) >= 3),
        ({"max_size": 2}, lambda clique: len(clique) <= 2),
        ({"containing": [3]}, lambda clique: 3 in clique),
        ({"containing": ["3", 5], "min_size": 2}, lambda clique: {3, 5} <= clique),
        ({"min_size": 40}, lambda _: False),
    ],
)
def test_queries_select_cliques(tmp_path: Path, asked: dict[str, Any], accepts: Any) -> None:
    graph = nx.gnp_random_graph(14, 0.5, seed=3)
    result = published(tmp_path, graph, **asked)
    assert cliques_of(result) == {clique for clique in expected(graph) if accepts(clique)}
    checked(result, graph)


def test_rows_are_counted_and_a_key_is_the_same_in_every_run(tmp_path: Path) -> None:
    result = published(tmp_path / "one", columns(EDGES))
    assert cliques_of(result) == CLIQUES
    facts = result.manifest.input
    assert (facts.rows_read, facts.duplicate_edges, facts.n_edges, facts.n_left) == (8, 1, 5, 6)
    assert facts.undirected is not None
    assert (facts.undirected.loops, facts.undirected.reversed_edges, facts.undirected.lone_vertices) == (1, 1, 1)
    turned = [(v, u) for u, v in reversed(EDGES[:-1])] + [("g", "a")]
    other = published(tmp_path / "other", columns(turned))
    keys = [{row["clique_key"] for row in rows(each, "cliques")} for each in (result, other)]
    assert len(keys[1] - keys[0]) == 1
    assert keys[0] < keys[1]
    same = published(tmp_path / "same", columns(turned[:-1]))
    assert same.manifest.input.fingerprint == facts.fingerprint
    assert same.manifest.content_fingerprint == result.manifest.content_fingerprint


def test_numbers_as_text_are_the_same_graph() -> None:
    config = settings()
    edges = [(5, 10), (10, 7), (7, 5), (9, 9)]
    found = [
        ingest(reading_of(config), columns([(kind(u), kind(v)) for u, v in edges])).facts.fingerprint
        for kind in (int, str)
    ]
    assert found[0] == found[1]


# --- readers ------------------------------------------------------------------------------------------------------


def test_every_reader_gives_the_same_graph(tmp_path: Path) -> None:
    graph = nx.gnp_random_graph(12, 0.5, seed=8)
    u, v = (np.array(side) for side in columns(list(graph.edges())))
    text = "".join(f"{a} {b}\n" for a, b in graph.edges())
    pq.write_table(pa.table({"src": u, "dst": v}), tmp_path / "edges.parquet")
    np.savez(tmp_path / "edges.npz", src=u, dst=v)
    (tmp_path / "edges.txt").write_text(f"# nodes\n{text}")
    (tmp_path / "out.konect").write_text(f"% sym unweighted\n{text}")
    (tmp_path / "edges.csv").write_text("src,dst\n" + text.replace(" ", ","))
    matrix = scipy.sparse.coo_array((np.ones(u.size), (u, v)), shape=(12, 12))
    paths = ("edges.parquet", "edges.npz", "edges.txt", "out.konect", "edges.csv")
    sources = [*(str(tmp_path / name) for name in paths), graph, nx.DiGraph(graph), (u, v), matrix]
    sources += [np.column_stack([v, u]), pa.table({"a": u, "b": v}).to_pandas()]
    fingerprints = {ingest(reading_of(settings()), source).facts.fingerprint for source in sources}
    assert len(fingerprints) == 1


def test_nodes_without_edges_are_cliques(tmp_path: Path) -> None:
    graph = nx.MultiDiGraph([(1, 2), (2, 1), (1, 2), (2, 3)])
    graph.add_nodes_from([4, 5])
    graph.add_edge(6, 6)
    result = published(tmp_path, graph)
    assert cliques_of(result) == {frozenset(each) for each in ((1, 2), (2, 3), (4,), (5,), (6,))}
    facts = result.manifest.input.undirected
    assert facts is not None
    assert (facts.loops, facts.reversed_edges, facts.lone_vertices) == (1, 1, 3)
    checked(result, graph)


class CugraphLike:
    """A stand-in on the host for the parts of a cuGraph graph that are used."""

    class _Host:
        def __init__(self, values: Any) -> None:
            self.values = values

        def to_arrow(self, **_: Any) -> Any:
            return self.values

    def view_edge_list(self) -> _Host:
        return self._Host(pa.table({"src": [1, 2], "dst": [2, 3], "weight": [0.5, 2.0]}))

    def nodes(self) -> _Host:
        return self._Host(pa.array([1, 2, 3, 7]))


def test_graphs_of_cugraph_with_their_isolated_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CugraphLike, "__module__", "cugraph.structure.graph_classes")
    facts = ingest(reading_of(settings(input={"weight": "weight"})), CugraphLike()).facts
    assert (facts.source, facts.n_left, facts.n_edges) == ("memory:cugraph", 4, 2)
    with pytest.raises(InputError, match="does not store the side of a vertex"):
        ingest(Config().input, CugraphLike())


FILTERS: list[dict[str, Any]] = [
    {"weight": "weight", "min_weight": 0.75},
    {"weight": "weight", "min_weight": 0.75, "nulls": "drop"},
    {"timestamp": "weight", "time_from": 0.75},
    {"timestamp": "weight", "time_until": 3, "weight": "weight", "min_weight": 0.75, "nulls": "drop"},
]


@pytest.mark.parametrize("section", FILTERS, ids=str)
def test_filters_of_edges_keep_isolated_nodes(section: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.Graph()
    graph.add_edge(1, 2, weight=1)
    graph.add_edge(2, 3, weight=0.25)
    graph.add_node(9)
    monkeypatch.setattr(CugraphLike, "__module__", "cugraph.structure.graph_classes")
    for source, keys in ((graph, [1, 2, 9]), (CugraphLike(), [2, 3, 7])):
        edges = ingest(reading_of(settings(input=section)), source)
        facts = edges.facts
        assert edges.left_keys.to_pylist() == keys
        assert (facts.n_edges, facts.undirected.lone_vertices) == (1, 1)
        assert facts.rows_dropped_weight + facts.rows_dropped_time == 1
    graph.remove_edges_from(list(graph.edges))
    assert ingest(reading_of(settings(input=section)), graph).left_keys.to_pylist() == [1, 2, 3, 9]


def test_an_edge_without_a_weight_is_refused_beside_an_isolated_node() -> None:
    graph = nx.Graph([(1, 2), (2, 3, {"weight": 1})])
    graph.add_node(9)
    asked = {"weight": "weight", "min_weight": 0.5}
    with pytest.raises(InputError, match=r"row 1, column 'weight': no value \(1 of 3 are null or empty\)"):
        ingest(reading_of(settings(input=asked)), graph)
    dropped = ingest(reading_of(settings(input={**asked, "nulls": "drop"})), graph).facts
    assert (dropped.n_left, dropped.n_edges, dropped.rows_dropped_null) == (3, 1, 1)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("edges.dat", "1 2 3\n2 3\n", "transactions of items, which are two kinds"),
        ("out.x", "% bip unweighted\n1 1\n", r"a bipartite graph \(bip\), whose two sides are counted separately"),
        ("m.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 3\n", "a matrix of shape 2 x 3"),
    ],
)
def test_two_kinds_of_vertices_are_no_undirected_graph(tmp_path: Path, name: str, content: str, what: str) -> None:
    (tmp_path / name).write_text(content)
    section = {"format": "fimi"} if name.endswith("dat") else {}
    with pytest.raises(InputError, match=f"{what}.*ask for a projection: cliques.project"):
        ingest(reading_of(settings(input=section)), str(tmp_path / name))
    ingest(reading_of(settings(input=section, project="left")), str(tmp_path / name))


@pytest.mark.parametrize(
    ("storage", "entries", "as_bipartite"),
    [
        ("coordinate pattern symmetric", "3 3 3\n2 1\n3 2\n3 3\n", 5),
        ("coordinate pattern symmetric", "3 3 3\n1 2\n2 3\n3 3\n", 5),
        ("coordinate real skew-symmetric", "3 3 2\n2 1 1\n3 2 2\n", 4),
        ("array integer symmetric", "3 3\n0\n1\n0\n0\n4\n7\n", 5),
    ],
)
def test_an_entry_of_symmetric_storage_is_one_row(
    tmp_path: Path, storage: str, entries: str, as_bipartite: int
) -> None:
    path = tmp_path / "m.mtx"
    path.write_text(f"%%MatrixMarket matrix {storage}\n{entries}")
    n_loops = 0 if "skew" in storage else 1
    facts = ingest(reading_of(settings()), str(path)).facts
    assert facts.undirected is not None
    assert (facts.rows_read, facts.undirected.loops, facts.undirected.reversed_edges) == (2 + n_loops, n_loops, 0)
    assert (facts.n_left, facts.n_edges, facts.duplicate_edges) == (3, 2, 0)
    both_ways = ingest(Config().input, str(path)).facts
    assert (both_ways.rows_read, both_ways.n_edges) == (as_bipartite, as_bipartite)


def test_a_general_matrix_has_a_row_for_each_entry(tmp_path: Path) -> None:
    path = tmp_path / "m.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n3 3 4\n1 2\n2 1\n2 3\n3 3\n")
    facts = ingest(reading_of(settings()), str(path)).facts
    assert facts.undirected is not None
    assert (facts.rows_read, facts.n_edges, facts.undirected.reversed_edges, facts.undirected.loops) == (4, 2, 1, 1)


def test_refusals_of_nodes_and_columns() -> None:
    with pytest.raises(InputError, match="nodes of type int, str; expected integers or strings, one of the two of the"):
        ingest(reading_of(settings()), nx.Graph([(1, "1")]))
    with pytest.raises(ConfigError, match=r"input\.right has several columns.*an undirected graph has one kind"):
        reading_of(settings(input={"right": [1, 2]}))
    with pytest.raises(ConfigError, match=r"input\.time_bucket is '7d'"):
        reading_of(settings(input={"time_bucket": "7d", "timestamp": 2}))
    with pytest.raises(
        InputError, match=r"no vertex 'zoe' \(cliques\.containing\); expected one of the 6 keys, such as 'a'"
    ):
        count(settings(containing=["zoe"]), columns(EDGES))


def test_mixed_columns_are_text(tmp_path: Path) -> None:
    table = pa.table({"src": [1, 2, 3], "dst": ["2", "3", "x"]})
    result = published(tmp_path, table)
    assert cliques_of(result) == {frozenset(each) for each in (("1", "2"), ("2", "3"), ("3", "x"))}


# --- projections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("min_shared", [1, 2, 3])
def test_a_projection_joins_vertices_that_share_enough(tmp_path: Path, side: str, min_shared: int) -> None:
    dice = random.Random(min_shared)
    pairs = sorted({(f"u{dice.randrange(9)}", dice.randrange(7)) for _ in range(32)})
    place = 0 if side == "left" else 1
    neighbours: dict[Any, set[Any]] = {}
    for pair in pairs:
        neighbours.setdefault(pair[place], set()).add(pair[1 - place])
    graph = nx.Graph()
    graph.add_nodes_from(neighbours)
    graph.add_edges_from(
        (a, b) for a in neighbours for b in neighbours if a != b and len(neighbours[a] & neighbours[b]) >= min_shared
    )
    result = published(tmp_path, columns(pairs), project=side, min_shared=min_shared)
    assert cliques_of(result) == expected(graph)
    counts = result.manifest.counts
    assert (counts.vertices, counts.edges) == (graph.number_of_nodes(), graph.number_of_edges())
    assert result.manifest.input.undirected is None
    report = checked(result, columns(pairs))
    assert "nothing missing" in {check.name for check in report.checks}


def test_a_projection_that_does_not_fit_is_refused_with_its_bytes(tmp_path: Path) -> None:
    star = columns([(u, 0) for u in range(700)])
    with pytest.raises(MemoryBudgetExceeded, match=r"at least \d+,\d+ edges between 700 vertices and"):
        published(tmp_path, star, project="left", execution={"memory_budget": 1 << 20})
    assert not list((tmp_path / "runs").glob("*"))


def test_a_run_says_how_large_the_graph_is_that_was_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "visits.csv", tmp_path / "out"
    path.write_text("a,x\na,y\nb,x\nb,y\nc,y\nc,z\n")
    command = ("cliques", path, "--project", "left", "--min-shared", 2, "--engine", "reference", "--no-header")
    searched = {"n_vertices": 3, "n_edges": 1, "made_of_input": "left projection"}
    headline = "2 maximal cliques in 3 vertices, 1 edge, the left projection of 3 left x 3 right, 6 edges\n"
    for published_to in (("--count-only",), ("--out", out)):
        assert mbe(*command, *published_to).stdout.startswith(headline)
        facts = said(*command, *published_to)
        assert facts["graph"] == searched
        assert (facts["input"]["n_left"], facts["input"]["n_right"], facts["input"]["n_edges"]) == (3, 3, 6)
    page = (out / "latest" / "report.html").read_text()
    assert "<dt>vertices</dt><dd>3</dd>" in page
    assert "3 left x 3 right, 6 edges" in page
    assert json.loads(mbe("runs", out, "--json").stdout)["runs"][0]["graph"] == searched
    monkeypatch.setenv("COLUMNS", "400")
    row = next(line for line in mbe("runs", out).stdout.splitlines() if "project=left" in line)
    assert [cell.strip() for cell in row.split("│")][5:7] == ["1", "2"]
    inspected = ("inspect", path, "--problem", "cliques", "--set", "cliques.project=left", "--engine", "reference")
    assert "3 vertices, 3 edges, the left projection of 3 left x 3 right, 6 edges" in mbe(*inspected).stdout


def test_a_graph_that_is_searched_as_it_was_read_says_its_vertices_once(edges_file: Path) -> None:
    searched = {"n_vertices": 6, "n_edges": 5, "made_of_input": None}
    assert said("cliques", edges_file, "--count-only", "--engine", "reference")["graph"] == searched
    of_bicliques = said("enumerate", edges_file, "--count-only", "--engine", "reference")
    n_vertices = of_bicliques["input"]["n_left"] + of_bicliques["input"]["n_right"]
    assert of_bicliques["graph"] == {**searched, "n_vertices": n_vertices, "n_edges": of_bicliques["input"]["n_edges"]}


# --- the command --------------------------------------------------------------------------------------------------


def test_all_commands_read_the_published_run(edges_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = said("cliques", edges_file, "--out", out, "--engine", "reference")
    assert (first["problem"], first["cliques"], first["input"]["undirected"]["loops"]) == ("cliques", 4, 1)
    assert said("verify", out)["cliques"] == 4
    assert json.loads(mbe("runs", out, "--json").stdout)["runs"][0]["cliques"] == 4
    shown = mbe("cliques", edges_file, "--out", out, "--engine", "reference").stdout
    assert "4 maximal cliques in 6 vertices, 5 edges" in shown
    assert "8 rows: 1 duplicate, 1 loop, 1 reversed" in shown
    counted = said("cliques", edges_file, "--count-only", "--min-size", 3, "--engine", "reference")
    assert counted["cliques"] == 1
    assert all(seconds == round(seconds, 6) for seconds in counted["seconds"].values())
    assert refusal("cliques", edges_file, "--min-size", 0).endswith("--min-size is '0': expected 1 or more")
    page = (Path(first["run"]) / "report.html").read_text()
    assert "clique number" in page
    assert "<bdi>a</bdi>" in page
    assert "left vertices" not in page
    looked = said("inspect", edges_file, "--problem", "cliques", "--engine", "reference")
    assert (looked["left"]["n"], looked["right"], looked["trial"]["n_found"]) == (6, None, 4)
    assert "6 vertices, 5 edges" in mbe("inspect", edges_file, "--problem", "cliques", "--engine", "reference").stdout


def test_limits_and_refusals(edges_file: Path, tmp_path: Path) -> None:
    limited = said("cliques", edges_file, "--out", tmp_path / "out", "--max-cliques", 2, "--engine", "reference")
    assert (limited["cliques"], limited["truncated"]) == (2, "stopped at max_cliques = 2")
    verified = said("verify", tmp_path / "out")
    assert any("nothing missing: the run is incomplete" in text for text in verified["not_checked"])
    assert "--max-size is 2, below --min-size = 3: no clique" in refusal(
        "cliques", edges_file, "--min-size", 3, "--max-size", 2
    )
    assert "--min-shared is about a projection: set --project" in refusal("cliques", edges_file, "--min-shared", 2)
    assert "--max-bicliques: is for the problem bicliques" in refusal("cliques", edges_file, "--max-bicliques", 2)
    with pytest.raises(ConfigError, match=r"execution\.max_cliques: is for the problem cliques, but problem is 'bicl"):
        Config.from_mapping({"execution": {"max_cliques": 2}})


def test_a_limit_is_part_of_the_query() -> None:
    assert config_fingerprint(settings()) != config_fingerprint(settings(execution={"max_cliques": 5}))


def test_the_largest_and_those_of_a_vertex(edges_file: Path, tmp_path: Path) -> None:
    mbe("cliques", edges_file, "--out", tmp_path, "--engine", "reference", "--quiet")
    found = json.loads(mbe("top", tmp_path, "--json").stdout)["cliques"]
    assert [row["size"] for row in found] == [3, 2, 2, 1]
    assert found[0]["vertices"] == ["a", "b", "c"]
    assert [row["clique_key"] for row in found[1:3]] == sorted(row["clique_key"] for row in found[1:3])
    of_d = json.loads(mbe("top", tmp_path, "--vertex", "d", "--limit", 1, "--json").stdout)["cliques"]
    assert of_d == [next(row for row in found if "d" in row["vertices"])]
    assert "a, b, c" in mbe("top", tmp_path).stdout
    assert "no vertex 'zoe'" in mbe("top", tmp_path, "--vertex", "zoe", code=2).stderr
    assert "--min-left: only applies to bicliques, but" in mbe("top", tmp_path, "--min-left", 2, code=2).stderr


def test_two_runs_are_compared_by_their_keys(tmp_path: Path) -> None:
    old = published(tmp_path / "old", columns(EDGES))
    new = published(tmp_path / "new", columns([*EDGES, ("b", "d"), ("g", "a")]))
    assert cliques_of(new) - CLIQUES == {frozenset("bcd"), frozenset("ag")}
    arguments = ("diff", old.run_dir, new.run_dir, "--json", "--quiet", "--out", tmp_path / "diff", "--exit-code")
    found = json.loads(mbe(*arguments, code=1).stdout)
    assert found["counts"] == {"gone": 1, "new": 2, "same": 3}
    assert [row["vertices"] for row in found["new_ones"]] == [["b", "c", "d"], ["a", "g"]]
    written = pq.read_table(tmp_path / "diff" / "differences.parquet").to_pylist()
    assert sorted((row["status"], *row["vertices"]) for row in written) == [
        ("gone", "c", "d"), ("new", "a", "g"), ("new", "b", "c", "d"),
    ]  # fmt: skip
    said_of_same = mbe("diff", old.run_dir, old.run_dir, "--exit-code").stdout
    assert "both runs read the same edges" in said_of_same
    assert "different  nothing" in said_of_same
    others = run(
        Config.from_mapping({"output": {"directory": str(tmp_path / "b")}, "execution": {"engine": "reference"}}),
        ([1], [2]),
    )
    assert "of the problems cliques and bicliques" in mbe("diff", old.run_dir, others.run_dir, code=3).stderr


# --- verification -------------------------------------------------------------------------------------------------


def rewritten(run_dir: Path, name: str, change: Any) -> None:
    """Change a table and make the manifest agree."""
    path = run_dir / name
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    values = json.loads((run_dir / "manifest.json").read_text())
    entry = file_entry(run_dir, path)
    values["files"] = [entry.model_dump() if each["path"] == entry.path else each for each in values["files"]]
    (run_dir / "manifest.json").write_text(json.dumps(values))


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def changed(name: str, row: int, value: Any) -> Any:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        return with_column(table, name, values)

    return change


@pytest.mark.parametrize(
    ("table", "change", "what"),
    [
        ("cliques/part-00000.parquet", lambda table: table.slice(1), "size_histogram|counts.cliques"),
        ("cliques/part-00000.parquet", changed("size", 0, 7), "size is 7; its list says"),
        ("cliques/part-00000.parquet", changed("clique_key", 1, 7), "the key of its members is"),
        ("cliques/part-00000.parquet", changed("vertices", 0, [0, 5]), "size is|the key of its members is"),
        ("cliques/part-00000.parquet", lambda table: pa.concat_tables([table, table.slice(0, 1)]), "more than once"),
        ("vertices.parquet", changed("degree", 2, 9), "degree is 9; recomputed 3"),
        ("vertices.parquet", changed("core_number", 0, 9), "core_number is 9; recomputed 2"),
        ("vertices.parquet", changed("n_cliques", 0, 9), "n_cliques is 9; recomputed 1"),
        ("vertices.parquet", changed("key", 0, "A"), "its keys are not those of"),
        ("size_histogram.parquet", changed("n_cliques", 1, 3), "its sizes are not those of the rows"),
    ],
)
def test_wrong_tables_are_found(tmp_path: Path, table: str, change: Any, what: str) -> None:
    result = published(tmp_path, columns(EDGES))
    checked(result, columns(EDGES))
    rewritten(result.run_dir, table, change)
    with pytest.raises(VerificationError, match=what):
        checked(result, columns(EDGES))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ([("b", "d")], "is not maximal|no clique|missing"),
        ([("c", "d")], "is not a clique: no edge between"),
    ],
)
def test_cliques_of_another_graph_are_found(
    tmp_path: Path, other: list[tuple[str, str]], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the fingerprint is bypassed, so these edges count as the run's."""
    edges = set(EDGES) ^ set(other)
    edges |= {("d", "d")}
    result = published(tmp_path, columns(EDGES))
    changed_edges = ingest(reading_of(result.manifest.config), columns(sorted(edges)))
    monkeypatch.setattr("mbe_stage.pipeline.verify.job.edge_fingerprint", lambda *_: result.manifest.input.fingerprint)
    with pytest.raises(VerificationError, match=what):
        verify_run(result.run_dir, changed_edges)


def test_a_missing_clique_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full search may take too long; then each vertex and each edge is grown to a clique."""
    graph = nx.gnp_random_graph(12, 0.5, seed=2)
    monkeypatch.setattr("mbe_stage.pipeline.verify.cliques._MOST_NODES", 3)
    whole = published(tmp_path / "whole", graph)
    report = checked(whole, graph)
    assert any("takes too long" in text for text in report.not_checked)
    short = published(tmp_path / "short", graph, execution={"max_cliques": 5})
    values = json.loads((short.run_dir / "manifest.json").read_text())
    values["truncated"], values["config"]["execution"]["max_cliques"] = None, None
    values["config_fingerprint"] = whole.manifest.config_fingerprint
    (short.run_dir / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(VerificationError, match="a clique is missing"):
        verify_run(short.run_dir, ingest(reading_of(read_manifest(short.run_dir).config), graph))


def test_without_the_input_tables_are_checked_against_each_other(tmp_path: Path) -> None:
    result = published(tmp_path, columns(EDGES))
    report = verify_run(result.run_dir)
    assert report.n_against_input == 0
    assert any("the input is not given" in text for text in report.not_checked)
