"""The rule of reading: a file is read as the graph that was written, or refused with a remedy that leads to it.

A graph is written in every supported format and dialect, under every suffix. Reading gives exactly its edges by key,
or a refusal with settings. At least one of the settings leads to the graph.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io.text.dialect import DELIMITER_NAMES

Edge = tuple[Any, Any]
Edges = list[Edge]
Graph = set[tuple[str, str]]

_MOST_QUESTIONS = 4


def graph_of(config: InputConfig, source: object | None = None) -> Graph:
    """Read the edges, with their keys as text."""
    edges = ingest(config, source=source)
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    return {(str(left[u]), str(right[v])) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)}


def check(
    path: Path, wanted: Graph, given: dict[str, Any] | None = None, same: Callable[[Graph], Graph] = lambda graph: graph
) -> None:
    """Assert that the graph is read at once or by following remedies, and never another graph without a question."""
    assert _leads(path, wanted, given or {}, same, _MOST_QUESTIONS), f"no remedy leads from {path.read_bytes()!r}"


def _leads(path: Path, wanted: Graph, given: dict[str, Any], same: Callable[[Graph], Graph], more: int) -> bool:
    try:
        found = same(graph_of(InputConfig(path=str(path), **given)))
    except InputError as error:
        ways = [{key.removeprefix("input."): value for key, value in way.items()} for way in error.settings]
        return more > 0 and any(_leads(path, wanted, {**given, **way}, same, more - 1) for way in ways)
    if more == _MOST_QUESTIONS:
        # No question was asked.
        assert found == wanted, f"another graph: {path.read_bytes()!r}"
    return found == wanted


# Keys as in real files; the keys of a side have one type.
NAMES = st.sampled_from(
    ["ann", "bob", "carol", "d'Arc", "é", "ü ber", "Smith, J.", "x;y", "a|b", "10%", "milk", "bread", "#1", "New York"]
)
NUMBERED = st.integers(0, 12).map(lambda n: f"user{n}")
NUMBERS = st.integers(0, 15)
LARGE = st.integers(10**9, 10**9 + 9)
SIDES = st.sampled_from([NAMES, NUMBERED, NUMBERS, LARGE])


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    left, right = draw(SIDES), draw(SIDES)
    return draw(st.lists(st.tuples(left, right), min_size=1, max_size=8, unique=True))


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "delimiter": draw(st.sampled_from([",", "\t", ";", "|", " ", "::"])),
        "header": draw(st.sampled_from([None, ("user", "item"), ("left", "right"), ("account", "what is it")])),
        "above": draw(st.sampled_from(["", "# made by us\n", "% of 2024\n", "# a\n# b: 3\n", "\n", "sep"])),
        "mark": draw(st.sampled_from([b"", b"\xef\xbb\xbf"])),
        "end": draw(st.sampled_from(["\n", "\r\n"])),
        "quotes": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "padding": draw(st.sampled_from(["", "after", "aligned"])),
        "extra": draw(st.sampled_from([None, "number", "word", "empty"])),
        "counts": draw(st.booleans()),
        "compression": draw(st.sampled_from([bytes, gzip.compress, bz2.compress, lzma.compress])),
        "suffix": draw(st.sampled_from([".csv", ".tsv", ".txt", ".dat", ".edges", "", ".basket"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8", "utf-16"])),
    }


def rows_in(edges: Edges, dialect: dict[str, Any]) -> list[list[str]]:
    rows = [list(map(str, edge)) for edge in edges]
    header = list(dialect["header"] or ())
    if dialect["extra"] is not None:
        values = {"number": lambda i: str(i * 7 + 30), "word": lambda i: f"note {i}", "empty": lambda _: ""}
        rows = [[*row, values[dialect["extra"]](i)] for i, row in enumerate(rows)]
        header = [*header, "remark"] if header else []
    rows = [header, *rows] if header else rows
    if dialect["padding"] == "aligned":
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        rows = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return rows


def text_of(edges: Edges, dialect: dict[str, Any]) -> bytes | None:
    """Return the file's text, or None if the dialect cannot express this graph."""
    delimiter, rows = dialect["delimiter"], rows_in(edges, dialect)
    if delimiter == " " and any(mark in str(key) for edge in edges for key in edge for mark in ",;|"):
        # Blanks are the last delimiter tried, since they are more often part of keys than between them.
        return None
    if dialect["padding"] and delimiter in (" ", "\t"):
        return None
    if dialect["counts"]:
        if len(edges) < 2 or dialect["header"] or not all(isinstance(key, int) for edge in edges for key in edge):
            return None
        counts = [max(u for u, _ in edges), max(v for _, v in edges), len(edges)]
        rows = [
            [*map(str, counts[: len(rows[0])])] if len(rows[0]) == 3 else [str(max(counts[:2])), str(counts[2])],
            *rows,
        ]
    above = f"sep={delimiter}\n" if dialect["above"] == "sep" else dialect["above"]
    if len(delimiter) > 1:
        if above.startswith("sep") or any(mark in cell for row in rows for cell in row for mark in (delimiter, '"')):
            return None
        body = "".join(delimiter.join(row) + "\n" for row in rows)
    else:
        between = io.StringIO()
        writer = csv.writer(between, delimiter=delimiter, quoting=dialect["quotes"], lineterminator="\n")
        writer.writerows(rows)
        body = between.getvalue()
        if dialect["padding"] == "aligned" and '"' in body:
            # Blanks within quotes are part of the key.
            return None
        if dialect["padding"] == "after" and dialect["quotes"] == csv.QUOTE_MINIMAL and '"' not in body:
            body = body.replace(delimiter, delimiter + " ")
    content = (above + body).replace("\n", dialect["end"])
    if dialect["encoding"] == "utf-16":
        return bytes(dialect["compression"](content.encode("utf-16")))
    return bytes(dialect["compression"](dialect["mark"] + content.encode()))


