"""Refusals of known formats that cannot be read, each with a line of Python that converts the file.

In such a line FILE stands for the path, TEXT for the file's text and OUT for the file to write. The refusal's settings
say how to read the converted file.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import compression

_HEAD = 64 << 10
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_PARQUET = "import pyarrow as p, pyarrow.parquet as q; {}q.write_table({}, OUT.parquet)"
_PAIRS = _PARQUET.replace("{}q", "q").format("p.table(dict(zip(['left', 'right'], zip(*e))))")
_GRAPH = "import networkx as n; from mbe_stage.pipeline import InputConfig as C; "
_GRAPH += "from mbe_stage.pipeline.io import read_edges as r; "
_GRAPH += _PARQUET.replace("{}", "", 1).replace("{}", "r(C(), {}).table")
_ARROW = _PARQUET.format(
    "from mbe_stage.pipeline.backends.arrow.plain import as_plain as a; t = p.ipc.OPEN(open(FILE, 'rb')).read_all(); ",
    "p.table([a(c) for c in t.columns], t.column_names)",
)
_SQLITE = (
    "import csv, sqlite3; c = sqlite3.connect(FILE); t, = c.execute('SELECT name FROM sqlite_master WHERE type = ? AND "
    "name NOT LIKE ?', ['table', 'sqlite_%']).fetchone(); r = c.execute(f'SELECT * FROM [{t}]'); csv.writer(open("
    "OUT.csv, 'w', encoding='utf-8', newline='')).writerows([[d[0] for d in r.description], *r])"
)
_EXCEL = "import pandas; pandas.read_excel(FILE, header=None, dtype=str, engine='calamine').to_csv(OUT.csv, "
_EXCEL += "header=False, index=False)"
_PANDAS = "import pandas; pandas.{}.to_csv(OUT.csv, index=False)"
_SETS = "e = [(p[0], x) for p in (l.split('\\t') for l in TEXT.splitlines()) for x in p[2:] if x]; " + _PAIRS
_PAJEK = (
    "import re; s = re.split(r'(?m)^\\s*\\*(\\w+).*', TEXT); s = list(zip(s[1::2], s[2::2])); v = next(t for k, t in s "
    "if k.lower() == 'vertices'); l = {a: b or c for a, b, c in re.findall("
    "r'(?m)^\\s*(\\d+)\\s+(?:\\x22(.*?)\\x22|(\\S+))', v)}; l = l if len(set(l.values())) == len(l) else {}; "
    "e = [(r[0], x) for k, t in s if k[:4].lower() in ('edge', 'arcs') for r in map(str.split, t.splitlines()) "
    "if r and r[0].isdigit() for x in r[1:None if k[4:].lower() == 'slist' else 2]]; "
)
_DELTA = "import deltalake as d; " + _PARQUET.format("", "p.table(d.DeltaTable(FILE).to_pyarrow_table())")
_ICEBERG = "from pyiceberg.table import StaticTable as S; "
_ICEBERG += _PARQUET.format("", "S.from_metadata(FILE).scan().to_arrow()")
_HUDI = "from hudi import HudiTableBuilder as H; " + _PARQUET.format(
    "t = p.Table.from_batches(H.from_base_uri(FILE).build().read()); ",
    "t.select([c for c in t.column_names if not c.startswith('_hoodie_')])",
)
_UNPACKED = {
    "gzip": "import gzip; b = gzip.open({}).read()",
    "bz2": "import bz2; b = bz2.open({}).read()",
    "xz": "import lzma; b = lzma.open({}).read()",
    "zstd": "import pyarrow as p; b = p.CompressedInputStream(p.OSFile({}), 'zstd').read()",
}


def _array(head: bytes) -> str | None:
    """Return the conversion of an array: edges in rows, columns or fields, or else a matrix."""
    described = re.search(rb"\{.*\}", head)
    try:
        values = ast.literal_eval(described[0].decode()) if described else {}
    except (ValueError, SyntaxError):
        return None
    shape, kind = values.get("shape", ()), values.get("descr")
    if isinstance(kind, list) and len(kind) > 1:
        ends = f"u=a[{kind[0][0]!r}], v=a[{kind[1][0]!r}]"
    elif len(shape) != 2:
        return None
    elif shape[1] in (2, 3, 4):
        ends = "u=a[:, 0], v=a[:, 1]"
    elif shape[0] == 2:
        ends = "u=a[0], v=a[1]"
    else:
        return "import numpy, scipy.sparse as s; s.save_npz(OUT.npz, s.coo_array(numpy.load(FILE)))"
    return f"import numpy; a = numpy.load(FILE); numpy.savez(OUT.npz, {ends})"


def _pajek(head: bytes) -> str | None:
    if b"*matrix" in head.lower():
        return None
    if (two_modes := re.search(rb"(?i)\*vertices[ \t]+\d+[ \t]+(\d+)", head)) is None:
        return _PAJEK + _GRAPH.format("n.Graph([(l.get(a, a), l.get(b, b)) for a, b in e])")
    turned = f"((a, b) if int(a) <= {int(two_modes[1])} else (b, a) for a, b in e)"
    return _PAJEK + f"e = [(l.get(a, a), l.get(b, b)) for a, b in {turned}]; " + _PAIRS


def _ucinet(head: bytes) -> str | None:
    """Return the conversion of a DL layout: a matrix, edges, or neighbours, with labels before or among the data."""
    header = re.split(rb"(?i)data\s*:", head)[0].decode(errors="replace").lower()
    layout, size = re.search(r"format\s*=\s*([a-z]+)", header), re.search(r"\bnr?\s*=\s*(\d+)", header)
    code = "import re; w = re.compile(r'[^\\s,]+').findall; h, d = re.split(r'(?i)data\\s*:', TEXT, maxsplit=1); "
    code += "r = [w(x) for x in d.splitlines() if w(x)]; "
    if layout and layout[1] in ("edgelist", "nodelist"):
        code += f"e = [(x[0], y) for x in r for y in x[1:{2 if layout[1] == 'edgelist' else ''}]]; "
    elif (layout and layout[1] != "fullmatrix") or size is None or re.search(r"\bnm\s*=\s*[^1\s]", header):
        return None
    elif "embedded" in header:
        code += "e = [(x[0], c) for x in r[1:] for c, y in zip(r[0], x[1:], strict=True) if float(y)]; "
    else:
        code += f"import numpy; e = (numpy.argwhere(numpy.array(w(d), float).reshape({size[1]}, -1)) + 1).tolist(); "
    if "labels" in header and "embedded" not in header:
        code += "l = [w(x) for x in re.split(r'(?i)(?:row|col\\w*)?\\s*labels?\\s*:', h)[1:]]; "
        code += "e = [(l[0][int(a) - 1], l[-1][int(b) - 1]) for a, b in e]; "
    return code + _PAIRS


def _gml(head: bytes) -> str:
    return _GRAPH.format("n.parse_gml(TEXT)" if re.search(rb"\blabel\s", head) else "n.parse_gml(TEXT, label='id')")


def _json(head: bytes) -> str:
    edges = "links" if b'"links"' in head else "edges"
    read = "cytoscape_graph(j)" if b'"elements"' in head else f"node_link_graph(j, edges='{edges}')"
    return "import json; j = json.loads(TEXT); " + _GRAPH.format(f"n.{read}")


_Kinds = tuple[tuple[bytes, str, str | Callable[[bytes], str | None] | None], ...]
# First bytes of binary files, the name of the format, and the line of Python.
_BINARY: _Kinds = (
    (rb"ARROW1\0\0", "an Arrow IPC file (Feather)", _ARROW.replace("OPEN", "open_file")),
    (rb"\xff{4}", "an Arrow IPC stream", _ARROW.replace("OPEN", "open_stream")),
    (rb"FEA1", "a Feather file", "import pyarrow.feather as f; " + _PARQUET.format("", "f.read_table(FILE)")),
    (rb"ORC", "an ORC file", "import pyarrow.orc as o; " + _PARQUET.format("", "o.read_table(FILE)")),
    (rb"\x93NUMPY", "a NumPy array (.npy)", _array),
    (rb"Obj\x01", "an Avro file", "import polars; polars.read_avro(FILE).write_parquet(OUT.parquet)"),
    (rb"SQLite format 3\0", "a SQLite database", _SQLITE),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook (.xls)", _EXCEL),
    (rb"PK(?![\s\S]{28}\S+\.npy)[\s\S]*(?:\[Content_Types\]|xl/)", "an Excel workbook (.xlsx)", _EXCEL),
    (rb"PK[\s\S]{28}mimetype[\s\S]*opendocument", "an OpenDocument spreadsheet", _EXCEL),
    (rb"<stata_dta>|[\x69-\x73][\x01\x02]\x01\0", "a Stata file", _PANDAS.format("read_stata(FILE)")),
    (rb"\0{12}\xc2\xea\x81\x60", "a SAS file", _PANDAS.format("read_sas(FILE, format='sas7bdat', encoding='utf-8')")),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", None),
    (rb"\x80[\x02-\x05]", "a Python pickle", None),
    (rb"RD[AX][23]\n|X\n\0\0", "an R file", None),
    (rb"\$FL[23]", "an SPSS file", None),
    (rb"MATLAB 5\.0", "a MATLAB file", None),
    (rb"%PDF-", "a PDF document", None),
)
_DIMACS = "e = [l.split()[1:3] for l in TEXT.splitlines() if l[:2] in ('e ', 'a ')]; " + _PAIRS
# The same for text. These apply only if no format is given.
_TEXT: _Kinds = (
    (rb"(?i)(?:\s|%[^\n]*\n)*\*(?:vertices|network)\b", "a Pajek network", _pajek),
    (rb"(?i)\s*dl\b[\s,]*(?:n|nr|nc|nm|format)\s*=", "a UCINET DL file", _ucinet),
    (rb"(?:c[^\n]*\n)*p (?:edge|col|sp)[ \t]+\d+[ \t]+\d+", "a DIMACS graph", _DIMACS),
    (rb"(?i)(?:\s|(?:#|creator|version|comment)[^\n]*\n)*graph\s*\[", "a GML graph", _gml),
    (rb"(?i)\s*<(?:[\s\S]*<)?graphml[\s>]", "a GraphML graph", _GRAPH.format("n.read_graphml(FILE)")),
    (rb"(?i)\s*<(?:[\s\S]*<)?gexf[\s>]", "a GEXF graph", _GRAPH.format("n.read_gexf(FILE)")),
    (rb"(?i)\s*<(?:\?xml|!doctype|html)", "a web page or other XML", None),
    (rb'\s*\{(?=[\s\S]*"nodes"\s*:)[\s\S]*"(?:links|edges)"\s*:', "a JSON graph", _json),
)


def refuse_foreign(path: Path, config: InputConfig) -> None:
    """Refuse a file or directory in a known format that cannot be read.

    Text is only checked if `input.format` is auto.
    """
    if path.is_dir():
        _refuse_directory(path)
        return
    with compression.open_bytes(path) as stream:
        head = stream.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
    kinds = _BINARY if _CONTROL.search(head) else _TEXT if config.format == "auto" else ()
    for pattern, name, line in kinds:
        if re.match(pattern, head):
            raise _refusal(path, path, name, line(head) if callable(line) else line, config)
    if kinds is _TEXT and compression.plain_name(path).endswith(".gmt") and re.match(rb"[^\t\n]+\t[^\t\n]*\t", head):
        raise _refusal(path, path, "sets of genes (.gmt)", _SETS, config)


def _refuse_directory(path: Path) -> None:
    """Refuse a table directory, and any directory within one: its files may hold deleted rows."""
    for place in (path, *path.absolute().parents):
        versions = place.glob("metadata/*.metadata.json")
        latest = max(versions, key=lambda file: int((re.findall(r"\d+", file.name) or "0")[0]), default=None)
        for name, line, source in (
            ("a Delta table", _DELTA, place if (place / "_delta_log").is_dir() else None),
            ("an Iceberg table", _ICEBERG, latest),
            ("a Hudi table", _HUDI, place if (place / ".hoodie").is_dir() else None),
        ):
            if source is not None:
                raise _refusal(path, source, name, line, InputConfig())


def _refusal(path: Path, source: Path, name: str, code: str | None, config: InputConfig) -> InputError:
    expected = f"a format of {setting('input.format')}"
    if code is None:
        remedy = "write its edges as CSV or Parquet with the program that made it"
        return InputError.at(path, found=name, expected=expected, remedy=remedy)
    plain, place, kind = Path(compression.plain_name(path)), repr(str(source)), None
    if path.is_file() and (kind := compression.kind_of(path)):
        code = f"{_UNPACKED[kind].format(place)}; open(FILE, 'wb').write(b); {code}"
        place = repr(f"{plain.stem}-plain{plain.suffix}")
    suffix = re.findall(r"OUT(\.\w+)", code)[0]
    out = f"{plain.stem or 'table'}-edges{suffix}"
    code = code.replace("C()", "C().of_one_set()") if config.is_undirected else code
    code = code.replace("TEXT", "open(FILE, encoding='utf-8-sig').read()")
    code = code.replace(f"OUT{suffix}", repr(out)).replace("FILE", place)
    quoted = shlex.quote(code) if re.search(r'["$`!]|\\\\', code) else f'"{code}"'
    has_header = suffix == ".csv" and "header=False" not in code
    settings: dict[str, object] = {"input.path": out} | ({"input.header": True} if has_header else {})
    remedy = f"run python -c {quoted} and read {out}"
    if has_header:
        remedy += f" with {setting('input.header')} true"
    return InputError.at(path, found=name, expected=expected, remedy=remedy, settings=[settings])
