"""Check the tables of closed itemsets: every row by itself, a sample against the baskets, sums, and missing sets.

Baskets are read again; no code is shared with engines and writers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import closure, recipe
from mbe_stage.pipeline.verify.closure import adjacency, check_distinct, check_witnesses, pair_seeds, vertex_seeds
from mbe_stage.pipeline.verify.fields import check_key_type, check_vertex_table
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.products import full, matrix_of, rows_of
from mbe_stage.pipeline.verify.rows import Batch, RowRules, check_column, check_members, chosen_rows, reader, sampled
from mbe_stage.runtime.compile_ahead import CompileStep

# Maximum itemsets, and pairs of items, to compare with the baskets; itemsets per product of matrices.
_MOST_JUDGED, _PAIRS, _AT_ONCE = 20_000, 100_000, 256
_SIDES = ("antecedent", "consequent")
# The right side of a row has the items, and the left one no members.
_READ = reader("itemsets", (None, "items"), ("support", "n_items", "support"))


def compile_steps() -> tuple[CompileStep, ...]:
    """List what checking itemsets needs compiled."""
    return (*closure.compile_steps(), *recipe.compile_steps())


def check(job: Job) -> None:
    """Check the tables of itemsets against each other and, if it is given, against the input.

    Raises
    ------
    VerificationError
        The first error found.
    """
    checking = _Itemsets(job)
    checking.check_rows()
    checking.check_sums()
    if checking.confidence is not None:
        checking.check_rules()
    if checking.lattice is not None:
        checking.check_lattice(checking.lattice)
    if job.edges is None:
        job.not_checked("closed, supports, nothing missing: the input is not given")
    else:
        checking.check_nothing_missing()


class _Itemsets:
    """A check in progress, with the data read so far."""

    def __init__(self, job: Job) -> None:
        self.job, self.run, self.manifest = job, job.run, job.manifest
        self.path, facts = job.run / "items.parquet", job.manifest.input
        self.keys = check_vertex_table(self.path, facts.n_right, "items")
        check_key_type(self.path, job.manifest, self.keys)
        self.hashes = recipe.vertex_hashes(self.keys, "right")
        section = job.manifest.config.problem_section
        self.max_len, self.least, self.confidence = section.max_len, section.min_count, section.min_confidence
        self.is_maximal, self.rules_path = section.maximal, job.run / "rules.parquet"
        self.lattice = pq.read_table(job.run / "lattice.parquet") if section.lattice else None
        if self.least is None:
            counts = np.arange(1, facts.n_left + 1)
            self.least = int(counts[counts / facts.n_left >= section.min_support][0])
        self.parts, n_rows = job.parts_of("itemsets")
        self.row_keys = np.empty(n_rows, np.int64)
        self.n_itemsets, self.max_items = np.zeros(len(self.keys), np.int64), 0

    def check_rows(self) -> None:
        """Check every row by itself and a sample against the baskets; collect the sums for later checks."""
        job, n_rows = self.job, self.row_keys.size
        chosen, matrix = chosen_rows(n_rows, min(job.sample, _MOST_JUDGED), job.rng), self.matrix
        for batch, own in sampled(job, self.parts, _READ, n_rows, chosen):
            self._check_batch(batch)
            if matrix is not None:
                _judge(matrix, batch, own, self.least if self.is_maximal else math.inf)
            self.row_keys[batch.start : batch.start + batch.keys.size] = batch.keys
            self.n_itemsets += np.bincount(batch.members[1], minlength=len(self.keys))
            self.max_items = max(self.max_items, int(batch.sizes(1).max(initial=0)))
        job.passed("rows", f"{n_rows:,} itemsets: items, sizes, keys and the query's conditions")
        self.row_keys.sort()
        check_distinct(f"{self.run / 'itemsets'}", self.row_keys, "itemset_key")
        job.passed("all distinct", f"{n_rows:,} keys")
        if matrix is not None:
            job.passed_sample("closed, and supports", "itemsets", chosen.size)

    @cached_property
    def matrix(self) -> sparse.csr_array | None:
        """Return the items of each basket, and compare the supports of items."""
        edges = self.job.edges
        if edges is None:
            return None
        supports = np.bincount(edges.right_ids, minlength=len(edges.right_keys))
        check_column(self.path, "support", pq.read_table(self.path)["support"].to_numpy(), supports, "recomputed")
        return matrix_of(edges)

    def _check_batch(self, batch: Batch) -> None:
        check_members(batch, 1, len(self.keys), "")
        sizes = batch.sizes(1)
        sums = np.add.reduceat(self.hashes[batch.members[1]], batch.offsets[1][:-1])
        keys = recipe.biclique_keys(np.zeros_like(sums), sums)
        for column, found, expected in (
            ("n_items", batch.n_right, sizes),
            ("itemset_key", batch.keys, keys),
            ("support", batch.n_left, np.maximum(batch.n_left, self.least)),
            ("n_items", sizes, np.minimum(sizes, sizes if self.max_len is None else self.max_len)),
        ):
            check_column(batch, column, found, expected, "expected")

    def check_sums(self) -> None:
        """Check the table of items, the manifest's counts and the content fingerprint."""
        found = pq.read_table(self.path)["n_itemsets"].to_numpy()
        check_column(self.path, "n_itemsets", found, self.n_itemsets, "recomputed")
        self.job.passed("items", f"{found.size:,} items")
        counts = {
            "itemsets": self.row_keys.size,
            "members": int(self.n_itemsets.sum()),
            "max_items": self.max_items,
            "min_count": self.least,
        }
        if self.confidence is not None:
            counts["rules"] = pq.read_metadata(self.rules_path).num_rows
        if self.lattice is not None:
            counts["covers"] = self.lattice.num_rows
        self.job.check_sums(counts, recipe.KeySums.of(self.row_keys), "itemsets")

    def check_rules(self) -> None:
        """Check every rule by itself and, with the input, a sample of rules and the rules that single items imply."""
        job, n_baskets = self.job, self.manifest.input.n_left
        table = pq.read_table(self.rules_path)
        rules = [tuple(map(tuple, row)) for row in zip(*(table[side].to_pylist() for side in _SIDES), strict=True)]
        before, after, both, *measures = (table[name].to_numpy() for name in table.column_names[2:])
        confidence, shares = both / before, after / n_baskets
        expected = confidence, confidence / shares, both / n_baskets - before / n_baskets * shares
        is_right = np.isclose(measures, expected, rtol=1e-9).all(axis=0) & (before < n_baskets)
        is_right &= (confidence >= self.confidence) & (both >= self.least)
        for row, sides in enumerate(rules):
            items = sorted(sum(sides, ()))
            apart = all(sides) and all(list(side) == sorted(side) for side in sides) and len(set(items)) == len(items)
            if not (apart and is_right[row] and 0 <= items[0] <= items[-1] < len(self.keys)):
                raise self._wrong_rule(row, "its items, supports, measures and the minima do not fit each other")
        if len(set(rules)) < len(rules):
            raise VerificationError(f"{self.rules_path}: a rule is listed more than once")
        job.passed("rules", f"{len(rules):,} rules: items, measures and minima")
        if self.matrix is None:
            return
        chosen = chosen_rows(len(rules), min(job.sample, _MOST_JUDGED), job.rng)
        for part in _parts(chosen):
            # Antecedent, consequent and both together; then the antecedent without each of its items, unless empty.
            parts = [[np.array(items) for items in (*rules[row], sum(rules[row], ()))] for row in part]
            sets = [[*own, *(np.delete(own[0], at) for at in range(own[0].size) if own[0].size > 1)] for own in parts]
            ends = np.cumsum([len(own) for own in sets])[:-1]
            held = [np.split(counts, ends) for counts in _held(self.matrix, list(chain.from_iterable(sets)))]
            for row, own, support, n_common, _ in zip(part.tolist(), parts, *held, strict=True):
                if support[:3].tolist() != [before[row], after[row], both[row]]:
                    raise self._wrong_rule(row, f"supports are {support[:3].tolist()} in the input")
                if n_common[2] != own[2].size or (support[3:] == support[0]).any():
                    raise self._wrong_rule(row, "both sides together are not closed, or the antecedent is not minimal")
        if chosen.size < len(rules):
            job.not_checked(f"rules against the input: {len(rules) - chosen.size:,} outside the random sample")
        job.not_checked("nothing missing: rules but those of single items to all that they imply")
        supports = np.asarray(self.matrix.sum(axis=0))
        single = job.rng.permutation(np.flatnonzero((supports >= self.least) & (supports < n_baskets)))[:_AT_ONCE]
        _, n_common, _ = _held(self.matrix, list(single[:, None]))
        exact = {rules[row][0] for row in np.flatnonzero(before == both)}
        implying = single[n_common > 1].tolist()
        if missing := [item for item in implying if (item,) not in exact]:
            name = self.keys[missing[0]].as_py()
            raise VerificationError(f"{self.rules_path}: the rule from {name!r} to all that it implies is missing")
        job.passed("rules against the input", f"{chosen.size:,} rules, and those of {single.size:,} items")

    def check_lattice(self, table: pa.Table) -> None:
        """Check that pairs are distinct and of listed sets and, with the input, all pairs below a sample of sets."""
        job, path, pairs = self.job, self.run / "lattice.parquet", np.array([table["lower"], table["upper"]])
        if not np.isin(pairs, self.row_keys).all() or len(np.unique(pairs, axis=1).T) < table.num_rows:
            raise VerificationError(f"{path}: a pair is listed twice, or holds a key that no itemset has")
        job.passed("lattice", f"{table.num_rows:,} pairs, all of listed itemsets")
        if self.matrix is None:
            return
        n_rows = self.row_keys.size
        chosen = chosen_rows(n_rows, min(job.sample, _AT_ONCE), job.rng)
        for batch, own in sampled(job, self.parts, _READ, n_rows, chosen):
            for row in own.tolist():
                items = batch.members[1][batch.offsets[1][row] : batch.offsets[1][row + 1]]
                if set(pairs[0, pairs[1] == batch.keys[row]].tolist()) != self._below(self.matrix, items):
                    raise VerificationError(f"{path}: not the sets below itemset_key {batch.keys[row]} in the input")
        job.passed("lattice against the input", f"all pairs below {chosen.size:,} itemsets")
        if chosen.size < n_rows:
            job.not_checked(f"lattice against the input: {n_rows - chosen.size:,} itemsets outside the random sample")

    def _below(self, matrix: sparse.csr_array, items: np.ndarray) -> set[int]:
        """Return the keys of the closed sets directly below `items`: each of their further items generates them."""
        held = matrix[np.flatnonzero(matrix[:, items].sum(axis=1) == items.size)]
        counts = np.asarray(held.sum(axis=0))
        further = np.flatnonzero((counts >= self.least) & (counts < held.shape[0]))
        common = (held[:, further].T @ held).tocsr()
        common.data = common.data == np.repeat(counts[further], np.diff(common.indptr))
        common.eliminate_zeros()
        common.sort_indices()
        closed = Counter(map(tuple, np.split(common.indices, common.indptr[1:-1])))
        sets = [np.array(each) for each, n in closed.items() if n == len(each) - items.size]
        sums = [self.hashes[each].sum() for each in sets if self.max_len is None or each.size <= self.max_len]
        return set(recipe.biclique_keys(np.zeros(len(sums), np.uint64), np.array(sums, np.uint64)).tolist())

    def _wrong_rule(self, row: int, found: str) -> VerificationError:
        return VerificationError(f"{self.rules_path}, row {row}: {found}")

    def check_nothing_missing(self) -> None:
        """Look up the closures of all items, and of random pairs of items."""
        job, edges = self.job, self.job.edges
        assert edges is not None
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        if self.is_maximal:
            frequent = np.bincount(edges.right_ids, minlength=len(self.keys)) >= self.least
            if self.max_len is None and (frequent & (self.n_itemsets == 0)).any():
                item = self.keys[int(np.argmax(frequent & (self.n_itemsets == 0)))].as_py()
                raise VerificationError(f"an itemset is missing: {item!r} is frequent, and in no maximal set")
            job.not_checked("nothing missing: maximal sets that hold no other item than listed ones")
            return
        graph, none = adjacency(edges), np.empty(0, np.int64)
        hashes = np.zeros(len(edges.left_keys), np.uint64), self.hashes
        rules = RowRules(hashes, (none, none), (self.least, 1), (None, self.max_len), 1)
        seeds = (
            vertex_seeds(len(self.keys), job.sample, job.rng),
            pair_seeds(graph.swapped(), min(job.sample, _PAIRS), job.rng),
        )
        for each in seeds:
            check_witnesses(graph, "right", each, rules, self.row_keys, self.keys, job.threads, "an itemset")
        n_seeds = sum(map(len, seeds))
        job.passed("nothing missing", f"the closures of {n_seeds:,} items and pairs of items")
        job.not_checked("nothing missing: closures of other items than single ones and pairs")