def _untrimmed(edges: Edges) -> Graph:
    return {(str(u), str(v)) for u, v in edges}


rule = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
"""As many examples as a minute of one core allows; the slow test takes many more."""


def check_delimited(tmp_path: Path, edges: Edges, dialect: dict[str, Any]) -> None:
    content = text_of(edges, dialect)
    if content is None:
        return
    path = tmp_path / f"edges{dialect['suffix']}"
    path.write_bytes(content)
    check(path, _untrimmed(edges))


@rule
@given(edges=graphs(), dialect=dialects())
def test_delimited_text(tmp_path: Path, edges: Edges, dialect: dict[str, Any]) -> None:
    check_delimited(tmp_path, edges, dialect)


@pytest.mark.slow
@settings(rule, max_examples=20_000)
@given(edges=graphs(), dialect=dialects())
def test_delimited_text_at_length(tmp_path: Path, edges: Edges, dialect: dict[str, Any]) -> None:
    check_delimited(tmp_path, edges, dialect)


def _anonymous(graph: Graph) -> Graph:
    """Number rows and columns by rank, for formats that have no keys."""
    ranks = [{key: i for i, key in enumerate(sorted({edge[side] for edge in graph}, key=_order))} for side in (0, 1)]
    return {(str(ranks[0][u]), str(ranks[1][v])) for u, v in graph}


def _order(key: str) -> tuple[int, str]:
    return (int(key), "") if key.lstrip("-").isdecimal() else (-1, key)


@st.composite
def baskets(draw: st.DrawFn) -> list[list[Any]]:
    item = draw(st.sampled_from([NAMES, NUMBERS, NUMBERED]))
    return draw(st.lists(st.lists(item, min_size=1, max_size=6, unique=True), min_size=1, max_size=6))


@rule
@given(
    rows=baskets(),
    delimiter=st.sampled_from([",", ";", "\t", " ", "|"]),
    padded=st.booleans(),
    leading=st.sampled_from([None, "id", "count"]),
    suffix=st.sampled_from([".csv", ".txt", ".dat", ".basket", ".fimi"]),
)
def test_baskets(
    tmp_path: Path, rows: list[list[Any]], delimiter: str, padded: bool, leading: str | None, suffix: str
) -> None:
    """The graph is read with the format given; without it, the format is detected or asked for."""
    texts = [[str(item) for item in row] for row in rows]
    if delimiter == " " and (padded or any(" " in cell for row in texts for cell in row)):
        return
    width = max(map(len, texts))
    written = [[*row, *[""] * (width - len(row))] if padded else row for row in texts]
    first = {"id": [[f"t{i}"] for i in range(len(texts))], "count": [[str(len(row))] for row in texts]}
    written = [[*above, *row] for above, row in zip(first.get(leading or "", [[]] * len(texts)), written, strict=True)]
    between = io.StringIO()
    csv.writer(between, delimiter=delimiter, lineterminator="\n").writerows(written)
    path = tmp_path / f"baskets{suffix}"
    path.write_text(between.getvalue())
    # Blank-separated items have no quotes, so a key with quotes is another key.
    wanted = {(f"t{i}" if leading == "id" else str(i + 1), item) for i, row in enumerate(texts) for item in row}
    left = {"id": "id", "count": "count"}.get(leading or "")
    options = {"format": "fimi", "delimiter": delimiter, **({"left": left} if left else {})}
    check(path, wanted, options)
    plain = all(cell.isalnum() for row in texts for cell in row)
    if leading is None and not padded and plain and len(set(map(len, texts))) > 1:
        # Without a given format: transactions, or a question whose answers lead there.
        check(path, wanted)


