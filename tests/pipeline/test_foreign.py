"""Unsupported formats are refused by name, and the line of Python in each refusal writes the file's graph."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import shlex
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from tests.patience import completed
from tests.pipeline.test_typed_sources import Pairs, pairs

EDGES = [("ann", "p1"), ("bob", "p1"), ("bob", "p2"), ("eve", "p2"), ("007", "p2")]
TABLE = pa.table({"left": [u for u, _ in EDGES], "right": [v for _, v in EDGES]})
LEFT, RIGHT = ["007", "ann", "bob", "eve"], ["p1", "p2"]


def graph() -> nx.Graph:
    """A graph whose order of nodes and direction of edges do not tell the sides."""
    made = nx.Graph()
    for node in ("p2", "ann", "p1", "bob", "007", "eve"):
        made.add_node(node, bipartite=int(node.startswith("p")))
    made.add_edges_from((v, u) if u == "bob" else (u, v) for u, v in EDGES)
    return made


def unmarked() -> nx.Graph:
    """A connected graph, so its only colouring gives the sides; the first node is left."""
    made = nx.Graph()
    made.add_nodes_from(["ann", "p2", "p1", "bob", "007", "eve"])
    made.add_edges_from((v, u) for u, v in EDGES)
    return made


def written_by(write: Callable[..., object], *given: object, **options: object) -> bytes:
    sink = io.BytesIO()
    write(*given, sink, **options)
    return sink.getvalue()


def ipc(make: Callable[..., pa.RecordBatchWriter], table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def of_polars(write: str, **options: object) -> bytes:
    frame = pl.from_arrow(TABLE).with_columns(pl.col("right").cast(pl.Categorical))
    return written_by(lambda sink: getattr(frame, write)(sink, **options))


def archive(parts: dict[str, str]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as made:
        for name, text in parts.items():
            made.writestr(name, text)
    return sink.getvalue()


def rows(row: str, cell: str) -> str:
    return "".join(row.replace("CELLS", "".join(cell.replace("VALUE", value) for value in each)) for each in EDGES)


def open_document() -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    cell = '<table:table-cell office:value-type="string"><text:p>VALUE</text:p></table:table-cell>'
    sheet = rows("<table:table-row>CELLS</table:table-row>", cell)
    return archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            '<m:file-entry m:full-path="content.xml" m:media-type="text/xml"/></m:manifest>',
            "content.xml": f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="a">{sheet}</table:table></office:spreadsheet></office:body>'
            "</office:document-content>",
        }
    )


def workbook() -> bytes:
    """The smallest workbook that a reader accepts, with its parts in the order of some writers."""
    place = "http://schemas.openxmlformats.org"
    main, office = f"{place}/spreadsheetml/2006/main", f"{place}/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"

    def relation(what: str, target: str) -> str:
        inner = f'<Relationship Id="r1" Type="{office}/{what}" Target="{target}"/>'
        return f'<Relationships xmlns="{place}/package/2006/relationships">{inner}</Relationships>'

    sheet = rows("<row>CELLS</row>", '<c t="inlineStr"><is><t>VALUE</t></is></c>')
    return archive(
        {
            "_rels/.rels": relation("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
            '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relation("worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>',
            "[Content_Types].xml": f'<Types xmlns="{place}/package/2006/content-types">'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}"/></Types>',
        }
    )


def database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "my edges" (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT, page TEXT)')
        connection.executemany('INSERT INTO "my edges" (user, page) VALUES (?, ?)', EDGES)
    connection.close()


def numbered(first: int = 1) -> list[tuple[int, int]]:
    return [(LEFT.index(u) + first, RIGHT.index(v) + first) for u, v in EDGES]


MATRIX = np.array([[int((u, v) in EDGES) for v in RIGHT] for u in LEFT])
ROWS = "\n".join(" ".join(map(str, row)) for row in MATRIX)
LABELS = "\n".join(LEFT), " ".join(RIGHT)
VERTICES = "\n".join(f'{i} "{name}" 0.5 0.5' for i, name in enumerate([*LEFT, *RIGHT], 1))
PAJEK = "\n".join(f"{u} {v + 4} 1" if i % 2 else f"{v + 4} {u}" for i, (u, v) in enumerate(numbered()))
TEXT_PAIRS = {(str(u), str(v)) for u, v in numbered()}
NAMED = set(EDGES)

CASES: dict[str, tuple[str, bytes | str, Pairs]] = {
    # case: (name in the message, content, the graph); the file name is the last word of the case
    "arrow e.arrow": ("an Arrow IPC file", ipc(pa.ipc.new_file, TABLE), NAMED),
    "arrow stream e.arrows": ("an Arrow IPC stream", ipc(pa.ipc.new_stream, TABLE), NAMED),
    "arrow of polars e.ipc": ("an Arrow IPC file", of_polars("write_ipc"), NAMED),
    "arrow stream of polars e": ("an Arrow IPC stream", of_polars("write_ipc_stream"), NAMED),
    "feather e.feather": ("an Arrow IPC file", written_by(feather.write_feather, TABLE), NAMED),
    "orc e.orc": ("an ORC file", written_by(orc.write_table, TABLE), NAMED),
    "avro e.avro": ("an Avro file", written_by(lambda sink: pl.from_arrow(TABLE).write_avro(sink)), NAMED),
    "npy e.npy": ("a NumPy array", written_by(lambda sink: np.save(sink, np.array(numbered()))), set(numbered())),
    "npy of columns e.npy": (
        "a NumPy array",
        written_by(lambda sink: np.save(sink, np.array(numbered()).T)),
        set(numbered()),
    ),
    "npy of fields e.npy": (
        "a NumPy array",
        written_by(lambda sink: np.save(sink, np.array(numbered(), [("user", "i4"), ("page", "i8")]))),
        set(numbered()),
    ),
    "npy of a matrix e.npy": (
        "a NumPy array",
        written_by(lambda sink: np.save(sink, np.eye(6)[:, :5])),
        {(i, i) for i in range(5)},
    ),
    "excel e.xlsx": ("an Excel workbook", workbook(), NAMED),
    "open document e.ods": ("an OpenDocument spreadsheet", open_document(), NAMED),
    "stata e.dta": ("a Stata file", written_by(lambda s: TABLE.to_pandas().to_stata(s, write_index=False)), NAMED),
    "pajek of two modes e.net": (
        "a Pajek network",
        f"*Vertices 6 4\r\n{VERTICES}\n*Edges\n% a note\n{PAJEK}\n",
        NAMED,
    ),
    "pajek under notes e": (
        "a Pajek network",
        f"% made by hand\n\n*network x\n*vertices 6 4\n{VERTICES}\n*arcs\n{PAJEK}",
        NAMED,
    ),
    "pajek of lists e.net": (
        "a Pajek network",
        f"*Vertices 6 4\n{VERTICES}\n*Edgeslist\n1 6\n2 5\n3 5 6\n4 6\n",
        NAMED,
    ),
    "pajek of labels twice e.net": (
        "a Pajek network",
        f"*Vertices 6 4\n{VERTICES.replace('p1', 'p2')}\n*Edges\n{PAJEK}\n",
        {(str(u), str(v + 4)) for u, v in numbered()},
    ),
    "pajek without labels e.net": (
        "a Pajek network",
        f"*Vertices 6 4\n*Edges\n{PAJEK}\n",
        {(str(u), str(v + 4)) for u, v in numbered()},
    ),
    "ucinet matrix e.dl": ("a UCINET DL file", f"dl nr=4, nc=2 format=fullmatrix\ndata:\n{ROWS}\n", TEXT_PAIRS),
    "ucinet labels e.dl": (
        "a UCINET DL file",
        f"DL NR=4 NC=2\nrow labels:\n{LABELS[0]}\ncolumn labels:\n{LABELS[1]}\ndata:\n{ROWS}\n",
        NAMED,
    ),
    "ucinet embedded e.txt": (
        "a UCINET DL file",
        "dl nr = 4, nc = 2\nlabels embedded\ndata:\n"
        + "\n".join([LABELS[1], *(f"{u} {row}" for u, row in zip(LEFT, ROWS.splitlines(), strict=True))]),
        NAMED,
    ),
    "ucinet edges e.dl": (
        "a UCINET DL file",
        "dl nr=4 nc=2 format = edgelist2\ndata:\n" + "\n".join(f"{u} {v} 1" for u, v in numbered()),
        TEXT_PAIRS,
    ),
    "ucinet neighbours e.dl": (
        "a UCINET DL file",
        "dl nr=4 nc=2 format = nodelist2 labels embedded\ndata:\nann p1\nbob p1 p2\n\neve p2\n007 p2\n",
        NAMED,
    ),
    "dimacs e.col": (
        "a DIMACS graph",
        "c mine\nc too\np edge 4 5\n" + "".join(f"e {u} {v}\n" for u, v in numbered()),
        TEXT_PAIRS,
    ),
    "gml e.gml": ("a GML graph", "\n".join(nx.generate_gml(graph())), NAMED),
    "gml under notes e": ("a GML graph", 'Creator "me"\n' + "\n".join(nx.generate_gml(unmarked())), NAMED),
    "gml without labels e.gml": (
        "a GML graph",
        "graph [\n"
        + "".join(f" node [ id {i} bipartite {int(i > 4)} ]\n" for i in range(1, 7))
        + "".join(f" edge [ source {v + 4} target {u} ]\n" for u, v in numbered())
        + "]\n",
        {(u, v + 4) for u, v in numbered()},
    ),
    "graphml e.graphml": ("a GraphML graph", written_by(lambda sink: nx.write_graphml_xml(graph(), sink)), NAMED),
    "graphml unmarked e.xml": ("a GraphML graph", written_by(lambda s: nx.write_graphml_xml(unmarked(), s)), NAMED),
    "gexf e.gexf": ("a GEXF graph", written_by(lambda sink: nx.write_gexf(graph(), sink)), NAMED),
    "json links e.json": ("a JSON graph", json.dumps(nx.node_link_data(graph(), edges="links")), NAMED),
    "json edges e.json": ("a JSON graph", json.dumps(nx.node_link_data(graph(), edges="edges"), indent=1), NAMED),
    "json of cytoscape e.json": ("a JSON graph", json.dumps(nx.cytoscape_data(graph())), NAMED),
    "sets e.gmt": (
        "sets of genes",
        "ann\tn/a\tp1\nbob\thttp://x\tp1\tp2\neve\t\tp2\t\n007\tx\tp2\n",
        NAMED,
    ),
}  # fmt: skip


def refused(path: Path, **settings: object) -> InputError:
    with pytest.raises(InputError) as caught:
        ingest(InputConfig(path=str(path), **settings))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return caught.value


def line_of(error: InputError) -> str:
    """Return the Python code in the refusal, as a shell would pass it."""
    command = re.search(r"run (python -c .*) and read ", str(error))
    assert command is not None, str(error)
    name, option, code = shlex.split(command[1])
    assert (name, option) == ("python", "-c")
    return code


def followed(error: InputError, **asked: object) -> Pairs:
    """Return the graph that the refusal's remedy gives."""
    exec(line_of(error), {})
    (settings,) = error.settings
    given = {key.removeprefix("input."): value for key, value in settings.items()} | asked
    return pairs(Path(str(given.pop("path"))), **given)


