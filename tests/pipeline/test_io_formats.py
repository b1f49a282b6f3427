"""Every format, every compression and every object in memory gives the same graph."""

from __future__ import annotations

import gzip
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet as pq

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.edges import EdgeData, InputColumn
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io.detect import detect_format
from tests.pipeline.input_support import COMPRESSIONS, FORMATS, LEFT, RIGHT, tar, to_konect, to_parquet, to_text


def read(path: Path, **settings: object) -> EdgeData:
    return ingest(InputConfig(path=str(path), **settings))


def pairs(edges: EdgeData) -> list[tuple[object, object]]:
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    return [(left[u], right[v]) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)]


EXPECTED = sorted(zip(LEFT.tolist(), RIGHT.tolist(), strict=True))
REFERENCE = ingest(InputConfig(), source=(LEFT, RIGHT))


def check_same(edges: EdgeData) -> None:
    assert pairs(edges) == EXPECTED
    assert edges.facts.fingerprint == REFERENCE.facts.fingerprint
    assert edges.left_keys.equals(REFERENCE.left_keys)
    assert edges.right_keys.equals(REFERENCE.right_keys)


@pytest.mark.parametrize("case", FORMATS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_format_in_every_compression(tmp_path: Path, case: str, compression: str) -> None:
    name, format_name, write = FORMATS[case]
    path = tmp_path / (name + compression)
    path.write_bytes(COMPRESSIONS[compression](write(LEFT, RIGHT)))
    edges = read(path)
    check_same(edges)
    assert edges.facts.format == format_name
    assert edges.facts.source == str(path)
    assert edges.facts.rows_read == len(LEFT)
    check_same(read(path, format=format_name))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_konect_inside_its_archive(tmp_path: Path, compression: str) -> None:
    members = {"g/README.g": b"a graph", "g/meta.g": b"name: g", "g/out.g": to_konect(LEFT, RIGHT)}
    path = tmp_path / f"download.tar{compression}"
    path.write_bytes(COMPRESSIONS[compression](tar(members)))
    check_same(read(path))


def test_konect_directory_and_unipartite_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "out.g").write_bytes(to_konect(LEFT, RIGHT).replace(b"bip", b"sym"))
    (tmp_path / "README.g").write_text("a graph")
    check_same(read(tmp_path))
    assert "one kind of vertex (sym)" in caplog.text


def test_compression_is_detected_by_bytes_not_by_name(tmp_path: Path) -> None:
    plain_named_gz, gz_named_plain = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    plain_named_gz.write_bytes(to_text(LEFT, RIGHT))
    gz_named_plain.write_bytes(gzip.compress(to_text(LEFT, RIGHT)))
    check_same(read(plain_named_gz))
    check_same(read(gz_named_plain))


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_several_members_in_one_compressed_file(tmp_path: Path, compression: str) -> None:
    path = tmp_path / f"edges.csv{compression}"
    halves = (to_text(LEFT[:3], RIGHT[:3]), to_text(LEFT[3:], RIGHT[3:]))
    path.write_bytes(b"".join(COMPRESSIONS[compression](half) for half in halves))
    check_same(read(path))


def test_parquet_directory_with_nested_and_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.parquet").write_bytes(to_parquet(LEFT[:3], RIGHT[:3]))
    (tmp_path / "sub" / "b.parquet").write_bytes(to_parquet(LEFT[3:].astype(np.int32), RIGHT[3:]))
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_temporary.parquet").write_bytes(b"not data")
    (tmp_path / "README.md").write_text("notes")
    check_same(read(tmp_path))


def test_parquet_hive_partitions_are_columns(tmp_path: Path) -> None:
    for left in np.unique(LEFT):
        folder = tmp_path / f"user={left}"
        folder.mkdir()
        pq.write_table(pa.table({"item": RIGHT[left == LEFT]}), folder / "part.parquet")
    check_same(read(tmp_path, left="user", right="item"))
    check_same(read(tmp_path, left=1, right=0))