FLAGS = [("0", "1"), ("False", "True"), ("", "X"), ("no", "yes"), ("0.0", "1.0")]


@rule
@given(
    edges=graphs(),
    flags=st.sampled_from(FLAGS),
    named=st.booleans(),
    delimiter=st.sampled_from([",", ";", "\t"]),
    suffix=st.sampled_from([".csv", ".tsv", ".txt"]),
)
def test_matrices_in_text(
    tmp_path: Path, edges: Edges, flags: tuple[str, str], named: bool, delimiter: str, suffix: str
) -> None:
    left = list(dict.fromkeys(str(u) for u, _ in edges))
    right = list(dict.fromkeys(f"m{v}" for _, v in edges))
    joined = {(str(u), f"m{v}") for u, v in edges}
    if len(right) < 2:
        return
    rows = [[flags[(u, v) in joined] for v in right] for u in left]
    if named:
        rows = [["name", *right], *[[u, *row] for u, row in zip(left, rows, strict=True)]]
        wanted = joined
    else:
        wanted = {(str(left.index(u) + 1), str(right.index(v) + 1)) for u, v in joined}
    between = io.StringIO()
    csv.writer(between, delimiter=delimiter, lineterminator="\n").writerows(rows)
    path = tmp_path / f"matrix{suffix}"
    path.write_text(between.getvalue())
    options = {"format": "biadjacency", "delimiter": delimiter}
    if not named and "" in flags:
        return
    check(path, wanted, options if named else {**options, "header": False, "left": "row"})
    if len(right) > 2 and len(left) > 1 and named:
        check(path, wanted)


@rule
@given(edges=graphs(), names=st.sampled_from([("user", "item"), ("a", "b")]), lists=st.booleans(), whole=st.booleans())
def test_json(tmp_path: Path, edges: Edges, names: tuple[str, str], lists: bool, whole: bool) -> None:
    if lists:
        values: list[Any] = [[v] for _, v in edges]
        wanted = {(str(i + 1), str(v)) for i, (_, v) in enumerate(edges)}
    else:
        values = [dict(zip(names, edge, strict=True)) for edge in edges]
        wanted = _untrimmed(edges)
    path = tmp_path / "edges.json"
    path.write_text(json.dumps(values) if whole else "".join(json.dumps(value) + "\n" for value in values))
    check(path, wanted)


@rule
@given(edges=graphs(), kind=st.sampled_from(["parquet", "npz", "mtx", "konect", "snap"]), extra=st.booleans())
def test_other_formats(tmp_path: Path, edges: Edges, kind: str, extra: bool) -> None:
    left, right = [u for u, _ in edges], [v for _, v in edges]
    path = tmp_path / f"edges.{kind}"
    wanted = _untrimmed(edges)
    if kind == "parquet":
        columns = {"user": left, "item": right, **({"more": list(range(len(left)))} if extra else {})}
        pq.write_table(pa.table(columns), path)
        check(path, wanted)
        return
    if kind == "npz":
        np.savez(path, u=np.array(left), v=np.array(right), **({"w": np.ones(len(left))} if extra else {}))
        check(path, wanted)
        return
    if not all(isinstance(key, int) and key < 100 for edge in edges for key in edge):
        return
    if kind == "mtx":
        ones = np.ones(len(left))
        scipy.io.mmwrite(path, scipy.sparse.coo_array((ones, (left, right))))
        check(path, {(str(u + 1), str(v + 1)) for u, v in edges})
        return
    head = "% bip\n" if kind == "konect" else "# FromNodeId ToNodeId\n"
    path.write_text(head + "".join(f"{u}\t{v}{' 5' if extra else ''}\n" for u, v in edges))
    check(path, wanted)


SUFFIXES = [".csv", ".tsv", ".txt", ".dat", ".fimi", ".basket", ".edges", ".data", ".el", ""]


