"""Input files of cuDF: their names, and the facts in Parquet footers that cuDF ignores."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# fsspec, which cuDF uses to open files, reads these characters as patterns, chains or protocols.
_SPECIAL = frozenset("*?[]:~")

# Type and two sizes, at most five bytes each with a byte before each, and the first byte of the next field.
_HEADER_BYTES = 24
# A compact field header: number one above the previous field's, type i32.
_NEXT_INTEGER = 0x15


def opened(paths: Sequence[Path]) -> list[str] | list[io.BytesIO]:
    """Return the files' names or, if a name could be misread, their contents."""
    if any(_SPECIAL & set(str(path)) for path in paths):
        return [io.BytesIO(path.read_bytes()) for path in paths]
    return [str(path.absolute()) for path in paths]


def integer_bounds(name: str, footers: Iterable[pq.FileMetaData]) -> tuple[int, int, int] | None:
    """Return least value, largest value and number of nulls of a column of signed integers, by the footers.

    None if a footer has no bounds, or all values are null.
    """
    least, largest, n_nulls = [], [], 0
    for footer in footers:
        position = [footer.schema.column(i).path for i in range(footer.num_columns)].index(name)
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(position)
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            n_nulls += statistics.null_count
            if statistics.null_count == chunk.num_values:
                continue
            if not statistics.has_min_max:
                return None
            least.append(int(statistics.min))
            largest.append(int(statistics.max))
    return (min(least), max(largest), n_nulls) if least else None


def have_page_checksums(files: Sequence[Path] | Sequence[pa.Buffer], names: Iterable[str]) -> bool:
    """Return whether the first page of any of these columns, in any of the files, has a checksum; none is nested."""
    wanted = set(names)
    for source in files:
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
            footer = pq.read_metadata(file)
            for i in range(footer.num_columns if footer.num_row_groups else 0):
                chunk = footer.row_group(0).column(i)
                if chunk.path_in_schema in wanted:
                    file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                    if is_followed_by_checksum(file.read(_HEADER_BYTES)):
                        return True
    return False


def is_followed_by_checksum(header: bytes) -> bool:
    """Return whether a page's header has a checksum after its type and its two sizes."""
    position = 0
    for _ in range(3):
        if header[position : position + 1] != bytes([_NEXT_INTEGER]):
            return False
        position += 1
        while position < len(header) and header[position] & 0x80:
            position += 1
        position += 1
    return header[position : position + 1] == bytes([_NEXT_INTEGER])
