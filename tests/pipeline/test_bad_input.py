"""Unusable input is refused in one line: where, what was found, what was expected, the remedy."""

from __future__ import annotations

import gzip
import io
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet as pq

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import ConfigError, InputError, exit_code
from mbe_stage.pipeline.execution.ingest import ingest
from tests.pipeline.input_support import COMPRESSIONS, FORMATS, LEFT, RIGHT, tar, to_konect, to_parquet, to_text


def refusal(path: Path | None = None, source: object | None = None, **settings: object) -> str:
    """Return the refusal's message, which must be one line with its parts in order."""
    config = InputConfig(path=None if path is None else str(path), **settings)
    with pytest.raises(InputError) as caught:
        ingest(config, source=source)
    message = str(caught.value)
    assert "\n" not in message
    assert "; expected " in message
    assert exit_code(caught.value) == 2
    # Refusals have no library's traceback behind them.
    assert caught.value.__cause__ is None
    assert path is None or str(path) in message
    return message


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


TEXTS = {
    # case: (file name, content, settings, part of the message)
    "csv: field too many": (
        "e.csv",
        "user,item\n1,2\n\n3,4,5\n",
        {},
        ["line 4: 3 fields in the line '3,4,5'", "expected 2 fields", "input.delimiter"],
    ),
    "csv: field missing": ("e.csv", "1,2\n3\n", {}, ["line 2: one field in the line '3'", "expected 2 fields"]),
    "csv: wrong delimiter": (
        "e.csv",
        "1;2\n3;4\n",
        {"delimiter": ","},
        ["line 1: one column with the delimiter ',': '1;2'", "at least two columns", "input.delimiter to semicolon"],
    ),
    "csv: one column": ("e.csv", "alice\nbob\n", {}, ["line 1: one column", "'alice'", "input.format"]),
    "csv: long delimiter": ("e.csv", "1:-2\n", {"delimiter": ":-"}, ["input.delimiter ':-'", "one ASCII character"]),
    "csv: missing column": (
        "e.csv",
        "user,item\n1,2\n",
        {"left": "usr", "right": "item"},
        ["no column 'usr' for input.left", "0 'user', 1 'item'"],
    ),
    "csv: position beyond": (
        "e.csv",
        "1,2\n",
        {"right": 2},
        ["no column at position 2 for input.right", "1 'column 1'"],
    ),
    "csv: weight column missing": (
        "e.csv",
        "user,item\n1,2\n",
        {"weight": "w"},
        ["no column 'w' for input.weight", "0 'user', 1 'item'"],
    ),
    "csv: same column twice": ("e.csv", "1,2\n", {"right": 0}, ["both column 0", "choose two"]),
    "csv: name twice": (
        "e.csv",
        "user,user,item\n1,2,3\n",
        {"left": "user", "right": "item"},
        ["2 columns are named 'user'", "position"],
    ),
    "csv: header or not": (
        "e.csv",
        "alice,apples\nbob,pears\n",
        {},
        ["line 1: 'alice, apples', which may be a header or an edge", "say which with input.header (true or false)"],
    ),
    "csv: null": (
        "e.csv",
        "user,item\n1,2\n\n3,\n5,6\n,7\n",
        {},
        ["line 4", "column 'item'", "no value (1 of 4", "input.nulls to drop"],
    ),
    "csv: one side all null": ("e.csv", "user,item\n1,\n3,\n", {}, ["line 2", "'item'", "all 2 values are null"]),
    "csv: quoted empty is null": ("e.csv", 'user,item\n1,""\n', {}, ["line 2", "column 'item'", "input.nulls"]),
    "csv: unclosed quote": ("e.csv", 'user,item\n1,2\n3,"4\n5,6\n', {}, ["line 3", "a quote", "correct the quotes"]),
    "csv: unclosed last quote": ("e.csv", 'user,item\n1,2\n3,"4', {}, ["line 3", "a quote"]),
    "csv: two unclosed quotes": ("e.csv", 'user,item\n1,"2\n3,4\n5,"6\n', {}, ["line 2", "a quote"]),
    "csv: Latin-1": (
        "e.csv",
        "user,item\n1,a\n2,é\n".encode("latin-1"),
        {},
        ["line 3: bytes that are not UTF-8", "'2, ", "convert the file to UTF-8"],
    ),
    "csv: not an integer": (
        "e.csv",
        "user,item\n1,2\n3,x4\n5,6\n",
        {"key_type": "integer"},
        ["line 3", "column 'item'", "the key 'x4' in the line '3, x4'", "an integer", "key_type to string"],
    ),
    "csv: beyond int64": (
        "e.csv",
        "1,2\n3,9223372036854775808\n",
        {},
        ["line 2", "column 'column 1'", "'9223372036854775808', beyond int64", "key_type to string"],
    ),
    "csv: weight no number": (
        "e.csv",
        "user,item,w\n1,2,0.5\n1,3,heavy\n",
        {"weight": "w", "min_weight": 0.1},
        ["line 3", "column 'w'", "'heavy' in the line", "a number"],
    ),
    "csv: weight no number after one that is none": (
        "e.csv",
        "user,item,w\n1,2,nan\n1,3,inf\n1,4,heavy\n",
        {"weight": "w", "min_weight": 0.1, "nulls": "drop"},
        ["line 4", "column 'w'", "'heavy' in the line", "a number"],
    ),
    "csv: time no time": (
        "e.csv",
        "user,item,t\n1,2,2024-01-01\n1,3,yesterday\n",
        {"timestamp": "t", "time_from": "2024-01-01"},
        ["line 3", "column 't'", "'yesterday'", "ISO-8601"],
    ),
    "csv: header only": ("e.csv", "user,item\n", {}, ["no edges", "both sides are empty"]),
    "csv: blank": ("e.csv", "\n\n\n", {}, ["no rows"]),
    "konect: malformed": (
        "out.g",
        "% bip\n1 2\n3 4\n\n5\n6 7\n",
        {},
        ["line 5: one field in the line '5'", "2 fields, as in the first line", "correct the line"],
    ),
    "konect: not an integer": (
        "out.g",
        "% bip\n1 2\n% c\n3 x\n",
        {},
        ["line 4", "column 'right'", "'x' in the line '3 x'", "key_type to string"],
    ),
    "konect: one field": ("out.g", "% bip\n1\n2\n", {}, ["line 2: one field", "expected 2 fields"]),
    "konect: comments only": ("out.g", "% bip\n% none\n", {}, ["no data line"]),
    "konect: no timestamp": (
        "out.g",
        "1 2 1\n",
        {"timestamp": "timestamp"},
        ["no column 'timestamp'", "0 'left', 1 'right', 2 'weight'"],
    ),
    "snap: malformed": (
        "e.txt",
        "# c\n1\t2\n3 4 5\n",
        {},
        ["line 3: 3 fields in the line '3 4 5'", "2 fields", "input.format to fimi"],
    ),
    "snap: commas": (
        "e.txt",
        "# c\n1,2\n",
        {"format": "snap"},
        ["line 2: one field in the line '1,2'", "input.format"],
    ),
    "snap: beyond int64": (
        "e.txt",
        "# c\n1\t2\n18446744073709551616\t3\n",
        {},
        ["line 3", "column 'left'", "'18446744073709551616', beyond int64", "key_type to string"],
    ),
    "snap: fraction": ("e.txt", "# c\n1 2\n1.5 2\n", {}, ["line 3", "'1.5'", "an integer"]),
    "snap: not UTF-8": ("e.txt", b"# c\n1 2\n3 \xff\n", {}, ["line 3: bytes that are not UTF-8", "UTF-8"]),
    "snap: old line ends": ("e.txt", b"# c\r1 2\n3 4\r", {}, ["carriage return", "convert the line endings"]),
    "fimi: not an integer": (
        "e.fimi",
        "1 2\n\n3 milk\n",
        {"format": "fimi"},
        ["line 3", "column 'item'", "'milk'", "'3 milk'"],
    ),
    "fimi: not UTF-8": ("e.fimi", b"1 2\n\xff\n", {"format": "fimi"}, ["line 2: bytes that are not UTF-8"]),
    "fimi: nothing": ("e.fimi", "\n\n", {}, ["no items"]),
    "fimi: no weights": (
        "e.fimi",
        "1 2\n",
        {"format": "fimi", "weight": 4},
        ["no column at position 4", "0 'transaction', 1 'item'"],
    ),
    "mtx: malformed": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 1\n2 x 1\n",
        {},
        ["line 4", "Invalid integer value", "in the line '2 x 1'", "Matrix Market", "correct that line"],
    ),
    "mtx: index beyond the shape": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n2 3\n",
        {},
        ["line 4", "out of bounds", "in the line '2 3'"],
    ),
    "mtx: entries missing": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n",
        {},
        ["not a readable matrix", "check that the file is complete"],
    ),
    "mtx: one side empty": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 0 0\n",
        {},
        ["shape 2 x 0", "nothing on one side"],
    ),
    "mtx: only zeros": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 0\n",
        {},
        ["no edges"],
    ),
    "mtx: NUL byte": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\0\n2 2\n",
        {},
        ["line 3: a NUL byte", "Matrix Market text"],
    ),
    # SciPy's reader crashes on this file.
    "mtx: last line not ended": (
        "e.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n2 2 3\n1 1\n2 2-",
        {},
        ["not a readable matrix", "check that the file is complete"],
    ),
    "mtx: huge size line": (
        "e.mtx",
        "%%MatrixMarket matrix array real general\n900000000 900000000\n1\n",
        {},
        ["not a readable matrix"],
    ),
    "unknown text": ("notes.txt", "Dear reader,\n\nhello\n", {}, ["in no recognised format", "input.format"]),
    "edges or transactions": ("e.dat", "1 2\n3 4\n", {}, ["edges or transactions", "snap or to fimi"]),
    "empty file": ("e.csv", "", {}, ["an empty file", "edges"]),
    "binary garbage": ("e", bytes(range(256)) * 20, {}, ["binary data", "input.format"]),
    "zip": ("e.zip", b"PK\x03\x04" + bytes(100), {}, ["a zip archive", "unpack"]),
    "parquet: garbage": ("e.parquet", b"garbage" * 20, {}, ["not readable as Parquet", "input.format"]),
    "parquet: truncated": ("e.parquet", to_parquet(LEFT, RIGHT)[:-20], {}, ["not readable as Parquet", "complete"]),
    "npz: garbage": ("e.npz", b"garbage" * 20, {}, ["not a readable NumPy archive", "numpy.savez"]),
    "tar without out.*": (
        "e.tar",
        tar({"g/README": b"x", "g/edges.txt": b"1 2"}),
        {},
        ["'g/README', 'g/edges.txt'", "out.*", "unpack"],
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_files(tmp_path: Path, case: str) -> None:
    name, content, settings, fragments = TEXTS[case]
    message = refusal(written(tmp_path, name, content), **settings)
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("case", ["csv", "konect", "snap", "fimi", "parquet", "npz", "matrix_market"])
def test_truncated_compressed_file(tmp_path: Path, case: str, compression: str) -> None:
    name, _, write = FORMATS[case]
    rng = np.random.default_rng(0)
    whole = COMPRESSIONS[compression](write(rng.integers(1, 10**4, 5000), rng.integers(1, 10**4, 5000)))
    for size in (len(whole) // 2, len(whole) - 5):
        message = refusal(written(tmp_path, name + compression, whole[:size]))
        assert "truncated or damaged" in message
        assert "copy the file again" in message


def test_truncated_tar(tmp_path: Path) -> None:
    archive = tar({"README": b"x" * 3000, "out.g": to_konect(LEFT, RIGHT) * 100})
    for size in (1000, 3000, 5000):
        assert "truncated or damaged tar archive" in refusal(written(tmp_path, "g.tar", archive[:size]))
    packed = gzip.compress(archive)
    assert "truncated or damaged gzip data" in refusal(written(tmp_path, "g.tar.gz", packed[: len(packed) // 2]))


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    written(tmp_path, "edges.csv", "1,2\n")
    message = refusal(tmp_path / "egdes.csv")
    assert "no such file" in message
    assert f"did you mean '{tmp_path / 'edges.csv'}'?" in message
    assert "and no directory" in refusal(tmp_path / "nowhere" / "edges.csv")
    assert "download remote data first" in refusal(Path("other://host/edges.csv"))
    assert "set input.path" in refusal()
    assert "no such file" in refusal(Path("~nobody-of-that-name/edges.csv"))
    assert "cannot be read" in refusal(tmp_path / ("x" * 300))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read" in refusal(tmp_path / "loop")


@pytest.mark.parametrize("address", ["s3://bucket/edges.csv", "https://host/edges.csv"])
def test_an_address_that_lost_a_slash_names_the_one_that_is_meant(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"expected {re.escape(address)}; give it as text"):
        ingest(InputConfig(path=str(Path(address))))


def test_directories(tmp_path: Path) -> None:
    assert "a directory of nothing" in refusal(tmp_path)
    written(tmp_path, "a.csv", "1,2\n")
    written(tmp_path, "out.a", "1 2\n")
    written(tmp_path, "out.b", "1 2\n")
    message = refusal(tmp_path)
    assert "a directory of 'a.csv'" in message
    assert "give one of the files in it" in message
    assert "expected a file in the format csv" in refusal(tmp_path, format="csv")
    for name in ("out.a", "out.b"):
        (tmp_path / name).unlink()
    assert "without .parquet files" in refusal(tmp_path, format="parquet")
    assert "0 files out.*" in refusal(tmp_path, format="konect")


def test_parquet_directory_with_one_bad_file(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", to_parquet(LEFT, RIGHT))
    bad = written(tmp_path, "b.parquet", b"garbage")
    assert str(bad) in refusal(tmp_path)
    pq.write_table(pa.table({"user": [1], "thing": [2]}), bad)
    message = refusal(tmp_path, left="user", right="item")
    assert f"{bad}: no column 'item'" in message
    assert "'user', 'thing'" in message
    pq.write_table(pa.table({"user": ["x"], "item": [2]}), bad)
    message = refusal(tmp_path)
    assert str(bad) in message
    assert "user" in message
    pq.write_table(pa.table({"user": [3, None], "item": [2, 2]}), bad)
    message = refusal(tmp_path)
    assert f"{bad}, row 2, column 'user'" in message


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "e.csv", "1,2\n")
    if os.geteuid() == 0:
        # Root may read everything, so let the system call fail as it would for other users.
        def forbidden(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", forbidden)
    else:
        path.chmod(0)
    message = refusal(path)
    assert "permission denied" in message
    assert "chmod a+r e.csv" in message


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe, socket or device" in refusal(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("arrays", "settings", "fragments"),
    [
        ({"src": LEFT, "dst": RIGHT}, {}, ["arrays 'src', 'dst'", "u (left) and v (right)", "input.left"]),
        ({"u": LEFT, "v": RIGHT[:3]}, {}, ["column 'v'", "3 entries", "7, as in 'u'"]),
        ({"u": LEFT, "v": RIGHT}, {"left": "w"}, ["no column 'w'", "0 'u', 1 'v'"]),
        ({"u": LEFT, "v": RIGHT + 0.5}, {}, ["row 1", "column 'v'", "the number 9.5", "whole"]),
        ({"u": LEFT, "v": RIGHT > 3}, {}, ["column 'v'", "type bool", "integers or text"]),
        ({"u": LEFT, "v": RIGHT.astype(complex)}, {}, ["whose type cannot be keys"]),
        ({"u": LEFT, "v": np.array([{}] * 7, object)}, {}, ["not a readable NumPy archive"]),
        ({"u": LEFT[:0], "v": RIGHT[:0]}, {}, ["no edges"]),
        ({}, {}, ["arrays none"]),
        ({"u": LEFT.reshape(7, 1), "v": RIGHT}, {}, ["no column at position 1", "0 'v'"]),
        (
            {"u": LEFT.reshape(7, 1), "v": RIGHT.reshape(7, 1)},
            {},
            ["no one-dimensional array ('u' (7, 1), 'v' (7, 1))"],
        ),
    ],
)
def test_npz(tmp_path: Path, arrays: dict[str, np.ndarray], settings: dict[str, object], fragments: list[str]) -> None:
    np.savez(tmp_path / "e.npz", **arrays)
    message = refusal(tmp_path / "e.npz", **settings)
    for fragment in fragments:
        assert fragment in message


def test_npz_whose_sparse_matrix_contradicts_itself(tmp_path: Path) -> None:
    sink = io.BytesIO()
    matrix = scipy.sparse.csr_array(np.eye(3))
    np.savez(
        sink, format=b"csr", shape=matrix.shape, data=matrix.data, indices=matrix.indices + 7, indptr=matrix.indptr
    )
    assert "contradicts itself" in refusal(written(tmp_path, "e.npz", sink.getvalue()))


@pytest.mark.parametrize(
    ("source", "settings", "fragments"),
    [
        (pa.table({"a": [True], "b": [1]}), {}, ["memory:pyarrow", "column 'a'", "type bool"]),
        (pa.table({"a": [[1]], "b": [1]}), {}, ["column 'a'", "list<"]),
        (pd.DataFrame({"a": [pd.Timestamp(0)], "b": [1]}), {}, ["memory:pandas", "column 'a'", "timestamp"]),
        (pd.DataFrame({"a": [1.0, 2.5], "b": [1, 2]}), {}, ["row 2", "column 'a'", "2.5"]),
        (pd.DataFrame({"a": [1.0, None], "b": [1, 2]}), {}, ["row 2", "column 'a'", "no value", "input.nulls"]),
        (pd.DataFrame({"a": [1, "x"], "b": [1, 2]}), {}, ["column 'a'", "mixed types", "astype(str)"]),
        (pd.DataFrame({"a": ["x", ""], "b": [1, 2]}), {}, ["row 2", "column 'a'", "no value"]),
        (pd.DataFrame({"a": [1], "b": [2]}), {"left": "c"}, ["no column 'c'", "0 'a', 1 'b'"]),
        ((np.array([1, 2**63], np.uint64), [1, 2]), {}, ["row 2", "9223372036854775808", "key_type to string"]),
        ((np.array([1, 2]), np.array([1])), {}, ["different lengths (left 2, right 1)"]),
        ((np.ones((2, 2), int), np.array([1])), {}, ["column 'left'", "2 dimensions"]),
        ((np.array([1]),), {}, ["a tuple of 1"]),
        ((("a", "x"), ("b", "y")), {}, ["could be two edges or two columns", "(['a', 'b'], ['x', 'y']) if these are"]),
        (np.full((5, 5), 2), {}, ["shape (5, 5)", "SciPy sparse"]),
        (np.eye(5) * 2, {}, ["shape (5, 5)", "biadjacency"]),
        (([], []), {}, ["no edges", "both sides are empty"]),
        (scipy.sparse.csr_array((0, 5)), {}, ["0 x 5", "one side"]),
        (scipy.sparse.csr_array((4, 5)), {}, ["no edges"]),
        ({"a": 1}, {}, ["type dict", "pyarrow.table"]),
        ([(1, 2)], {}, ["type list", "pyarrow.table"]),
        ((np.array([b"\xff"]), np.array([1])), {}, ["column 'left'", "not UTF-8"]),
        ((["a", "b"], ["x", "x"]), {"key_type": "integer"}, ["row 1", "column 'left'", "'a'", "key_type"]),
    ],
)
def test_objects(source: object, settings: dict[str, object], fragments: list[str]) -> None:
    message = refusal(source=source, **settings)
    for fragment in fragments:
        assert fragment in message


def test_filters_that_leave_nothing_say_which(tmp_path: Path) -> None:
    path = written(tmp_path, "e.csv", "user,item,w,t\n1,2,0.5,10\n3,4,0.7,20\n")
    message = refusal(path, weight="w", min_weight=1)
    assert "all 2 rows were dropped: 2 by weight (input.min_weight is 1.0)" in message
    message = refusal(path, timestamp="t", time_from=30)
    assert "dropped: 2 by time (input.time_from is 30" in message
    message = refusal(path, weight="w", min_weight=0.6, timestamp="t", time_until=15)
    assert "dropped: 1 by weight" in message
    assert "1 by time" in message
    message = refusal(written(tmp_path, "n.csv", "user,item\n1,\n,4\n"), nulls="drop")
    assert "dropped: 2 by null (input.nulls is drop)" in message


def test_an_error_after_filters_names_the_row_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "e.csv", "user,item,w\n1,2,0\n,2,9\n3,4,9\n5,x,9\n")
    message = refusal(path, nulls="drop", weight="w", min_weight=1, key_type="integer")
    assert f"{path}, line 5, column 'item': the key 'x' in the line '5, x, 9'" in message


def test_bounds_that_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, "e.csv", "user,item,t\n1,2,1700000000000\n")
    message = refusal(path, timestamp="t", time_from="2024-01-01")
    assert "not seconds since 1970" in message
    message = refusal(path, timestamp="t", time_from="soon")
    assert "input.time_from is 'soon'" in message
    message = refusal(written(tmp_path, "f.csv", "user,item,t\n1,2,2024-01-01\n"), timestamp="t", time_until=5)
    assert "input.time_until is the number 5" in message
    message = refusal(source=(["a"], ["b"], [1.0], [True]), timestamp=3, time_until=5)
    assert "column 'timestamp': values of type bool" in message


def test_long_values_are_cut_in_messages(tmp_path: Path) -> None:
    path = written(tmp_path, "e.csv", "1,2\n3," + "x" * 100_000 + "\n")
    message = refusal(path, key_type="integer")
    assert len(message) < 1000
    assert "line 2" in message


def test_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.io.text.whitespace._LONGEST_LINE", 1 << 20)
    monkeypatch.setattr("mbe_stage.pipeline.io.text.whitespace._BLOCK_BYTES", 1 << 19)
    path = written(tmp_path, "e.txt", b"# c\n" + b"1" * (3 << 20))
    assert "a line of more than 1 MiB" in refusal(path, format="snap")


@pytest.mark.parametrize("format_name", ["csv", "konect", "snap", "fimi", "npz", "matrix_market", "parquet"])
def test_the_wrong_format_by_configuration(tmp_path: Path, format_name: str) -> None:
    path = written(tmp_path, "e.bin", np.random.default_rng(1).bytes(5000))
    refusal(path, format=format_name)
    # A Parquet file read as text, and text read as Parquet.
    content = to_text(LEFT, RIGHT) if format_name == "parquet" else to_parquet(LEFT, RIGHT)
    refusal(written(tmp_path, "f.bin", content), format=format_name)


@pytest.mark.parametrize(("typed", "meant"), [("acount", "account"), ("Account", "account"), ("DAY", "day")])
def test_a_mistyped_column_suggests_the_nearest(tmp_path: Path, typed: str, meant: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text("account,day\na,1\n")
    with pytest.raises(InputError, match=f"did you mean '{meant}'. set input.left to one of these names"):
        ingest(InputConfig(path=str(path), left=typed))
    with pytest.raises(InputError) as far:
        ingest(InputConfig(path=str(path), left="zzzz"))
    assert "did you mean" not in str(far.value)