@pytest.mark.parametrize(
    "text",
    [
        "1 3 5 7 9 11\n1 4 5 8 9 12\n2 3 6 7 10 11\n2 4 6 8 10 12\n",
        "1 2\n3 4\n5 6\n",
        "1 2 3\n2 3 4\n",
        "1 2\n3\n4 5 6\n",
        "milk,bread,eggs\nbread,eggs\nmilk,bread\n",
        "milk bread\neggs bread\n",
        "ann\tx\nbob\ty\nann\ty\n",
        "name,m1,m2,m3\nw1,1,0,1\nw2,1,1,0\nw3,0,1,1\n",
        "3\n2\n2\t51\t13883\n2\t52\t11690\n3\t51\t11351\n",
        "a;1,5\nb;2,5\n",
        "1 0 1\n0 1 1\n",
        '{"user": "a", "item": 1}\n',
    ],
)
def test_the_same_bytes_are_the_same_graph_under_any_suffix(tmp_path: Path, text: str) -> None:
    """A suffix may lead to a question, but no two suffixes to different graphs."""
    found: list[Graph] = []
    asked: list[InputError] = []
    for suffix in SUFFIXES:
        path = tmp_path / f"data{suffix}"
        path.write_text(text)
        try:
            found.append(graph_of(InputConfig(path=str(path))))
        except InputError as error:
            asked.append(error)
    assert all(error.settings for error in asked), asked
    assert all(graph == found[0] for graph in found)


@pytest.mark.parametrize(
    ("name", "text", "given", "n_edges"),
    [
        ("t.csv", "milk,bread,eggs\nbread,eggs\nmilk,bread\n", {"format": "fimi"}, 7),
        (
            "g.csv",
            "Item(s),Item 1,Item 2,Item 3\n2,milk,bread,\n1,milk,,\n3,a,b,c\n",
            {"format": "fimi", "left": "count", "delimiter": ",", "header": True},
            6,
        ),
        ("m.csv", "name,m1,m2,m3\nw1,1,0,1\nw2,1,1,0\nw3,0,1,1\n", {"format": "biadjacency"}, 6),
        ("x.csv", ",m1,m2\n0,X,\n1,,X\n", {"format": "biadjacency"}, 2),
        ("c.csv", "sep=;\nuser;item\na;1\nb;2\n", {}, 2),
        ("h.csv", "# made in May\nuser,item\na,1\nb,2\n", {"left": "user"}, 2),
        ("k.txt", "% bip\n1,2\n2,3\n1,3\n", {}, 3),
        ("r.dat", "1::1193::5::978300760\n1::661::3::978302109\n", {}, 2),
        ("l.csv", "user,item,note\nann,x,caf\xe9\n".encode("latin-1"), {"encoding": "latin-1"}, 1),
        ("p.csv", "user, item\nann, x\nbob, x\n", {"left": "user", "right": "item"}, 2),
        ("w.txt", "user   item\nann    x\nbob    x\n", {}, 2),
        ("percent.txt", "1 2\n7 8\n% in the middle\n2 3\n", {}, 3),
    ],
)
def test_real_world_files(tmp_path: Path, name: str, text: str | bytes, given: dict[str, Any], n_edges: int) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert len(graph_of(InputConfig(path=str(path), **given))) == n_edges


@pytest.mark.parametrize(
    ("name", "text", "given", "wanted"),
    [
        # A table from pandas with numbers as column names.
        ("crosstab.csv", ",10,20,30\n1,1,0,1\n2,0,1,1\n", {}, {("1", "10"), ("1", "30"), ("2", "20"), ("2", "30")}),
        ("flags.csv", "user,0,1\nann,1,0\nbob,0,1\n", {"format": "biadjacency"}, {("ann", "0"), ("bob", "1")}),
        # A table from R, whose column of row names has no name.
        ("r.txt", 'a b c\nr1 1 0 1\n"r 2" 0 1 1\n', {}, {("r1", "a"), ("r1", "c"), ("r 2", "b"), ("r 2", "c")}),
        ("edges.txt", '"u" "v"\n"1" "ann" "x"\n"2" "bob" "y"\n', {"left": "u", "right": "v"}, None),
        ("aligned.txt", "u   v\n1   ann x\n20  bob y\n", {"left": "u", "right": "v"}, None),
        ("comma.csv", '"u","v"\n"1","ann","x"\n"2","bob","y"\n', {"left": "u", "right": "v"}, None),
        # Counts below a KONECT comment; neighbours below a comment; a matrix separated by blanks.
        ("soc.edges", "% sym\n10 10 3\n1 2\n1 3\n2 3\n", {}, {("1", "2"), ("1", "3"), ("2", "3")}),
        ("m.txt", "0 1 1\n1 0 1\n", {}, {("1", "2"), ("1", "3"), ("2", "1"), ("2", "3")}),
    ],
)
def test_remedies_lead_to_the_graph(
    tmp_path: Path, name: str, text: str, given: dict[str, Any], wanted: Graph | None
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError):
        graph_of(InputConfig(path=str(path), **given))
    check(path, wanted or {("ann", "x"), ("bob", "y")}, given)


