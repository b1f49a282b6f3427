"""Search members with DuckDB, which is cut off from files, the network and Python variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.reading import reading

_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_NAMES = ("side", "key", "score", "n_groups", "degree")
_BATCH = 1 << 16
MOST_FOUND = 50
"""Maximum number of members in a search result."""

_SEARCH = f"""
    SELECT * FROM (SELECT CAST(side AS VARCHAR) AS side, CAST(key AS VARCHAR) AS key, {", ".join(_NAMES[2:])}
        FROM vertex_scores)
    WHERE contains(lower(key), lower($1))
    ORDER BY key = $1 DESC, starts_with(lower(key), lower($1)) DESC, score DESC, side, key LIMIT {MOST_FOUND}
"""


def closed_database(**tables: pa.RecordBatchReader) -> duckdb.DuckDBPyConnection:
    """Return a database that has only these tables and can access nothing else."""
    connection = duckdb.connect(config=_CLOSED)
    for name, batches in tables.items():
        connection.register(name, batches)
    return connection.execute("SET lock_configuration = true")


def search(run_path: Path, text: str) -> list[dict[str, Any]]:
    """Return the vertices whose key contains this text, ignoring case: exact matches first, then by score.

    The scores of all vertices may not fit into memory, so they are streamed through the query.
    """
    with reading(run_path), pq.ParquetFile(run_path / "vertex_scores.parquet", pre_buffer=False) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in _NAMES])
        scores = pa.RecordBatchReader.from_batches(schema, file.iter_batches(_BATCH, columns=[*_NAMES]))
        try:
            with closed_database(vertex_scores=scores) as database:
                rows = database.execute(_SEARCH, [text]).fetchall()
        except duckdb.Error as error:
            what = " ".join(str(error).split())
            raise PublishError(
                f"{run_path}: its scores cannot be searched ({what}); expected a published run; see mbe verify"
            ) from error
    return [dict(zip(_NAMES, row, strict=True)) for row in rows]
