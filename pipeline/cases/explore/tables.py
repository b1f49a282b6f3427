"""The tables of a run, asked by DuckDB, which can reach nothing else: no file, no network, no Python variable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.published import rows_of_groups
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.reading import reading

_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_SCORES = ("side", "key", "score", "n_groups", "degree")
_BATCH = 1 << 16
MOST_FOUND = 50
"""Members that a search shows."""


class RunTables:
    """The edges and scores of a run with groups. All values are bound, never written into a query."""

    def __init__(self, run_path: Path) -> None:
        self._run_path = run_path
        self._connection = duckdb.connect(config=_CLOSED)
        for name in ("group_members", "group_edges"):
            self._connection.register(name, rows_of_groups(run_path, name))
        self._connection.execute("SET lock_configuration = true")

    def edges(self, groups: Sequence[int], left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]]:
        """Return the distinct edges of some groups between some members, by their keys."""
        return self._asked(_EDGES, [list(groups), list(left), list(right)])

    def search(self, text: str) -> list[dict[str, Any]]:
        """Return the vertices whose key has this text, in any case: exact matches first, then by score.

        The scores of all vertices may not fit into memory, so they are streamed through the query.
        """
        with (
            reading(self._run_path),
            pq.ParquetFile(self._run_path / "vertex_scores.parquet", pre_buffer=False) as file,
        ):
            schema = pa.schema([file.schema_arrow.field(name) for name in _SCORES])
            batches = pa.RecordBatchReader.from_batches(schema, file.iter_batches(_BATCH, columns=[*_SCORES]))
            self._connection.register("vertex_scores", batches)
            try:
                rows = self._asked(_SEARCH, [text, text, text, MOST_FOUND])
            finally:
                self._connection.unregister("vertex_scores")
        return [dict(zip(_SCORES, row, strict=True)) for row in rows]

    def _asked(self, query: str, values: list[Any]) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except duckdb.Error as error:
            what = " ".join(str(error).split())
            raise PublishError(
                f"{self._run_path}: its tables cannot be searched ({what}); expected a published run; see mbe verify"
            ) from error


_EDGES = """
    SELECT DISTINCT CAST(l.key AS VARCHAR), CAST(r.key AS VARCHAR) FROM group_edges e
    JOIN group_members l ON l.group_key = e.group_key AND l.vertex = e.left AND CAST(l.side AS VARCHAR) = 'left'
    JOIN group_members r ON r.group_key = e.group_key AND r.vertex = e.right AND CAST(r.side AS VARCHAR) = 'right'
    WHERE e.group_key IN (SELECT unnest(?))
        AND CAST(l.key AS VARCHAR) IN (SELECT unnest(?)) AND CAST(r.key AS VARCHAR) IN (SELECT unnest(?))
"""
_SEARCH = f"""
    SELECT * FROM (SELECT CAST(side AS VARCHAR) AS side, CAST(key AS VARCHAR) AS key, {", ".join(_SCORES[2:])}
        FROM vertex_scores)
    WHERE contains(lower(key), lower(?))
    ORDER BY key = ? DESC, starts_with(lower(key), lower(?)) DESC, score DESC, side, key LIMIT ?
"""