def test_parquet_columns_by_name_and_position(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"when": [0.5] * 7, "b.c": RIGHT, "a": LEFT}), path)
    check_same(read(path, left="a", right="b.c"))
    check_same(read(path, left=2, right=1))
    check_same(read(path, left="2", right="1"))


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("e.csv", "x,1,9\nx,1,10\n", {"left": 1, "right": 2}),
        ("e.csv", "w,user,item\nx,1,9\nx,1,10\n", {"left": "user", "right": "item"}),
        ("e.csv", "user|item\n1|9\n1|10\n", {}),
        ("e.csv", "user|item\n1|9\n1|10\n", {"delimiter": "|", "header": True}),
        ("e.csv", "1;9\n1;10\n", {"header": False}),
        ("e.txt", "1,9\n1,10\n", {}),
        ("e.txt", "user item\n1 9\n1 10\n", {}),
        ("e.tsv", "1\t9\n1\t10\n", {"delimiter": "\\t"}),
        ("e.csv", "\ufeffuser,item\r\n1,9\r\n\r\n1,10\r\n", {"left": "user", "right": "item"}),
        ("e.csv", '"user","i,tem"\n"1","9"\n"1",10\n', {"right": "i,tem"}),
        ("e.csv", 'user,note,item\n1,"a\nb ""c""",9\n1,,10\n', {"right": 2}),
        ("e.csv", "user,user,item\n1,9,9\n1,10,10\n", {}),
        ("e.csv", "\n\nuser,item\n1,9\n1,10", {}),
        ("e.txt", "  1 \t 9 \n\n \t\n1   10", {}),
        ("e.txt", "# c\n1 9 3\r\n  # in between\r\n1 10 4\r\n", {}),
        ("out.g", "% bip\n9 1 0.5 17\n10 1 2 18\n", {"left": 1, "right": 0}),
        ("e.mtx", "%%MatrixMarket matrix coordinate real general\n% c\n1 10 3\n1 9 0.5\n1 10 2\n1 1 0\n", {}),
        ("e.mtx", "%%MatrixMarket matrix array integer general\n1 10\n" + "0\n" * 8 + "1\n1\n", {}),
        ("e.fimi", "9 10\n\n", {"format": "fimi"}),
        ("e.dat", "9   10 9 10 9\n\n", {"format": "fimi"}),
    ],
)
def test_ways_to_write_two_edges(tmp_path: Path, name: str, text: str, settings: dict[str, object]) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    edges = read(path, **settings)
    assert pairs(edges) == [(1, 9), (1, 10)]
    assert edges.left_keys.type == pa.int64()


@pytest.mark.parametrize(
    ("text", "settings", "n_edges"),
    [
        ("alice,x\n7up,x\n", {}, 2),
        ("alice,3com\n7up,x\n", {}, 2),
        ("alice,x\nalice,y\n", {}, 2),
        ("who,what\na,1\nb,2\n", {}, 2),
        ("who,what\n,1\nb,\nc,3\n", {"nulls": "drop"}, 1),
        ("user_id,productName\na,b\n", {}, 1),
        ("who,what,when\na,b,2024-01-01\n", {"timestamp": 2}, 1),
        ("alice,x\nbob,y\n", {"header": False}, 2),
        ("alice,x\nbob,y\n", {"header": True}, 1),
        ("0,1\n1,2\n", {"left": "0", "right": "1"}, 2),
        ("0,1\n1,2\n", {"header": True}, 1),
        ('"a\nb",item\n1,2\n', {"header": True}, 1),
        ("acct,shop,amount\nA1,S1,10\nA2,S2,20\n", {}, 2),
        ("acct,shop,amount\nA1,S1,10\nA2,S2,20\n", {"left": 1, "right": 0}, 2),
        ("day,acct,shop\n2024-01-01,A1,S1\n", {"left": 1, "right": 2}, 1),
        ("acct,shop,date\nA1,S1,May\n", {}, 1),
        ("alice,apples,3\nbob,pears,4\n", {}, 2),
        ("alice,apples,red\nbob,pears,green\ncarol,plums,red\n", {}, 3),
        ("alice,x,amount\nalice,y,5\n", {}, 2),
        ("user,x,7\nalice,y,5\n", {}, 1),
    ],
)
def test_headers(tmp_path: Path, text: str, settings: dict[str, object], n_edges: int) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    assert read(path, **settings).facts.n_edges == n_edges


