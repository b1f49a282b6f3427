"""The other tables, against what the bicliques add up to: vertices, sizes, long-form members, the manifest's counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.recipe import KeySums, mix
from mbe_stage.pipeline.verify.rows import Batch, RowRules, Tally, VertexStatistics

__all__ = ["MemberSums", "check_counts", "check_histogram", "check_members", "check_sums", "check_vertices"]


def check_vertices(run: Path, side: str, statistics: VertexStatistics | None, degrees: np.ndarray | None) -> str:
    """Degrees (where the input is known), number of bicliques and the largest (where those are), row by row."""
    path = run / f"{side}_vertices.parquet"
    table = pq.read_table(path)
    largest = table["largest_biclique_key"]
    expected = {}
    if statistics is not None:
        expected = {
            "n_bicliques": (table["n_bicliques"], statistics.n_bicliques),
            "largest_biclique_edges": (table["largest_biclique_edges"], statistics.edges),
            "largest_biclique_key": (pc.fill_null(largest, 0), statistics.key),
        }
    if degrees is not None:
        expected["degree"] = (table["degree"], degrees)
    for column, (found, right) in expected.items():
        values = found.to_numpy()
        if (wrong := np.flatnonzero(values != right)).size:
            row = int(wrong[0])
            raise VerificationError(f"{path}, row {row}: {column} is {values[row]}; recomputed {right[row]}")
    nulls = pc.is_null(largest).to_numpy()
    if (wrong := np.flatnonzero(nulls != (table["n_bicliques"].to_numpy() == 0))).size:
        raise VerificationError(
            f"{path}, row {wrong[0]}: largest_biclique_key is null exactly for vertices in no biclique, and not here"
        )
    return f"{table.num_rows:,} {side} vertices" + ("" if degrees is not None else " (degrees need the input)")


def check_histogram(run: Path, tally: Tally) -> str:
    """Number of bicliques of each size."""
    path = run / "size_histogram.parquet"
    table = pq.read_table(path)
    seen: set[tuple[int, int]] = set()
    for row, (n_left, n_right, count) in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        size = (n_left, n_right)
        if size in seen:
            raise VerificationError(f"{path}, row {row}: the size {n_left} x {n_right} is there twice")
        seen.add(size)
        if count != tally.histogram[size]:
            raise VerificationError(
                f"{path}, row {row}: {count} bicliques of {n_left} x {n_right}; recomputed {tally.histogram[size]}"
            )
    for n_left, n_right in sorted(set(tally.histogram) - seen):
        raise VerificationError(
            f"{path}: the size {n_left} x {n_right} is missing; recomputed {tally.histogram[n_left, n_right]} bicliques"
        )
    return f"{table.num_rows:,} sizes"


def check_counts(run: Path, manifest: Manifest, tally: Tally) -> str:
    """The manifest's figures and content fingerprint."""
    sizes = list(tally.histogram) or [(0, 0)]
    recomputed = {
        "bicliques": tally.n_rows,
        "left_members": tally.n_members[0],
        "right_members": tally.n_members[1],
        "sizes": len(tally.histogram),
        "max_left": max(left for left, _ in sizes),
        "max_right": max(right for _, right in sizes),
        "max_edges": max(left * right for left, right in sizes),
    }
    for name, value in recomputed.items():
        if (stated := getattr(manifest.counts, name)) != value:
            raise VerificationError(f"{run / 'manifest.json'}: counts.{name} is {stated}; recomputed {value}")
    sums = KeySums()
    sums.add(tally.keys)
    if manifest.content_fingerprint != str(sums):
        raise VerificationError(
            f"{run / 'manifest.json'}: content_fingerprint is {manifest.content_fingerprint}; recomputed {sums}"
        )
    return f"{tally.n_rows:,} bicliques, content fingerprint {sums}"