def put(tmp_path: Path, case: str, content: bytes | str) -> Path:
    path = tmp_path / case.split()[-1]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def as_text(found: Pairs) -> Pairs:
    return {(str(u), str(v)) for u, v in found}


@pytest.fixture(autouse=True)
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, in which the lines write."""
    (tmp_path / "at work").mkdir()
    monkeypatch.chdir(tmp_path / "at work")
    return tmp_path / "at work"


@pytest.mark.parametrize("case", CASES)
def test_the_line_gives_the_graph(tmp_path: Path, case: str) -> None:
    name, content, expected = CASES[case]
    if case.endswith((".xlsx", ".ods")):
        pytest.importorskip("python_calamine")
    path = put(tmp_path, case, content)
    error = refused(path)
    assert f": {name}" in str(error)
    assert as_text(followed(error)) == as_text(expected)


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress, lambda data: pa.compress(data, "zstd", asbytes=True)]
)
@pytest.mark.parametrize("case", ["graphml e.graphml", "arrow e.arrow", "npy e.npy", "sets e.gmt"])
def test_compressed_files_are_unpacked_first(tmp_path: Path, case: str, compress: Callable[[bytes], bytes]) -> None:
    name, content, expected = CASES[case]
    path = put(tmp_path, f"{case}.gz", compress(content.encode() if isinstance(content, str) else content))
    error = refused(path)
    assert f": {name}" in str(error)
    assert as_text(followed(error)) == as_text(expected)


@pytest.mark.parametrize("name", ["plain.db", "it's.db", 'a "b" $HOME `x`!.db', "ä\\n.db", "FILE OUT.csv TEXT.db"])
def test_a_shell_runs_the_line_whatever_the_file_is_called(tmp_path: Path, at_work: Path, name: str) -> None:
    database(tmp_path / name)
    error = refused(tmp_path / name)
    assert ": a SQLite database" in str(error)
    command = str(error).partition("run python")[2].rpartition(" and read ")[0]
    completed(["bash", "-c", shlex.quote(sys.executable) + command], check=True, cwd=at_work)
    (settings,) = error.settings
    assert settings["input.header"] is True
    assert pairs(at_work / str(settings["input.path"]), header=True, left="user", right="page") == NAMED


@pytest.mark.parametrize("case", ["sets e.gmt", "gml e.gml", "graphml e.graphml", "pajek of two modes e.net"])
def test_a_given_format_is_taken_for_text(tmp_path: Path, case: str) -> None:
    path = put(tmp_path, case, "ann,p1\nbob,p1\n")
    assert pairs(path, format="csv", header=False) == {("ann", "p1"), ("bob", "p1")}
    path.write_text("#\n1 2\n3 4\n")
    assert pairs(path) == {(1, 2), (3, 4)}


@pytest.mark.parametrize("case", ["arrow e.csv", "npy e.csv", "excel e.csv", "orc e.csv", "avro e.csv"])
def test_binary_files_are_refused_whatever_format_is_given(tmp_path: Path, case: str) -> None:
    full = next(name for name in CASES if name.startswith(case.split()[0]))
    assert f": {CASES[full][0]}" in str(refused(put(tmp_path, case, CASES[full][1]), format="csv"))


@pytest.mark.parametrize(
    "text", ["ORCID,paper\n1,2\n", "FEA1,x\n1,2\n", "Objects,x\n1,2\n", "B,b\n1,2\n", "X,x\n1,2\n", "PK,x\n1,2\n"]
)
def test_text_that_begins_like_another_format_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    assert pairs(path) == {(1, 2)}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file"),
        (b"\x80\x04\x95\x00\x00", "a Python pickle"),
        (b"RDX3\nX\n\x00\x00", "an R file"),
        (b"$FL2@(#)\x00\x02", "an SPSS file"),
        (b"MATLAB 5.0 MAT-file\x00", "a MATLAB file"),
        (b"%PDF-1.7\n\x00\x01", "a PDF document"),
        (b"<!DOCTYPE html><html>sign in</html>", "a web page"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", "an Excel workbook (.xls)"),
        (b"*Vertices 2\n*Matrix\n0 1\n1 0\n", "a Pajek network"),
        (b"dl n=4 format=lowerhalf\ndata:\n1\n", "a UCINET DL file"),
        (b"FEA1\x00\x00\x00\x00", "a Feather file"),
    ],
)
def test_formats_that_only_their_vendor_converts_are_named(tmp_path: Path, content: bytes, name: str) -> None:
    assert f": {name}" in str(refused(put(tmp_path, "e.bin", content)))


def test_one_kind_of_vertices_needs_no_sides(tmp_path: Path) -> None:
    path = tmp_path / "e.gml"
    nx.write_gml(nx.complete_graph(["a", "b", "c"]), path)
    config = InputConfig(path=str(path)).of_one_set()
    with pytest.raises(InputError) as caught:
        ingest(config)
    exec(line_of(caught.value), {})
    assert ingest(InputConfig(path="e-edges.parquet").of_one_set()).facts.n_edges == 3
    # Without two sides there is no bipartite graph, and the line itself says so.
    with pytest.raises(InputError, match="odd cycle"):
        exec(line_of(refused(path)), {})


def test_pajek_of_one_mode_tells_its_sides_by_its_edges(tmp_path: Path) -> None:
    path = tmp_path / "e.net"
    nx.write_pajek(unmarked(), path)
    assert followed(refused(path)) == NAMED
    path.write_text('*Vertices 4\n1 "a"\n2 "b"\n3 "c"\n4 "d"\n*Edges\n1 2\n3 4\n')
    with pytest.raises(InputError, match="several components"):
        exec(line_of(refused(path)), {})


def test_delta_tables(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), pa.table({"left": ["gone"], "right": ["p1"]}))
    deltalake.write_deltalake(str(place), TABLE, mode="append", partition_by=None)
    deltalake.DeltaTable(str(place)).delete("\"left\" = 'gone'")
    error = refused(place)
    assert ": a Delta table" in str(error)
    assert followed(error) == NAMED


def test_iceberg_tables(tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/house")
    catalog.create_namespace("n")
    table = catalog.create_table("n.edges", TABLE.schema)
    table.append(pa.table({"left": ["gone"], "right": ["p1"]}))
    table.overwrite(TABLE)
    place = Path(table.location().removeprefix("file://"))
    for within in (place, place / "data"):
        error = refused(within)
        assert ": an Iceberg table" in str(error)
        assert followed(error) == NAMED


def commit(place: Path, moment: str, rows: pa.Table) -> None:
    """Write rows as another version of a Hudi table's only file group."""
    group, n = "f0000000-0000-0000-0000-000000000000-0", rows.num_rows
    name = f"{group}_0-0-0_{moment}.parquet"
    meta = {"commit_time": moment, "commit_seqno": moment, "record_key": "k", "partition_path": "", "file_name": name}
    table = pa.table({f"_hoodie_{key}": [value] * n for key, value in meta.items()} | dict(rows.to_pydict()))
    pq.write_table(table, place / name)
    fields = [{"name": column, "type": ["null", "string"]} for column in table.column_names]
    stats = {"fileId": group, "path": name, "prevCommit": "null", "numWrites": n, "numDeletes": 0, "numInserts": n}
    stats |= {"numUpdateWrites": 0, "totalWriteBytes": 1, "totalWriteErrors": 0, "partitionPath": ""}
    stats["fileSizeInBytes"] = (place / name).stat().st_size
    schema = json.dumps({"type": "record", "name": "t", "fields": fields})
    said = {"partitionToWriteStats": {"": [stats]}, "compacted": False, "operationType": "INSERT"}
    (place / ".hoodie" / f"{moment}.commit").write_text(json.dumps(said | {"extraMetadata": {"schema": schema}}))
    for state in ("commit.requested", "inflight"):
        (place / ".hoodie" / f"{moment}.{state}").write_text("{}")