@pytest.mark.parametrize(
    "text",
    [
        "acct,shop\nA1,S1\n",
        "acct,shop,remark\nA1,S1,good\n",
        "acct,shop,amount,2024\nA1,S1,10,5\n",
        "alice,apples,NA\nbob,pears,5\n",
        "alice,apples,\nbob,pears,5\n",
    ],
)
def test_an_unclear_header_is_asked_for(tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="which may be a header or an edge"):
        read(path)


def test_fimi_keys_are_line_numbers_also_beyond_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "e.fimi"
    path.write_text("\n7 8\n\n\n8\n")
    assert pairs(read(path)) == [(2, 7), (2, 8), (5, 8)]
    path.write_text("\nmilk bread\n\n\nbread\n")
    edges = read(path, key_type="string")
    assert pairs(edges) == [("2", "bread"), ("2", "milk"), ("5", "bread")]


def test_fimi_line_numbers_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.io.text.whitespace._BLOCK_BYTES", 7)
    path = tmp_path / "e.fimi"
    path.write_text("".join(f"{line}   {line + 1}\n\n" for line in range(1, 200)))
    expected = [(2 * line - 1, item) for line in range(1, 200) for item in (line, line + 1)]
    assert pairs(read(path, format="fimi")) == expected


def test_whitespace_text_in_many_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.io.text.whitespace._BLOCK_BYTES", 64)
    path = tmp_path / "e.txt"
    lines = [f"  {u}\t {u % 7}  \r\n" + ("# comment\n" if u % 3 else "\n") for u in range(500)]
    path.write_text("# begin\n" * 30 + "".join(lines), newline="")
    assert pairs(read(path)) == [(u, u % 7) for u in range(500)]