def _judge(matrix: sparse.csr_array, batch: Batch, chosen: np.ndarray, least: float) -> None:
    """Check some rows: count the baskets with their items, and those that share a further item."""
    for rows in _parts(chosen):
        sizes = batch.sizes(1)[rows]
        sets = [batch.members[1][batch.offsets[1][row] : batch.offsets[1][row + 1]] for row in rows]
        support, n_common, further = _held(matrix, sets)
        for k, row in enumerate(rows.tolist()):
            if support[k] != batch.n_left[row]:
                raise VerificationError(f"{batch.name(row)}: support is {batch.n_left[row]}; recomputed {support[k]}")
            if n_common[k] != sizes[k]:
                raise VerificationError(f"{batch.name(row)}: is not closed: other items are in all of its baskets")
            if further[k] >= least:
                raise VerificationError(f"{batch.name(row)}: is not maximal: {further[k]} baskets share one more")


def _held(matrix: sparse.csr_array, sets: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the baskets with each set of items, the items common to them, and the most that share one more."""
    sizes, members = np.fromiter(map(len, sets), np.int64), np.concatenate([*sets, np.empty(0, np.int64)])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    held = full(rows_of(ends, members, matrix.shape[1]) @ matrix.T, sizes)
    support = np.diff(held.indptr)
    common = (held @ matrix).tocsr()
    owners, further = np.repeat(np.arange(sizes.size), np.diff(common.indptr)), np.zeros(sizes.size, np.int64)
    is_common = common.data == support[owners]
    np.maximum.at(further, owners, np.where(is_common, 0, common.data))
    return support, np.bincount(owners, is_common, minlength=sizes.size), further


def _parts(chosen: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, chosen.size, _AT_ONCE):
        yield chosen[start : start + _AT_ONCE]