def test_hudi_tables(tmp_path: Path) -> None:
    pytest.importorskip("hudi")
    place = tmp_path / "t"
    (place / ".hoodie").mkdir(parents=True)
    table = {"name": "t", "type": "COPY_ON_WRITE", "version": 6, "base.file.format": "PARQUET", "checksum": 1}
    properties = [f"hoodie.table.{key}={value}" for key, value in table.items()]
    properties += ["hoodie.timeline.layout.version=1", "hoodie.datasource.write.drop.partition.columns=false"]
    (place / ".hoodie" / "hoodie.properties").write_text("\n".join(properties))
    commit(place, "20240101000000000", pa.table({"left": ["gone"], "right": ["p1"]}))
    commit(place, "20240102000000000", TABLE)
    error = refused(place)
    assert ": a Hudi table" in str(error)
    assert followed(error) == NAMED


@pytest.mark.parametrize(
    ("mark", "name"), [("_delta_log", "a Delta table"), (".hoodie", "a Hudi table"), ("metadata", "an Iceberg table")]
)
def test_tables_of_files_are_refused_by_name_and_so_are_their_parts(tmp_path: Path, mark: str, name: str) -> None:
    (tmp_path / "t" / mark).mkdir(parents=True)
    (tmp_path / "t" / mark / "v3.metadata.json").write_text("{}")
    (tmp_path / "t" / "day=1").mkdir()
    pq.write_table(TABLE, tmp_path / "t" / "day=1" / "part.parquet")
    for settings in ({}, {"format": "parquet"}):
        assert f": {name}" in str(refused(tmp_path / "t", **settings))
        assert f": {name}" in str(refused(tmp_path / "t" / "day=1", **settings))
    assert pairs(tmp_path / "t" / "day=1" / "part.parquet") == NAMED


def test_npz_is_no_workbook(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", u=[1], v=[2], note=np.frombuffer(b"[Content_Types] xl/ opendocument", np.uint8))
    assert pairs(tmp_path / "e.npz") == {(1, 2)}


def test_pandas_frames_keep_their_texts(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = put(tmp_path, "e.xlsx", workbook())
    exec(line_of(refused(path)), {})
    assert pd.read_csv("e-edges.csv", header=None, dtype=str)[0].tolist() == [u for u, _ in EDGES]
