"""The best rows of a published table of vertex lists, read with bounded memory and shown with the user's keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.problems.base import Shown
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.report.markdown import first_keys
from mbe_stage.pipeline.stores.part_objects import fetch_missing

_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table whose rows are lists of vertices.

    Attributes
    ----------
    name, vertices : str
        The directory of the table, and the file of its vertices, whose column `key` has the user's keys.
    key, members, by : str
        Columns: the key of a row, its list, and its rank value (larger is better), which is the last column.
    columns : sequence of str
        Columns to show on the terminal.
    fewest : int
        Minimum number of members among the best rows; ignored if a vertex is given.
    """

    name: str
    vertices: str
    key: str
    members: str
    by: str
    columns: tuple[str, ...]
    fewest: int = 1

    def best(self, run_path: Path, limit: int, vertex: str | None = None) -> list[dict[str, Any]]:
        """Return the first rows by rank, ties by smaller key; with `vertex`, only rows that contain it.

        Raises
        ------
        InputError
            There is no such vertex.
        PublishError
            The directory holds no such table, or a damaged one.
        """
        best: pa.Table | None = None
        with reading(run_path):
            member = None if vertex is None else self._id_of(run_path, vertex)
            for part, group, most in self._groups(run_path):
                worst = None if best is None or best.num_rows < max(1, limit) else best[self.by][-1].as_py()
                # Row groups are in descending order of their largest number, so later ones have no better rows.
                if worst is not None and most is not None and most < worst:
                    break
                with pq.ParquetFile(part) as file:
                    for batch in file.iter_batches(_ROWS, row_groups=[group]):
                        best = self.first([*([] if best is None else [best]), self._chosen(batch, member)], limit)
            return [] if best is None or limit < 1 else self.with_keys(run_path, best)

    def first(self, tables: list[pa.Table], limit: int) -> pa.Table:
        """Return the first rows of some tables by rank, ties by smaller key."""
        rows = pa.concat_tables(tables)
        order = np.lexsort((rows[self.key].to_numpy(), -rows[self.by].to_numpy()))[:limit]
        return rows.take(pa.array(order)).combine_chunks()

    def parts(self, run_path: Path) -> list[Path]:
        """Return the files of the table.

        Raises
        ------
        PublishError
            There are none.
        """
        fetch_missing(run_path)
        parts = sorted((run_path / self.name).glob("*.parquet"))
        if not parts:
            raise PublishError(
                f"{run_path}: no table of {self.name}; expected {self.name}/part-*.parquet as in a published run"
            )
        return parts

    def keys(self, run_path: Path) -> pa.Array:
        """Return the user's keys; the position is the dense id."""
        return pq.read_table(run_path / self.vertices, columns=["key"])["key"].combine_chunks()

    def with_keys(self, run_path: Path, rows: pa.Table) -> list[dict[str, Any]]:
        """Return rows with the user's keys of their members."""
        keys = self.keys(run_path)
        return [
            {**row, self.members: keys.take(pa.array(row[self.members], pa.int32())).to_pylist()}
            for row in rows.to_pylist()
        ]

    def top(self, run_path: Path, limit: int, vertex: str | None) -> Shown:
        """Return the best rows, or those with the vertex of a key, for ``mbe top``."""
        return self.shown(self.best(run_path, limit, vertex))

    def shown(self, rows: list[dict[str, Any]]) -> Shown:
        """Return rows as values and for the terminal."""
        cells = [{**row, self.members: first_keys(row[self.members]), self.key: str(row[self.key])} for row in rows]
        return Shown(rows, self.columns, [[row[name] for name in self.columns] for row in cells])

    def largest(self, run_path: Path, limit: int) -> list[dict[str, Any]]:
        """Return the best rows as plain values; keys are text because browsers round an int64."""
        found = self.best(run_path, limit)
        return [{**row, self.members: first_keys(row[self.members]), self.key: str(row[self.key])} for row in found]

    def _groups(self, run_path: Path) -> list[tuple[Path, int, int | None]]:
        """Return every row group with its largest number: those without statistics first, then descending."""
        groups: list[tuple[Path, int, int | None]] = []
        for part in self.parts(run_path):
            metadata = pq.read_metadata(part)
            for group in range(metadata.num_row_groups):
                statistics = metadata.row_group(group).column(metadata.num_columns - 1).statistics
                has = statistics is not None and statistics.has_min_max
                groups.append((part, group, statistics.max if has else None))
        return sorted(groups, key=lambda each: (each[2] is not None, -(each[2] or 0)))

    def _chosen(self, batch: pa.RecordBatch, vertex: int | None) -> pa.Table:
        lists = batch.column(self.members)
        offsets = lists.offsets.to_numpy() - lists.offsets[0].as_py()
        if vertex is None:
            rows = np.flatnonzero(np.diff(offsets) >= self.fewest)
        else:
            rows = np.searchsorted(offsets, np.flatnonzero(lists.flatten().to_numpy() == vertex), side="right") - 1
        return pa.Table.from_batches([batch.take(pa.array(rows))])

    def _id_of(self, run_path: Path, key: str) -> int:
        found = pc.index(self.keys(run_path).cast(pa.string()), pa.scalar(key, pa.string())).as_py()
        if found < 0:
            raise InputError.at(
                run_path,
                found=f"no vertex {key!r}",
                expected="a key as the input writes it",
                remedy=f"see the column 'key' of {self.vertices}",
            )
        return int(found)