@pytest.mark.parametrize(
    ("source", "settings", "kind"),
    [
        (pa.table({"a": LEFT, "b": RIGHT}), {}, "pyarrow"),
        (pa.table({"x": ["n"] * 7, "a": LEFT, "b": RIGHT}), {"left": "a", "right": 2}, "pyarrow"),
        (pa.record_batch({"a": LEFT, "b": RIGHT}), {}, "pyarrow"),
        (pa.table({"a": LEFT, "b": RIGHT}).to_reader(2), {}, "pyarrow"),
        (pd.DataFrame({"a": LEFT, "b": RIGHT}, index=RIGHT), {}, "pandas"),
        (pd.DataFrame({"a": LEFT, "b": pd.Categorical(RIGHT)}), {}, "pandas"),
        (pd.DataFrame({"a": LEFT.astype(float), "b": pd.array(RIGHT, dtype="Int16")}), {}, "pandas"),
        (pl.DataFrame({"a": LEFT, "b": RIGHT}), {}, "polars"),
        ((LEFT, RIGHT), {}, "numpy"),
        ((LEFT.astype(np.uint64), RIGHT.astype(np.int8)), {}, "numpy"),
        ((RIGHT.tolist(), LEFT[::1].tolist()), {"left": 1, "right": 0}, "numpy"),
        (np.column_stack([LEFT, RIGHT]), {}, "numpy"),
        (scipy.sparse.coo_array((np.ones(7), (LEFT, RIGHT))), {}, "scipy"),
        (scipy.sparse.csc_matrix((np.ones(7, bool), (LEFT, RIGHT))), {}, "scipy"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_objects_in_memory(source: object, settings: dict[str, object], kind: str) -> None:
    edges = ingest(InputConfig(**settings), source=source)
    check_same(edges)
    assert (edges.facts.source, edges.facts.format) == (f"memory:{kind}", "memory")


_NAMED = {"parquet": ("user", "item"), "csv_header": ("user", "item"), "npz": ("u", "v")}


@pytest.mark.parametrize("case", FORMATS)
def test_columns_are_recorded(tmp_path: Path, case: str) -> None:
    """Columns by position, and by name if the file has names; names supplied by the format do not count."""
    name, _, write = FORMATS[case]
    (tmp_path / name).write_bytes(write(LEFT, RIGHT))
    left, right = _NAMED.get(case, (None, None))
    meant = (InputColumn("left", 0, left), InputColumn("right", 1, right))
    assert read(tmp_path / name).facts.columns == meant
    swapped = read(tmp_path / name, left=right or 1, right=left or "0").facts.columns
    assert swapped == (InputColumn("left", 1, right), InputColumn("right", 0, left))


def test_columns_of_weights_and_times_are_recorded() -> None:
    table = pa.table({"w": [0.5] * 7, "a": LEFT, "b": RIGHT, "c": RIGHT, "t": [7] * 7})
    settings = InputConfig(left="a", right=["c", 2], weight=0, timestamp="t")
    assert ingest(settings, source=table).facts.columns == (
        InputColumn("left", 1, "a"),
        InputColumn("right", 3, "c"),
        InputColumn("right", 2, "b"),
        InputColumn("weight", 0, "w"),
        InputColumn("timestamp", 4, "t"),
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (pd.DataFrame({"a": LEFT, "b": RIGHT}), ("a", "b")),
        (pl.DataFrame({"a": LEFT, "b": RIGHT}), ("a", "b")),
        ((LEFT, RIGHT), (None, None)),
        (scipy.sparse.coo_array((np.ones(7), (LEFT, RIGHT))), (None, None)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_columns_of_objects_in_memory(source: object, names: tuple[str | None, str | None]) -> None:
    left, right = names
    assert ingest(InputConfig(), source).facts.columns == (InputColumn("left", 0, left), InputColumn("right", 1, right))


def test_explicit_zeros_of_a_matrix_are_no_edges() -> None:
    matrix = scipy.sparse.coo_array((np.array([1.0, 0.0, 2.0]), ([0, 0, 1], [0, 1, 1])))
    edges = ingest(InputConfig(), source=matrix)
    assert pairs(edges) == [(0, 0), (1, 1)]
    assert edges.facts.rows_read == 2
    assert pairs(ingest(InputConfig(weight="weight", min_weight=1.5), source=matrix)) == [(1, 1)]


def as_igraph(graph: nx.Graph) -> Any:
    igraph = pytest.importorskip("igraph")
    ids = {node: i for i, node in enumerate(graph)}
    made = igraph.Graph(len(ids), [(ids[u], ids[v]) for u, v in graph.edges()], directed=graph.is_directed())
    made.vs["name"] = list(graph)
    if sides := nx.get_node_attributes(graph, "bipartite"):
        made.vs["type"] = [sides.get(node) for node in graph]
    for name in {name for *_, data in graph.edges(data=True) for name in data}:
        made.es[name] = [data.get(name) for *_, data in graph.edges(data=True)]
    return made


OF_EITHER = pytest.mark.parametrize("made", [lambda graph: graph, as_igraph], ids=["networkx", "igraph"])


@OF_EITHER
def test_graph_sides_by_attribute(made: Callable[[nx.Graph], Any]) -> None:
    graph = nx.davis_southern_women_graph()
    edges = ingest(InputConfig(), source=made(graph))
    assert (edges.facts.n_left, edges.facts.n_right, edges.facts.n_edges) == (18, 14, 89)
    assert set(edges.left_keys.to_pylist()) == set(graph.graph["top"])
    expected = {(u, v) if graph.nodes[u]["bipartite"] == 0 else (v, u) for u, v in graph.edges}
    assert set(pairs(edges)) == expected


def test_subclasses_of_networkx_graphs() -> None:
    class OfAUser(nx.Graph):
        pass

    edges = ingest(InputConfig(), source=OfAUser(nx.davis_southern_women_graph()))
    assert edges.facts.n_edges == 89


@OF_EITHER
def test_graph_sides_by_the_only_colouring(made: Callable[[nx.Graph], Any]) -> None:
    graph = nx.Graph([("b", 1), (1, "a"), ("a", 2)])
    graph.add_node("alone")
    assert pairs(ingest(InputConfig(), source=made(graph))) == [("a", 1), ("a", 2), ("b", 1)]
    directed = nx.MultiDiGraph([(1, "b"), ("a", 1), ("a", 1), ("a", 2)])
    edges = ingest(InputConfig(), source=made(directed))
    assert pairs(edges) == [(1, "a"), (1, "b"), (2, "a")]
    assert edges.facts.duplicate_edges == 1


@OF_EITHER
def test_graph_weights_and_times(made: Callable[[nx.Graph], Any]) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"], bipartite=0)
    graph.add_nodes_from([1, 2], bipartite=1)
    graph.add_edge("a", 1, weight=2.0, when=5)
    graph.add_edge(2, "a", weight=1.0, when=6)
    graph.add_edge("b", 2, weight=3.0, when=7)
    config = InputConfig(weight="weight", min_weight=1.5, timestamp="when", time_until=7)
    assert pairs(ingest(config, source=made(graph))) == [("a", 1)]


def test_igraph_without_names_and_sides() -> None:
    igraph = pytest.importorskip("igraph")
    assert pairs(ingest(InputConfig(), source=igraph.Graph.Full_Bipartite(2, 2))) == [(0, 2), (0, 3), (1, 2), (1, 3)]
    undirected = InputConfig().of_one_set()
    edges = ingest(undirected, source=igraph.Graph(4, [(0, 1), (1, 2), (2, 0)]))
    assert (edges.facts.n_left, edges.facts.n_edges) == (4, 3)


def test_repeated_names_of_igraph_are_refused() -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(3, [(0, 1), (1, 2)])
    graph.vs["name"] = ["a", "b", "a"]
    with pytest.raises(InputError, match=r"memory:igraph.*2 vertices named 'a'"):
        ingest(InputConfig(), source=graph)


@OF_EITHER
@pytest.mark.parametrize(
    ("edges", "sides", "message"),
    [
        ([(1, 2), (3, 4)], {}, "several components"),
        ([(1, 2), (2, 3), (3, 1)], {}, "odd cycle"),
        ([(1, 2), (2, 3)], {1: 0, 2: 1}, "no attribute SIDE on node 3"),
        ([(1, 2)], {1: 0, 2: 2}, "SIDE=2 on node 2"),
        ([(1, 2)], {1: 0, 2: 0}, "joins two nodes of side 0"),
        ([(1, 2), (1, "a")], {}, "nodes of type int, str"),
        ([(1, (2, 3))], {}, "nodes of type tuple"),
        ([], {}, "both sides are empty"),
    ],
)
def test_graph_refusals(
    edges: list[tuple[object, object]], sides: dict[object, int], message: str, made: Callable[[nx.Graph], Any]
) -> None:
    graph = nx.Graph(edges)
    nx.set_node_attributes(graph, sides, "bipartite")
    given = made(graph)
    library, side = ("networkx", "bipartite") if given is graph else ("igraph", "type")
    with pytest.raises(InputError, match=f"memory:{library}") as caught:
        ingest(InputConfig(), source=given)
    assert message.replace("SIDE", side) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("edges", "%%MatrixMarket matrix", "matrix_market"),
        ("edges", "% bip\n1 2\n", "konect"),
        ("edges", "# c\n1 2\n", "snap"),
        ("edges", "1 2\n3 4\n", "snap"),
        ("edges", "1 2 5\n3 4 6\n", "snap"),
        ("edges", "a,b\nc,d\n", "csv"),
        ("edges", "a b\tc d\n", "csv"),
        ("out.csv", "1,2\n", "csv"),
        ("out.g.bz2", "1 2\n", "konect"),
        ("x.DAT", "1 2\n3\n", "fimi"),
        ("x.dat.gz", "1 2\n3\n", "fimi"),
        ("X.DAT.GZ", "1 2\n3\n", "fimi"),
        ("x.dat.zstd", "1 2\n3\n", "fimi"),
        ("x.Basket.XZ", "1 2\n3 4 5\n", "fimi"),
    ],
)
def test_detection(tmp_path: Path, name: str, text: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert detect_format(path) == expected


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize(
    ("name", "text", "format_name", "n_edges"),
    [
        ("p.dat", "1 2 3\n4 5\n", "fimi", 5),
        ("p.basket", "1 2\n3\n5\n", "fimi", 4),
        ("p.csv", "a b,c\nd e,c\n", "csv", 2),
        ("p.tsv", "a,b\tc\nd,e\tc\n", "csv", 2),
        ("p.mtx", "%%MatrixMarket matrix coordinate pattern general\n1 2 1\n1 2\n", "matrix_market", 1),
        ("out.p", "1 2\n3 4\n", "konect", 2),
    ],
)
def test_compression_hides_no_name(
    tmp_path: Path, name: str, text: str, format_name: str, n_edges: int, ending: str
) -> None:
    path = tmp_path / (name + ending)
    path.write_bytes(COMPRESSIONS[ending](text.encode()))
    facts = read(path, **({"header": False} if format_name == "csv" else {})).facts
    assert (facts.format, facts.n_edges) == (format_name, n_edges)


def test_a_path_given_as_source(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes(to_text(LEFT, RIGHT))
    check_same(ingest(InputConfig(path="elsewhere"), source=path))
    check_same(ingest(InputConfig(), source=str(path)))


@pytest.mark.parametrize(
    ("name", "shape", "n_edges"),
    [
        ("southern_women", (18, 14), 89),
        ("unicodelang", (254, 614), 1_255),
        ("marvel", (6_486, 12_942), 96_662),
        ("youtube", (94_238, 30_087), 293_360),
    ],
)
def test_real_graphs(data_dir: Path, name: str, shape: tuple[int, int], n_edges: int) -> None:
    edges = read(data_dir / f"{name}.npz")
    assert (edges.facts.n_left, edges.facts.n_right, edges.facts.n_edges) == (*shape, n_edges)
    graph = edges.graph()
    assert (graph.n_left, graph.n_right, graph.n_edges) == (*shape, n_edges)


def test_real_graph_agrees_across_text_formats(data_dir: Path, tmp_path: Path) -> None:
    edges = read(data_dir / "marvel.npz")
    left, right = edges.left_ids, edges.right_ids
    for name, separator in (("out.marvel", " \t "), ("marvel.txt", "\t"), ("marvel.csv", ",")):
        path = tmp_path / name
        path.write_bytes(to_text(left, right, separator))
        assert read(path).facts.fingerprint == edges.facts.fingerprint


def test_real_graph_with_weights_and_times(data_dir: Path) -> None:
    path = data_dir / "labelled" / "comm_ml100k.npz"
    with np.load(path) as arrays:
        wanted = int(((arrays["w"] >= 4) & (arrays["t"] >= 880_000_000) & (arrays["t"] < 885_000_000)).sum())
    window = {"timestamp": "t", "time_from": 880_000_000, "time_until": 885_000_000}
    assert read(path, weight="w", min_weight=4, **window).facts.n_edges == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.large", "large.txt", "large.csv"])
def test_a_million_lines_are_read_without_a_call_for_each(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 200_000, 1_000_000), rng.integers(0, 300_000, 1_000_000)
    path = tmp_path / name
    path.write_bytes(to_text(left, right, "," if name.endswith("csv") else " \t "))
    # Count this thread's calls instead of time: a loop over lines would make one call per line.
    calls = itertools.count()
    sys.setprofile(lambda _frame, event, _what: event.endswith("call") and next(calls))
    try:
        edges = read(path)
    finally:
        sys.setprofile(None)
    assert next(calls) < 500_000
    assert edges.facts.fingerprint == ingest(InputConfig(), source=(left, right)).facts.fingerprint