def check_sums(run: Path, manifest: Manifest, rules: RowRules) -> str:
    """What sizes, vertices, counts and fingerprint say of each other, of a run whose bicliques are not there."""
    path, counts = run / "size_histogram.parquet", manifest.counts
    table = pq.read_table(path)
    n_left, n_right, n = (column.to_numpy().astype(np.int64) for column in table.columns)
    sizes = np.column_stack([n_left, n_right])
    for row in np.flatnonzero(~rules.accepts(sizes) | (n < 1)):
        raise VerificationError(
            f"{path}, row {row}: {n[row]} bicliques of {n_left[row]} x {n_right[row]}; expected at least one, of a "
            "size that the run's query asks for"
        )
    if len(np.unique(sizes, axis=0)) < n.size:
        raise VerificationError(f"{path}: a size is there twice")
    recomputed = {
        "bicliques": n.sum(),
        "left_members": n_left @ n,
        "right_members": n_right @ n,
        "sizes": n.size,
        "max_left": n_left.max(initial=0),
        "max_right": n_right.max(initial=0),
        "max_edges": (n_left * n_right).max(initial=0),
    }
    place = run / "manifest.json"
    for name, value in recomputed.items():
        if (stated := getattr(counts, name)) != value:
            raise VerificationError(f"{place}: counts.{name} is {stated}; recomputed {value} from {path}")
    if (stated := manifest.content_fingerprint.partition("-")[0]) != str(counts.bicliques):
        raise VerificationError(
            f"{place}: content_fingerprint is of {stated} bicliques; counts.bicliques says otherwise"
        )
    for side in ("left", "right"):
        _check_vertex_sums(run, side, manifest, set((n_left * n_right).tolist()))
    return f"{counts.bicliques:,} bicliques of {n.size:,} sizes"


def _check_vertex_sums(run: Path, side: str, manifest: Manifest, products: set[int]) -> None:
    """A side's members of bicliques add up, and the largest biclique of a vertex is of a size that there is."""
    path, counts = run / f"{side}_vertices.parquet", manifest.counts
    table = pq.read_table(path, columns=["n_bicliques", "largest_biclique_edges"])
    n, edges = (column.to_numpy() for column in table.columns)
    for row in np.flatnonzero((n < 0) | (n > counts.bicliques)):
        raise VerificationError(f"{path}, row {row}: n_bicliques is {n[row]}; there are {counts.bicliques}")
    if n.sum() != (members := getattr(counts, f"{side}_members")):
        raise VerificationError(f"{path}: n_bicliques add up to {n.sum()}; the bicliques have {members} {side} members")
    known = np.isin(edges, list(products))
    for row in np.flatnonzero(np.where(n > 0, ~known, edges != 0)):
        raise VerificationError(f"{path}, row {row}: largest_biclique_edges is {edges[row]}, which no biclique has")
    if edges.max(initial=0) != counts.max_edges:
        raise VerificationError(
            f"{path}: the largest biclique has {edges.max(initial=0)} edges; counts.max_edges says {counts.max_edges}"
        )


class MemberSums:
    """An order-independent sum over (biclique, side, vertex), for comparing `members` with the lists."""

    def __init__(self) -> None:
        self._sums = KeySums()

    def add(self, keys: np.ndarray, side: int | np.ndarray, vertices: np.ndarray) -> None:
        """Take in some rows of the long form."""
        codes = (2 * vertices.astype(np.int64) + side).view(np.uint64)
        self._sums.add(mix(keys.view(np.uint64) + mix(codes)).view(np.int64))

    def add_batch(self, batch: Batch) -> None:
        """Take in what the long form of these bicliques would be."""
        for side in (0, 1):
            self.add(np.repeat(batch.keys, batch.sizes(side)), side, batch.members[side])

    def __str__(self) -> str:
        return str(self._sums)


def check_members(run: Path, expected: MemberSums) -> str:
    """The long form holds exactly the members of the lists."""
    found = MemberSums()
    n_rows = 0
    for part in table_parts(run, "members"):
        for batch in pq.ParquetFile(part).iter_batches(1 << 20):
            side = batch.column("side")
            if isinstance(side, pa.DictionaryArray):
                side = side.dictionary.cast(pa.string()).take(side.indices)
            side = side.cast(pa.string())
            is_right = pc.equal(side, "right").to_numpy(zero_copy_only=False)
            is_left = pc.equal(side, "left").to_numpy(zero_copy_only=False)
            if (wrong := np.flatnonzero(~(is_right | is_left))).size:
                raise VerificationError(f"{part}, row {n_rows + wrong[0]}: side is {side[int(wrong[0])]}")
            found.add(batch.column("biclique_key").to_numpy(), is_right, batch.column("vertex").to_numpy())
            n_rows += batch.num_rows
    if str(found) != str(expected):
        raise VerificationError(
            f"{run / 'members'}: its {n_rows:,} rows are not the members that the bicliques list "
            f"(fingerprint {found}; recomputed {expected})"
        )
    return f"{n_rows:,} rows"
