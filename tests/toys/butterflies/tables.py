"""The published table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config

__all__ = ["schemas"]


def schemas(config: Config, key_types: tuple[pa.DataType, pa.DataType]) -> Mapping[str, pa.Schema]:
    """See `pipeline.problems.base.Publication`."""
    columns = [("left", key_types[0]), ("right", key_types[1]), ("butterflies", pa.int64())]
    if config.problem_section.degrees:
        columns += [("left_degree", pa.int64()), ("right_degree", pa.int64())]
    return {"edges.parquet": pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])}
