"""Page checksums of Parquet: verified if the input has them, written with every table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.steps import enumerate_to
from tests.pipeline.output_support import edge_data, random_pairs, settings

KEYS = {
    "integers": [17 * i % 1009 for i in range(2000)],
    "text": [f"key {17 * i % 1009}" for i in range(2000)],
}
# Longer than a page header, which no checksum covers.
HEADER = 150


def page_contents(path: Path) -> list[range]:
    """Return the byte ranges of the page contents, one data page per column, from the footer."""
    contents = []
    for chunk in chunks(path):
        starts = [start for start in (chunk.dictionary_page_offset, chunk.data_page_offset) if start is not None]
        ends = [*starts[1:], starts[0] + chunk.total_compressed_size]
        contents += [range(start + HEADER, end) for start, end in zip(starts, ends, strict=True)]
    return contents


def chunks(path: Path) -> list[pq.ColumnChunkMetaData]:
    group = pq.read_metadata(path).row_group(0)
    return [group.column(i) for i in range(group.num_columns)]


def flipped(path: Path, position: int, damaged: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    damaged.write_bytes(content)
    return damaged


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False}, {"compression": "none"}, {"data_page_version": "2.0"}], ids=str
)
@pytest.mark.parametrize("directory", [False, True])
def test_flipped_bytes_are_found(tmp_path: Path, case: str, options: dict[str, object], directory: bool) -> None:
    whole, damaged = tmp_path / "whole.parquet", tmp_path / "damaged" / "part.parquet"
    damaged.parent.mkdir()
    table = pa.table({"left": KEYS[case], "right": list(range(2000))})
    pq.write_table(table, whole, write_page_checksum=True, **options)
    for content in page_contents(whole):
        assert len(content) > 100
        for position in content[:: len(content) // 10]:
            flipped(whole, position, damaged)
            with pytest.raises(InputError, match=r"not readable as Parquet .*CRC checksum verification failed"):
                ingest(InputConfig(path=str(damaged.parent if directory else damaged)))
    # Only the byte was at fault.
    damaged.write_bytes(whole.read_bytes())
    assert ingest(InputConfig(path=str(damaged))).facts.rows_read == 2000


def test_without_checksums_a_flipped_byte_may_pass(tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole.parquet", tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"left": [1, 2], "right": [3, 4]}), whole, compression="none", use_dictionary=False)
    position = page_contents(whole)[-1].stop - 16
    assert whole.read_bytes()[position:].startswith((3).to_bytes(8, "little"))
    assert ingest(InputConfig(path=str(flipped(whole, position, damaged)))).right_keys.to_pylist() == [4, 3 + 0x10]


def test_every_published_table_has_them(tmp_path: Path) -> None:
    edges = edge_data(random_pairs(7))
    enumerate_to(edges, settings(tmp_path, output={"directory": str(tmp_path), "members": True}), tmp_path)
    tables = sorted(tmp_path.rglob("*.parquet"))
    assert len(tables) == 5
    for path in tables:
        # The last byte of each column belongs to a page's content.
        for chunk in chunks(path):
            end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
            damaged = flipped(path, end - 1, tmp_path / "damaged")
            with pytest.raises(OSError, match="CRC checksum verification failed"):
                pq.ParquetFile(damaged, page_checksum_verification=True).read()
