"""The other tables, against what the bicliques add up to: vertices, sizes, long-form members, the manifest's counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import VerificationError
from pipeline.manifest import Manifest
from pipeline.verify.files import table_parts
from pipeline.verify.recipe import KeySums, mix
from pipeline.verify.rows import Batch, Participation, Tally

__all__ = ["MemberSums", "check_counts", "check_histogram", "check_members", "check_vertices"]


def check_vertices(run: Path, side: str, participation: Participation, degrees: np.ndarray | None) -> str:
    """Degrees (where the input is known), number of bicliques and the largest, row by row."""
    path = run / f"{side}_vertices.parquet"
    table = pq.read_table(path)
    largest = table["largest_biclique_key"]
    expected = {
        "n_bicliques": (table["n_bicliques"], participation.n_bicliques),
        "largest_biclique_edges": (table["largest_biclique_edges"], participation.edges),
        "largest_biclique_key": (pc.fill_null(largest, 0), participation.key),
    }
    if degrees is not None:
        expected["degree"] = (table["degree"], degrees)
    for column, (found, right) in expected.items():
        values = found.to_numpy()
        if (wrong := np.flatnonzero(values != right)).size:
            row = int(wrong[0])
            raise VerificationError(f"{path}, row {row}: {column} is {values[row]}; recomputed {right[row]}")
    nulls = pc.is_null(largest).to_numpy()
    if (wrong := np.flatnonzero(nulls != (participation.n_bicliques == 0))).size:
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
            side = side.dictionary_decode() if isinstance(side, pa.DictionaryArray) else side
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
