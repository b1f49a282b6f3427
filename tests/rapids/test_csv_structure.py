"""Delimited files that cuDF may read; runs on NumPy without a GPU."""

from __future__ import annotations

import csv
import io
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbe_stage.pipeline.backends.backend import HostNeeded
from mbe_stage.pipeline.io.text.dialect import Dialect
from tests.rapids.on_numpy import imported


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return imported("mbe_stage.pipeline.backends.cudf.byte_checks", monkeypatch)


def count(structure: ModuleType, content: bytes, n_columns: int = 2, delimiter: str = ",") -> int:
    dialect = Dialect(delimiter, [f"column {i}" for i in range(n_columns)], 0)
    return structure.count_rows(io.BufferedReader(io.BytesIO(content)), dialect)


@pytest.mark.parametrize(
    ("content", "n_rows"),
    [
        (b"1,2\n3,4\n", 2),
        (b"1,2\n3,4", 2),
        (b"1,2\r\n\r\n3,4\r\n", 2),
        (b"\n\n1,2\n\n3,4\n\n", 2),
        (b",\n1,\n,2\n", 3),
        (b'"1","2"\n"a,b","c""d"\n', 2),
        (b'"",""\n', 1),
        (b'a,""""\n', 1),
        (b" ,  \n", 1),
        ("é,🦉\n".encode(), 1),
        (b"1,2", 1),
        (b"\n", 0),
    ],
)
def test_regular_files_are_counted(structure: ModuleType, content: bytes, n_rows: int) -> None:
    assert count(structure, content) == n_rows


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"1,2\n3\n", "rows of other than 2 fields"),
        (b"1,2\n3,4,5\n", "rows of other than 2 fields"),
        (b"1,2\n \n", "rows of other than 2 fields"),
        (b'1,"2\n3",4\n', "not closed on its line"),
        (b'1,2\n3,"4', "not closed on its line"),
        (b'1,a"b\n', "a quote inside a field"),
        (b'1,"a"b\n', "a quote inside a field"),
        (b'1,"a" \n', "a quote inside a field"),
        (b'"1"2","3"\n', "a quote inside a field"),
        (b"1,2\r3,4\r", "a carriage return"),
        (b"1,2\r3,4\n", "a carriage return"),
        (b"1,2\n3,4\r", "a carriage return"),
        (b"1,\0\n", "NUL bytes"),
        (b"\xef\xbb\xbf1,2\n", "a byte order mark"),
    ],
)
def test_irregular_files_are_left_to_the_host(structure: ModuleType, content: bytes, reason: str) -> None:
    with pytest.raises(HostNeeded, match=reason):
        count(structure, content)


@given(
    rows=st.lists(st.lists(st.text("ab,;\"'é🦉 0", max_size=4), min_size=3, max_size=3), min_size=1, max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    piece_bytes=st.sampled_from([1, 5, 1 << 20]),
)
def test_csv_writer_output_is_regular(rows: list[list[str]], quoting: int, line_end: str, piece_bytes: int) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator=line_end).writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        structure = imported("mbe_stage.pipeline.backends.cudf.byte_checks", patch)
        patch.setattr(structure, "_PIECE_BYTES", piece_bytes)
        assert count(structure, text.getvalue().encode(), 3) == len(rows)


@given(st.lists(st.sampled_from(["a", "1", ",", '"', "\n", "\r\n"]), max_size=12).map("".join))
def test_regular_files_are_read_as_by_python(content: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        structure = imported("mbe_stage.pipeline.backends.cudf.byte_checks", patch)
        try:
            n_rows = count(structure, content.encode())
        except HostNeeded:
            return
    rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row]
    assert n_rows == len(rows)
    assert all(len(row) == 2 for row in rows)