@pytest.mark.parametrize("source", [pa.chunked_array([[1, 2]]), np.array([[0, 2, 1, 0], [1, 0, 0, 7], [5, 1, 1, 0]])])
def test_objects_that_are_no_edges(source: object) -> None:
    with pytest.raises(InputError):
        graph_of(InputConfig(), source)


def test_an_option_that_does_not_apply_to_an_object() -> None:
    with pytest.raises(InputError, match="delimiter for the format memory"):
        graph_of(InputConfig(delimiter=","), (["ann"], ["x"]))


def test_a_matrix_of_polars() -> None:
    frame = pytest.importorskip("polars").DataFrame({"n": ["u", "v"], "b": [True, None], "c": [True, True]})
    assert graph_of(InputConfig(format="biadjacency"), frame) == {("u", "b"), ("u", "c"), ("v", "c")}


def test_columns_of_polars_that_are_not_read() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"u": [1, 2], "v": [5, 6], "rating": [3, 4], "time": [10, 11]})
    assert graph_of(InputConfig(), frame) == graph_of(InputConfig(), frame.lazy()) == {("1", "5"), ("2", "6")}
    with pytest.raises(InputError, match="row of a matrix"):
        graph_of(InputConfig(), polars.DataFrame({"n": [1, 2, 3], "b": [0, 1, 0], "c": [3, 0, 0], "d": [1, 0, 2]}))


@pytest.mark.parametrize("delimiter", DELIMITER_NAMES)
def test_a_delimiter_goes_by_the_name_that_questions_use(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "edges.txt"
    between = " " if delimiter == "whitespace" else delimiter
    path.write_text(f"1{between}7\n2{between}8\n")
    config = InputConfig(path=str(path), delimiter=DELIMITER_NAMES[delimiter])
    assert graph_of(config) == {("1", "7"), ("2", "8")}


def test_counts_below_a_comment_that_could_name_columns(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("# made by us\n12 12 2\n10 11 30\n11 10 37\n")
    with pytest.raises(InputError, match="which may be counts") as asked:
        graph_of(InputConfig(path=str(path)))
    assert asked.value.settings[0] == {"input.skip_lines": 2}


def test_a_damaged_matrix_in_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError):
        graph_of(InputConfig(path=str(path), format="biadjacency"))


def test_a_repeated_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "both.csv"
    path.write_text("user,item\nann,x\nuser,item\nbob,x\n")
    with pytest.raises(InputError, match="line 3, column 'user': the header again"):
        graph_of(InputConfig(path=str(path)))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.csv"
    path.write_bytes("user,item\nann,x\nbob,y\n".encode(encoding))
    assert graph_of(InputConfig(path=str(path))) == {("ann", "x"), ("bob", "y")}


def test_baskets_of_words_are_suggested_first(tmp_path: Path) -> None:
    path = tmp_path / "baskets.csv"
    path.write_text("milk,bread,eggs\nbread,eggs\nmilk,bread\n")
    with pytest.raises(InputError) as asked:
        graph_of(InputConfig(path=str(path)))
    assert asked.value.settings[0] == {"input.format": "fimi", "input.delimiter": ","}


def test_a_first_line_longer_than_the_sample(tmp_path: Path) -> None:
    names = [f"movie number {i} {'of a long name ' * 10}!" for i in range(4_000)]
    path = tmp_path / "wide.csv"
    row = ["0"] * len(names)
    row[17] = "1"
    path.write_text(",".join(["user", *names]) + "\n" + ",".join(["ann", *row]) + "\n")
    assert graph_of(InputConfig(path=str(path), format="biadjacency")) == {("ann", names[17])}
    assert path.stat().st_size > 512 << 10
