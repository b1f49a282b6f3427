"""Detection of page checksums in Parquet files; no GPU is needed."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from mbe_stage.pipeline.backends.cudf.files import have_page_checksums, is_followed_by_checksum

TABLE = pa.table({"nested": pa.array([{"u": 1}] * 1000), "u": pa.array(range(1000)), "s": ["long " * 50] * 1000})


def written(table: pa.Table = TABLE, **options: object) -> pa.Buffer:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return pa.py_buffer(sink.getvalue())


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("name", ["u", "s"])
def test_all_writer_settings(checksums: bool, version: str, compression: str, dictionary: bool, name: str) -> None:
    file = written(
        write_page_checksum=checksums, data_page_version=version, compression=compression, use_dictionary=dictionary
    )
    assert have_page_checksums([file], [name]) == checksums


def test_any_file_counts() -> None:
    without, sink = written(), io.BytesIO()
    pq.ParquetWriter(sink, TABLE.schema).close()
    files = [without, pa.py_buffer(sink.getvalue())]
    assert have_page_checksums(files, ["u"]) is False
    assert have_page_checksums([*files, written(write_page_checksum=True)], ["u"]) is True


@pytest.mark.parametrize("checksums", [False, True])
def test_a_path(tmp_path: Path, checksums: bool) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(TABLE, path, write_page_checksum=checksums)
    assert have_page_checksums([path], ["u"]) == checksums


@pytest.mark.parametrize("header", [b"", b"\x15", b"\x15\x00\x15\x80", b"\x15\x00\x15\x10\x15\x10\x2c", b"PAR1" * 6])
def test_headers_without_a_checksum(header: bytes) -> None:
    assert not is_followed_by_checksum(header)
