"""Check the table of the best bicliques against itself and the input, without the code that searched for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from mbe_stage.groups.reference import UNIT, Bicliques, Null
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import recipe
from mbe_stage.pipeline.verify.closure import adjacency, check_distinct, judge_rows, pair_seeds, vertex_seeds
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.products import full, matrix_of, rows_of
from mbe_stage.pipeline.verify.rows import Batch, RowRules, check_rows, list_offsets, refuse

# Maximum of vertices per side and of vertex pairs whose closures are compared with the last row; closures per product.
_MOST_SEEDS, _AT_ONCE = 2_000, 64
_TOLERANCE = 1e-9
# Bicliques as two matrices of ones, for left and right members, with one row per biclique.
_Rows = tuple[csr_array, csr_array]


def check(job: Job) -> None:
    """Check the rows by themselves, then against the input, then that nothing better is found.

    Raises
    ------
    VerificationError
        The first error found.
    """
    checking = _Best(job)
    checking.check_rows()
    checking.check_order()
    checking.check_counts()
    if job.edges is None:
        job.not_checked("complete and maximal, values of weight and surprise, nothing better: the input is not given")
    else:
        checking.check_input()
        checking.check_nothing_better()


class _Best:
    """A check in progress."""

    def __init__(self, job: Job) -> None:
        self.job, self.path, self.manifest = job, job.run / "best.parquet", job.manifest
        self.section = job.manifest.config.problem_section
        table = pq.read_table(self.path).combine_chunks()
        lists = [table[f"{side}_keys"].combine_chunks() for side in ("left", "right")]
        if any(column.null_count for column in (*table.columns, *(each.flatten() for each in lists))):
            raise VerificationError(f"{self.path}: holds nulls; expected none")
        numbers = {name: table[name].to_numpy() for name in table.schema.names if not name.endswith("_keys")}
        self.rank, self.value = numbers["rank"], numbers["value"]
        job.report.n_found = table.num_rows
        given = None if job.edges is None else (job.edges.left_keys, job.edges.right_keys)
        self.keys = given or tuple(pc.unique(each.flatten()).sort() for each in lists)
        sides = [(list_offsets(each), self._ids(each, keys)) for each, keys in zip(lists, self.keys, strict=True)]
        n_left, n_right = (numbers[name].astype(np.int64) for name in ("n_left", "n_right"))
        (offsets, members), self.n_edges = zip(*sides, strict=True), numbers["n_edges"]
        # If missing edges are allowed, rows need not be bicliques.
        n_pairs = n_left * n_right if self.section.missing else self.n_edges
        self.batch = Batch(0, numbers["biclique_key"], offsets, members, n_left, n_right, n_pairs)
        self.left, self.right = (rows_of(*side, len(keys)) for side, keys in zip(sides, self.keys, strict=True))
        self.hashes = recipe.vertex_hashes(self.keys[0], "left"), recipe.vertex_hashes(self.keys[1], "right")

    def _ids(self, lists: pa.ListArray, keys: pa.Array) -> np.ndarray:
        ids = pc.index_in(lists.flatten(), keys)
        if ids.null_count:
            raise VerificationError(f"{self.path}: a member is no vertex of the input")
        return np.array(ids.to_numpy(), np.int32)

    def check_rows(self) -> None:
        """Check members, sizes and keys of each row, and values by sizes."""
        none, section = np.empty(0, np.int64), self.section
        if len(self.value):
            least = section.min_left, section.min_right
            check_rows(self.batch, RowRules(self.hashes, (none, none), least, (None, None), 1))
        check_distinct(str(self.path), np.sort(self.batch.keys))
        n_missing = _sizes((self.left, self.right)).prod(axis=1) - self.n_edges
        refuse(
            self.path,
            (n_missing < 0) | (n_missing > section.missing),
            "has too few edges, or more than pairs of members",
        )
        if (values := _by_size(section.by, _sizes((self.left, self.right)), self.n_edges)) is not None:
            refuse(self.path, self.value != values, f"value is not that of its {section.by}")
        self.job.passed("rows", f"{len(self.value):,} bicliques: members, sizes, keys and the query's conditions")

    def check_order(self) -> None:
        """Check ranks, order, ties and overlaps."""
        n, overlap = len(self.value), self.section.overlap
        refuse(self.path, self.rank != np.arange(1, n + 1), "rank is not its place")
        order = np.lexsort((self.batch.keys, -self.n_edges, -self.value))
        refuse(self.path, order != np.arange(n), "is out of order: by value, then more edges, then the smaller key")
        if n > self.section.k:
            raise VerificationError(f"{self.path}: has {n:,} rows; the query asks for {self.section.k:,}")
        for start in range(0, n if overlap < 1 else 0, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            shared = (self.left[part] @ self.left.T).multiply(self.right[part] @ self.right.T)
            pairs = shared.tocoo()
            places = pairs.row + start
            is_wrong = (pairs.col < places) & (pairs.data > overlap * self.batch.n_edges[places])
            if is_wrong.any():
                row, other = int(places[is_wrong][0]), int(pairs.col[is_wrong][0])
                raise VerificationError(
                    f"{self.path}, row {row}: shares more than {overlap:g} of its edges with row {other}"
                )
        self.job.passed("order", "ranks, ties and overlaps")

    def check_counts(self) -> None:
        """Check the manifest's counts and the content fingerprint."""
        place, counts, values = self.job.run / "manifest.json", self.manifest.counts, self.value.tolist()
        expected = {"best": len(values), "highest": values[0] if values else None, "bound": counts.bound}
        last = values[-1] if values else 0
        if self.manifest.truncated is None:
            expected["bound"] = last
        elif counts.bound is not None and counts.bound < last:
            raise VerificationError(f"{place}: counts.bound is {counts.bound}, below the last value")
        self.job.check_sums(expected, recipe.KeySums.of(self.batch.keys), "bicliques")

    def check_input(self) -> None:
        """Check that all rows are complete and maximal, and the values by weight and surprise."""
        job, edges = self.job, self.job.edges
        assert edges is not None
        self.graph, self.matrix = adjacency(edges), matrix_of(edges)
        if self.section.missing:
            n_edges = (self.left @ self.matrix).multiply(self.right).sum(axis=1)
            refuse(self.path, np.asarray(n_edges).ravel() != self.n_edges, "has another number of edges in the input")
            job.not_checked("completions of maximal bicliques: that no vertex can join")
        else:
            judge_rows(self.graph, self.batch, np.arange(len(self.value)), self.keys, job.threads)
        is_wrong = ~np.isclose(
            self.value, self._values((self.left, self.right), self.n_edges), rtol=_TOLERANCE, atol=_TOLERANCE
        )
        refuse(self.path, is_wrong, f"value is not the {self.section.by} that the input gives")
        job.report.n_against_input = len(self.value)
        what = "edges" if self.section.missing else "complete and maximal"
        job.passed(f"{what}, and values", f"all {len(self.value):,} bicliques")

    def _values(self, rows: _Rows, n_edges: np.ndarray) -> np.ndarray:
        """Return the values of the bicliques in the input."""
        edges, sizes = self.job.edges, _sizes(rows)
        assert edges is not None
        if (values := _by_size(self.section.by, sizes, n_edges)) is not None:
            return values
        if self.section.by == "weight":
            events, shape = edges.events, (len(self.keys[0]), len(self.keys[1]))
            assert events is not None
            weights = csr_array((events.weights, (events.left, events.right)), shape)
            return np.asarray((rows[0] @ weights).multiply(rows[1]).sum(axis=1)).ravel()
        found = Bicliques(
            np.arange(len(sizes)),
            tuple(side.indptr.astype(np.int64) for side in rows),
            tuple(side.indices.astype(np.int64) for side in rows),
        )
        return Null(self.graph.degrees(), edges.left_ids.size).surprise(found) / UNIT

    def check_nothing_better(self) -> None:
        """Compare the closures of vertices and of pairs of vertices with the last row."""
        job, section, n = self.job, self.section, len(self.value)
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing better: the run is incomplete ({self.manifest.truncated})")
            return
        n_seeds = 0
        # Rows after the first may be left out for their overlap or completion; only the first is the best of all.
        last = 0 if section.overlap < 1 or section.missing else section.k - 1
        for found in self._closures():
            sizes = _sizes(found)
            n_edges = sizes.prod(axis=1)
            values = self._values(found, n_edges)
            sides = zip(self.hashes, found, strict=True)
            keys = recipe.biclique_keys(*(np.add.reduceat(of[side.indices], side.indptr[:-1]) for of, side in sides))
            is_missing = (sizes >= (section.min_left, section.min_right)).all(axis=1) & ~np.isin(keys, self.batch.keys)
            if last < n:
                is_missing &= self._is_better(values, n_edges, keys, last)
            if is_missing.any():
                row = int(np.argmax(is_missing))
                shape = f"{sizes[row, 0]} x {sizes[row, 1]}, biclique_key {keys[row]}"
                raise VerificationError(f"{self.path}: a better one is missing: {shape}, value {values[row]:,.10g}")
            n_seeds += len(sizes)
        job.passed("nothing better", f"the closures of {n_seeds:,} vertices and pairs of vertices")
        job.not_checked("nothing better: bicliques that are no closure of these vertices and pairs")

    def _is_better(self, values: np.ndarray, n_edges: np.ndarray, keys: np.ndarray, row: int) -> np.ndarray:
        """Return True for bicliques that rank before a row; sums of weights may be rounded differently."""
        value, edges = self.value[row], self.n_edges[row]
        if self.section.by == "weight":
            return values > value * (1 + _TOLERANCE)
        ties = (n_edges > edges) | ((n_edges == edges) & (keys < self.batch.keys[row]))
        return (values > value) | ((values == value) & ties)

    def _closures(self) -> Iterator[_Rows]:
        """Yield the maximal bicliques generated by vertices of both sides, and by pairs of left vertices."""
        rng, matrix, most = self.job.rng, self.matrix, min(_MOST_SEEDS, self.job.sample)
        n_left, n_right = matrix.shape
        other = matrix.T.tocsr()
        for seeds, own, is_left in (
            (vertex_seeds(n_left, most, rng), matrix, True),
            (vertex_seeds(n_right, most, rng), other, False),
            (pair_seeds(self.graph, most, rng), matrix, True),
        ):
            for start in range(0, len(seeds), _AT_ONCE):
                part = seeds[start : start + _AT_ONCE]
                shared = full(own[part[:, 0]] + own[part[:, 1]], np.full(len(part), 2))
                closed = full(shared @ own.T, np.diff(shared.indptr))
                yield (closed, shared) if is_left else (shared, closed)


def _sizes(rows: _Rows) -> np.ndarray:
    """Return the number of members on each side, ``(n, 2) int64``."""
    return np.column_stack([np.diff(side.indptr) for side in rows]).astype(np.int64)


def _by_size(by: str, sizes: np.ndarray, n_edges: np.ndarray) -> np.ndarray | None:
    """Return the values that sizes and edges determine; None by weight and surprise."""
    values = {"edges": n_edges, "vertices": sizes.sum(axis=1), "balance": sizes.min(axis=1, initial=1 << 31)}
    return values.get(by)
