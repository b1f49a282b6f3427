"""Bounds in Parquet footers; no GPU is needed."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from mbe_stage.pipeline.backends.cudf.files import integer_bounds


def footer(values: list[int | None], **options: object) -> pq.FileMetaData:
    sink = io.BytesIO()
    nested = pa.array([{"x": 1, "u": 99}] * len(values))
    pq.write_table(pa.table({"s": nested, "u": pa.array(values, pa.int32())}), sink, row_group_size=2, **options)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([3, -1, 7], (-1, 7, 0)),
        ([None, 5, None, None, 4], (4, 5, 3)),
        ([0], (0, 0, 0)),
        ([None, None], None),
        ([], None),
    ],
)
def test_over_all_row_groups(values: list[int | None], bounds: tuple[int, int, int] | None) -> None:
    assert integer_bounds("u", [footer(values)]) == bounds


def test_over_all_files() -> None:
    assert integer_bounds("u", [footer([3, 4]), footer([None, None]), footer([-2])]) == (-2, 4, 2)


def test_a_footer_without_bounds() -> None:
    assert integer_bounds("u", [footer([3, 4]), footer([5], write_statistics=False)]) is None
