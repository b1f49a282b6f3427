"""The largest cliques of a published run with their members' own keys, read with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.problems.base import Shown
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.report.markdown import first_keys, members, table

_ROWS = 1 << 14

_SIZES, _CLIQUES = 20, 5


@dataclass(frozen=True, slots=True)
class Clique:
    """One published clique, with its vertices as the user wrote them.

    Attributes
    ----------
    key : int
        `clique_key`.
    vertices : tuple of int or str
        In the order of the keys.
    """

    key: int
    vertices: tuple[int | str, ...]


def clique_parts(run_path: Path) -> list[Path]:
    """The files of the table `cliques`.

    Raises
    ------
    PublishError
        There are none.
    """
    parts = sorted((run_path / "cliques").glob("*.parquet"))
    if not parts:
        raise PublishError(f"{run_path}: no table of cliques; expected cliques/part-*.parquet as in a published run")
    return parts


def vertex_keys(run_path: Path) -> pa.ChunkedArray:
    """The user's keys; position is the dense id."""
    return pq.read_table(run_path / "vertices.parquet", columns=["key"])["key"]


def largest_cliques(run_path: Path, limit: int, vertex: int | None = None) -> list[Clique]:
    """The largest cliques of a run, of equals those of smaller keys; or of those that hold a vertex.

    Parameters
    ----------
    limit : int
        How many at most.
    vertex : int, optional
        A dense id.

    Raises
    ------
    PublishError
        The directory holds no table of cliques, or a damaged one.
    """
    best: pa.Table | None = None
    with reading(run_path):
        for part, group in _groups_by_largest(run_path):
            smallest = None if best is None or best.num_rows < limit else best["size"][-1].as_py()
            # Row groups come with the largest first: behind one that has nothing large enough there is nothing.
            if smallest is not None and group[1] is not None and group[1] < smallest:
                break
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(_ROWS, row_groups=[group[0]]):
                    rows = pa.Table.from_batches([batch if vertex is None else _holding(batch, vertex)])
                    best = larger(rows if best is None else pa.concat_tables([best, rows]), limit)
        return [] if best is None or limit < 1 else cliques_with_keys(run_path, best)


def cliques_with_keys(run_path: Path, rows: pa.Table) -> list[Clique]:
    """Rows of the table with their members as the user wrote them."""
    keys = vertex_keys(run_path)
    return [
        Clique(row["clique_key"], tuple(keys.take(pa.array(row["vertices"], pa.int32())).to_pylist()))
        for row in rows.to_pylist()
    ]


def find_vertex(run_path: Path, key: str) -> int:
    """The dense id of a vertex, given its key as text.

    Raises
    ------
    InputError
        There is no such vertex.
    """
    with reading(run_path):
        found = pc.index(vertex_keys(run_path).cast(pa.string()), pa.scalar(key, pa.string())).as_py()
    if found < 0:
        raise InputError.at(
            run_path,
            found=f"no vertex {key!r}",
            expected="a key as the input writes it",
            remedy="see the column 'key' of vertices.parquet",
        )
    return int(found)


def _groups_by_largest(run_path: Path) -> list[tuple[Path, tuple[int, int | None]]]:
    """Every row group and its largest size, as its statistics say: largest first, those without any before."""
    groups: list[tuple[Path, tuple[int, int | None]]] = []
    for part in clique_parts(run_path):
        metadata = pq.read_metadata(part)
        column = metadata.num_columns - 1
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(column).statistics
            has = statistics is not None and statistics.has_min_max
            groups.append((part, (group, statistics.max if has else None)))
    return sorted(groups, key=lambda each: (each[1][1] is not None, -(each[1][1] or 0)))


def _holding(batch: pa.RecordBatch, vertex: int) -> pa.RecordBatch:
    members = batch.column("vertices")
    hits = np.flatnonzero(members.flatten().to_numpy() == vertex)
    offsets = members.offsets.to_numpy() - members.offsets[0].as_py()
    return batch.take(pa.array(np.searchsorted(offsets, hits, side="right") - 1))


def larger(rows: pa.Table, limit: int) -> pa.Table:
    """Return the largest rows, largest first; ties by smaller key."""
    order = np.lexsort((rows["clique_key"].to_numpy(), -rows["size"].to_numpy()))[:limit]
    return rows.take(pa.array(order)).combine_chunks()


def essence(run_path: Path, manifest: Manifest) -> list[str]:
    """Return the essence of the report as Markdown."""
    counts = manifest.counts
    sizes = pq.read_table(run_path / "size_histogram.parquet").to_pylist()[::-1]
    shown = [[f"{row['size']:,}", f"{row['n_cliques']:,}"] for row in sizes[:_SIZES]]
    rows = [
        [f"{len(one.vertices):,}", members(one.vertices, len(one.vertices))]
        for one in largest_cliques(run_path, _CLIQUES)
    ]
    return [
        f"Largest clique {counts.max_size:,} vertices, in a graph of {counts.vertices:,} vertices and "
        f"{counts.edges:,} edges, degeneracy {counts.degeneracy:,}.",
        "",
        "## The largest",
        "",
        *(table(["size", "vertices"], rows) if rows else ["None."]),
        "",
        "## How large they are, from the largest size",
        "",
        *(table(["size", "cliques"], shown) if shown else ["None."]),
    ]


def top(run_path: Path, limit: int, vertex: str | None) -> Shown:
    """The largest cliques, or of those that hold the vertex of a key.

    Raises
    ------
    InputError
        There is no such vertex.
    PublishError
        The run is damaged.
    """
    return shown(largest_cliques(run_path, limit, None if vertex is None else find_vertex(run_path, vertex)))


def shown(cliques: Sequence[Clique]) -> Shown:
    """Cliques as values and for the terminal."""
    values = [{"clique_key": one.key, "size": len(one.vertices), "vertices": one.vertices} for one in cliques]
    rows = [[len(one.vertices), first_keys(one.vertices), str(one.key)] for one in cliques]
    return Shown(values, ["size", "vertices", "clique_key"], rows)


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The largest cliques with their vertices' own keys as rows; `clique_key` is text: browsers round an int64."""
    return [
        {"clique_key": str(one.key), "size": len(one.vertices), "vertices": first_keys(one.vertices)}
        for one in largest_cliques(run_path, limit)
    ]
