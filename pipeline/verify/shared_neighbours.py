"""Check the table of pairs by sparse products and scipy's distribution, without the code that wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array
from scipy.stats import hypergeom

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import recipe
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.products import matrix_of, products_before, shared_of_rows

_MOST_PRODUCTS = 1_000_000_000
# Rows per batch, and neighbours per part, whose intersection is computed at once.
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE = 1 << 18, 20_000_000
_TOLERANCE = 1e-6


def check(job: Job) -> None:
    """Check the rows by themselves, then against the input, then that no pair is missing.

    Raises
    ------
    VerificationError
        The first error found.
    """
    checking = _Pairs(job)
    checking.check_rows()
    checking.check_nothing_missing()


class _Pairs:
    """A check in progress."""

    def __init__(self, job: Job) -> None:
        self.job, self.run, self.manifest = job, job.run, job.manifest
        self.section = job.manifest.config.problem_section
        self.parts, self.n_rows = job.parts_of("pairs")
        self.worst = np.inf
        self.matrix: csr_array | None = None
        if job.edges is not None:
            is_left, matrix = self.section.side == "left", matrix_of(job.edges)
            self.keys = job.edges.left_keys if is_left else job.edges.right_keys
            self.matrix = matrix if is_left else matrix.T.tocsr()
            self.degrees = np.diff(self.matrix.indptr).astype(np.int64)
            self.n_others = int(np.unique(self.matrix.indices).size)

    def check_rows(self) -> None:
        """Check every row: shared neighbours, similarity, order, and the sums over all."""
        sums, most, done = recipe.KeySums(), 0, 0
        last_ids, last_value = -1, np.inf
        for place, rows in self._batches():
            shared = rows["shared"].to_numpy().astype(np.int64)
            hashes = [recipe.vertex_hashes(rows[end], "left") for end in ("first", "second")]
            sums.add(recipe.biclique_keys(hashes[0] + hashes[1], shared.view(np.uint64)))
            most = max(most, int(shared.max(initial=0)))
            self._fail(place, done, shared < self.section.min_shared, "has too few shared neighbours for the query")
            if self.matrix is not None:
                first, second = self._ids(place, done, rows)
                ids = first * self.matrix.shape[0] + second
                values = self._checked(place, done, rows, first, second, shared)
                if self.section.top is None:
                    self._fail(place, done, np.diff(ids, prepend=last_ids) <= 0, "is out of order, or there twice")
                else:
                    ranks = self._ranks(shared, values)
                    rises = np.diff(ranks, prepend=last_value) > _TOLERANCE * (1.0 + np.abs(ranks))
                    self._fail(place, done, rises, "is better than the row before it")
                    last_value = self.worst = float(ranks[-1])
                last_ids = int(ids[-1])
            done += len(shared)
            self.job.progress(done / self.n_rows)
        self._check_counts(most, sums)
        self.job.passed("rows", f"{self.n_rows:,} pairs")
        if self.matrix is None:
            self.job.not_checked("shared neighbours, similarity, nothing missing: the input is not given")
            return
        self.job.report.n_against_input = self.n_rows
        self.job.passed("shared neighbours and similarity", f"all {self.n_rows:,} pairs")

    def _batches(self) -> Iterator[tuple[Path, pa.RecordBatch]]:
        for part in self.parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    if any(column.null_count for column in batch.columns):
                        raise VerificationError(f"{part}: holds nulls; expected none")
                    if batch.num_rows:
                        yield part, batch

    def _check_counts(self, most: int, sums: recipe.KeySums) -> None:
        top, n_pairs = self.section.top, self.manifest.counts["pairs"]
        if top is not None and self.n_rows != min(top, n_pairs):
            raise VerificationError(f"{self.run / 'pairs'}: has {self.n_rows:,} rows; expected {min(top, n_pairs):,}")
        n_pairs = self.n_rows if top is None else n_pairs
        self.job.check_sums({"pairs": n_pairs, "listed": self.n_rows, "max_shared": most}, sums, "pairs")

    def _fail(self, place: Path, start: int, is_wrong: np.ndarray, what: str) -> None:
        if is_wrong.any():
            raise VerificationError(f"{place}, row {start + int(np.argmax(is_wrong))} of all: {what}")

    def _ids(self, place: Path, start: int, rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for end in ("first", "second"):
            ids = pc.index_in(rows[end], self.keys)
            self._fail(place, start, pc.is_null(ids).to_numpy(zero_copy_only=False), f"{end} is no vertex of the input")
            found.append(ids.to_numpy().astype(np.int64))
        self._fail(place, start, found[0] >= found[1], "first is not the smaller key")
        return found[0], found[1]

    def _checked(
        self, place: Path, start: int, rows: pa.RecordBatch, first: np.ndarray, second: np.ndarray, shared: np.ndarray
    ) -> dict[str, np.ndarray]:
        assert self.matrix is not None
        right = np.concatenate(
            [
                self.matrix[part_first].multiply(self.matrix[part_second]).sum(axis=1)
                for part_first, part_second in self._cut(first, second)
            ]
        )
        self._fail(place, start, right != shared, "has another number of shared neighbours in the input")
        values = self._similarity(first, second, shared)
        for name, expected in values.items():
            expected = np.exp(-expected) if name == "p_value" else expected
            wrong = ~np.isclose(rows[name].to_numpy(), expected, rtol=_TOLERANCE, atol=1e-300)
            self._fail(place, start, wrong, f"{name} is not what the input gives")
        return values

    def _cut(self, first: np.ndarray, second: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Cut pairs so that the neighbours of each part fit memory."""
        entries = np.cumsum(self.degrees[first] + self.degrees[second])
        cuts = np.searchsorted(entries, np.arange(_ENTRIES_AT_ONCE, entries[-1], _ENTRIES_AT_ONCE))
        yield from zip(np.split(first, cuts), np.split(second, cuts), strict=True)

    def _similarity(self, first: np.ndarray, second: np.ndarray, shared: np.ndarray) -> dict[str, np.ndarray]:
        """Return the measures of pairs, larger is better; for p-values, their negative logarithms."""
        a, b = self.degrees[first], self.degrees[second]
        # Pairs of equal degrees and shared neighbours have one p-value.
        kinds, which = np.unique(np.stack([shared, np.minimum(a, b), np.maximum(a, b)]), axis=1, return_inverse=True)
        with np.errstate(divide="ignore"):
            logs = hypergeom.logsf(kinds[0] - 1, self.n_others, kinds[1], kinds[2])
        log_p = np.minimum(logs, 0.0)[which.ravel()]
        return {"jaccard": shared / (a + b - shared), "cosine": shared / np.sqrt(a * b), "p_value": -log_p}

    def _ranks(self, shared: np.ndarray, values: dict[str, np.ndarray]) -> np.ndarray:
        return values.get(self.section.by or "p_value", shared.astype(np.float64))

    def check_nothing_missing(self) -> None:
        """Count all pairs by products of matrices, and with `top` those better than the last row."""
        job, counts = self.job, self.manifest.counts
        if self.matrix is None:
            return
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        before = products_before(self.matrix)
        if before[-1] > _MOST_PRODUCTS:
            job.not_checked(f"nothing missing: a search for all pairs takes {before[-1]:,} steps")
            return
        n_pairs = n_better = 0
        for begin, product in shared_of_rows(self.matrix, before):
            wanted = (product.row + begin < product.col) & (product.data >= self.section.min_shared)
            n_pairs += int(np.count_nonzero(wanted))
            if self.section.top is not None and self.n_rows and wanted.any():
                first, second, shared = product.row[wanted] + begin, product.col[wanted], product.data[wanted]
                ranks = self._ranks(shared, self._similarity(first, second, shared))
                n_better += int(np.count_nonzero(ranks > self.worst + _TOLERANCE * (1.0 + abs(self.worst))))
        if n_pairs != counts["pairs"]:
            place = self.run / "manifest.json"
            raise VerificationError(f"{place}: counts.pairs is {counts['pairs']}; recomputed {n_pairs}")
        if n_better > self.n_rows:
            raise VerificationError(f"{self.run / 'pairs'}: {n_better:,} pairs are better than its last row")
        job.passed("nothing missing", f"{n_pairs:,} pairs of a product of matrices")
