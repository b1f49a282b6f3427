"""The whole check of a run, in order: files, every row and the graph, tables, what is missing, and the manifest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.options import Execution
from pipeline.edges import EdgeData
from pipeline.errors import VerificationError
from pipeline.manifest import Manifest, read_manifest
from pipeline.publish import resolve_run
from pipeline.terminal import shortened
from pipeline.verify import closure, tables
from pipeline.verify.fields import UNTOLD_NOTE, check_own_fields, check_reading
from pipeline.verify.files import check_files, check_schemas, table_parts
from pipeline.verify.limits import check_limits
from pipeline.verify.missing import check_witnesses, pair_seeds, vertex_seeds
from pipeline.verify.recipe import edge_fingerprint, vertex_hashes
from pipeline.verify.rows import Batch, RowRules, Tally, batches, check_rows
from pipeline.verify.two_hop import check_two_hop

__all__ = ["DEFAULT_SAMPLE", "Check", "VerifyReport", "verify_run"]

# Bicliques that are held against the graph one by one; where there are more, a random sample of so many.
DEFAULT_SAMPLE = 5_000_000
# Pairs of vertices whose bicliques are looked up.
_PAIRS = 100_000
# Share of the work that is done when the checksums, the keys' hashes and the rows are, roughly.
_FILES, _KEYS, _ROWS = 0.1, 0.2, 0.9
# Characters of a key in a message.
_KEY = 80


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was found to be as it should."""

    name: str
    detail: str


@dataclass(slots=True)
class VerifyReport:
    """What was checked, all of it passed; the first failure raises instead.

    Attributes
    ----------
    run : Path
    n_bicliques : int
    n_against_input : int
        How many bicliques were held against the graph one by one; 0 without the input.
    checks : list of Check
    not_checked : list of str
        What could not be checked, or only in part, and why.
    seconds : float
    """

    run: Path
    n_bicliques: int = 0
    n_against_input: int = 0
    checks: list[Check] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    seconds: float = 0.0


def verify_run(
    run_dir: str | Path,
    edges: EdgeData | None = None,
    sample: int | None = None,
    seed: int = 0,
    *,
    threads: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> VerifyReport:
    """Check a published run by other code than that which enumerated and wrote it; the input is read by the same.

    Parameters
    ----------
    run_dir : path
        A run directory, or an output directory, whose latest run is meant.
    edges : EdgeData, optional
        The input, read with the run's own input configuration. Without it only what the files say about each other is
        checked.
    sample : int, optional
        Bicliques to hold against the graph one by one, drawn at random where there are more; `DEFAULT_SAMPLE` by
        default. Everything else is checked on all rows.
    seed : int
        Of the sample and of the witnesses.
    threads : int
        0 is every core.
    on_progress : callable, optional
        Called with the share of the work that is done, roughly: checksums, keys, rows, and the rest.

    Returns
    -------
    VerifyReport

    Raises
    ------
    VerificationError
        The first thing that is not as it should be.
    PublishError
        There is no run.
    """
    started = time.perf_counter()
    told = on_progress or (lambda _: None)
    job = _Job(resolve_run(run_dir), edges, DEFAULT_SAMPLE if sample is None else sample, seed, threads, told)
    job.check_bicliques()
    job.check_tables()
    job.check_distinct()
    job.check_nothing_missing()
    job.check_manifest()
    told(1.0)
    job.report.seconds = time.perf_counter() - started
    return job.report


class _Job:
    """A check under way: what was read so far, and the report. Making one checks the files and the input."""

    def __init__(
        self,
        run: Path,
        edges: EdgeData | None,
        sample: int,
        seed: int,
        threads: int,
        on_progress: Callable[[float], None],
    ) -> None:
        self.run, self.sample, self.on_progress = run, sample, on_progress
        self.read = None if edges is None else edges.facts
        self.manifest = read_manifest(run)
        self.report = VerifyReport(run)
        self.rng = np.random.default_rng(seed)
        self.threads = Execution(threads=threads).worker_count
        self._passed("files", check_files(run, self.manifest, lambda share: on_progress(_FILES * share)))
        self._passed("schemas", check_schemas(run, self.manifest))
        self._passed("limits", check_limits(run, self.manifest))
        n_rows = sum(entry.rows or 0 for entry in self.manifest.files if entry.path.startswith("bicliques/"))
        self.report.n_bicliques = n_rows
        facts = self.manifest.input
        self.keys = (
            tables.check_vertex_ids(run, "left", facts.n_left),
            tables.check_vertex_ids(run, "right", facts.n_right),
        )
        self.rules = _rules(self.manifest, self.keys)
        on_progress(_KEYS)
        self.tally = Tally(n_rows, (len(self.keys[0]), len(self.keys[1])))
        self.members = tables.MemberSums() if self.manifest.config.output.members else None
        self.graph = None if edges is None else self._graph(edges)

    def check_bicliques(self) -> None:
        """One pass over all rows: each by itself, a choice of them against the graph, and the sums for later."""
        n_rows = self.tally.keys.size
        chosen = _choose(n_rows, self.sample, self.rng)
        last_key: int | None = None
        for batch in batches(table_parts(self.run, "bicliques")):
            check_rows(batch, self.rules)
            if self.manifest.config.output.sort:
                last_key = _check_order(batch, last_key)
            if self.graph is not None:
                begin, end = np.searchsorted(chosen, [batch.start, batch.start + batch.keys.size])
                self._judge(self.graph, batch, chosen[begin:end] - batch.start)
            self.tally.add(batch)
            if self.members is not None:
                self.members.add_batch(batch)
            self.on_progress(_KEYS + (_ROWS - _KEYS) * self.tally.n_rows / n_rows)
        self._passed("rows", f"{n_rows:,} bicliques: members, sizes, keys and the query's conditions")
        if self.graph is None:
            self.report.not_checked.append("complete and maximal, degrees, nothing missing: the input is not given")
            return
        self.report.n_against_input = chosen.size
        share = "all" if chosen.size == n_rows else f"a random sample of {chosen.size:,} of"
        self._passed("complete and maximal", f"{share} {n_rows:,} bicliques")
        if chosen.size < n_rows:
            self.report.not_checked.append(
                f"complete and maximal: {n_rows - chosen.size:,} bicliques outside the random sample"
            )

    def check_tables(self) -> None:
        """Everything that the rows add up to."""
        self._passed(
            "manifest counts and content fingerprint", tables.check_counts(self.run, self.manifest, self.tally)
        )
        self._passed("size histogram", tables.check_histogram(self.run, self.tally))
        degrees = (None, None) if self.graph is None else self.graph.degrees()
        for number, side in enumerate(("left", "right")):
            participation = self.tally.participation[number]
            self._passed(f"{side} vertices", tables.check_vertices(self.run, side, participation, degrees[number]))
            if self.graph is not None:
                self._check_two_hop(self.graph if side == "left" else self.graph.swapped(), side)
        if self.members is not None:
            self._passed("members", tables.check_members(self.run, self.members))

    def _check_two_hop(self, graph: closure.Adjacency, side: str) -> None:
        most_steps = self.manifest.config.output.two_hop_steps
        detail, n_skipped = check_two_hop(self.run, side, graph, most_steps, self.rng, self.threads)
        self._passed(f"{side} two-hop degrees", detail)
        if n_skipped:
            self.report.not_checked.append(f"{side} two-hop degrees: {n_skipped:,} vertices outside the random sample")

    def check_distinct(self) -> None:
        """No key twice; afterwards the keys are sorted."""
        keys = self.tally.keys
        keys.sort()
        twice = np.flatnonzero(keys[1:] == keys[:-1])
        if twice.size:
            raise VerificationError(f"{self.run / 'bicliques'}: biclique_key {keys[twice[0]]} is there more than once")
        self._passed("all distinct", f"{keys.size:,} keys")

    def check_nothing_missing(self) -> None:
        """The bicliques of single vertices and of pairs are there."""
        if self.graph is None:
            return
        if self.manifest.truncated is not None:
            self.report.not_checked.append(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        looked_up = [
            check_witnesses(self.graph, side, seeds, self.rules, self.tally.keys, keys, self.threads)
            for side, seeds, keys in (
                ("left", vertex_seeds(len(self.keys[0]), self.sample, self.rng), self.keys[0]),
                ("right", vertex_seeds(len(self.keys[1]), self.sample, self.rng), self.keys[1]),
                ("left", pair_seeds(self.graph, min(_PAIRS, self.sample), self.rng), self.keys[0]),
            )
        ]
        n_expected = np.unique(np.concatenate(looked_up)).size
        self._passed("nothing missing", f"{n_expected:,} bicliques that vertices and pairs of them generate are there")

    def check_manifest(self) -> None:
        """What the manifest says beside what the checks before compared; and what nothing tells."""
        detail, unsure = check_own_fields(self.run, self.manifest)
        self._passed("manifest fields", detail)
        reading, unread = check_reading(self.run, self.manifest.input, self.read)
        if reading is not None:
            self._passed("reading", reading)
        self.report.not_checked += [*unsure, *unread, UNTOLD_NOTE]

    def _passed(self, name: str, detail: str) -> None:
        self.report.checks.append(Check(name, detail))

    def _graph(self, edges: EdgeData) -> closure.Adjacency:
        """The input's adjacency, after making sure that it is the run's input."""
        facts = self.manifest.input
        for side, found, keys in (("left", edges.left_keys, self.keys[0]), ("right", edges.right_keys, self.keys[1])):
            if not pa.chunked_array([found]).equals(keys):
                raise VerificationError(
                    f"{self.run / f'{side}_vertices.parquet'}: its keys are not the {side} keys of {edges.facts.source}"
                )
        fingerprint = edge_fingerprint(edges.left_ids, edges.right_ids, *self.rules.hashes)
        if fingerprint != facts.fingerprint:
            raise VerificationError(
                f"{self.run / 'manifest.json'}: input.fingerprint is {facts.fingerprint}; "
                f"{edges.facts.source} has {fingerprint}: not the input of this run, or read with other filters"
            )
        self._passed("input", f"{edges.left_ids.size:,} edges of {edges.facts.source}, fingerprint {fingerprint}")
        return closure.Adjacency.of(edges.left_ids, edges.right_ids, len(self.keys[0]), len(self.keys[1]))

    def _judge(self, graph: closure.Adjacency, batch: Batch, rows: np.ndarray) -> None:
        verdicts = closure.judge(
            graph, rows, batch.offsets[0], batch.members[0], batch.offsets[1], batch.members[1], self.threads
        )
        wrong = np.flatnonzero(verdicts[:, 0])
        if wrong.size == 0:
            return
        verdict, first, second = verdicts[wrong[0]].tolist()
        left, right = (lambda vertex, keys=keys: _quoted(keys[vertex].as_py()) for keys in self.keys)
        what = {
            closure.MISSING_EDGE: lambda: (
                f"is not complete: no edge between left {left(first)} and right {right(second)}"
            ),
            closure.LEFT_CAN_JOIN: lambda: f"is not maximal: left {left(first)} can join",
            closure.RIGHT_CAN_JOIN: lambda: f"is not maximal: right {right(first)} can join",
        }[verdict]()
        raise VerificationError(f"{batch.name(int(rows[wrong[0]]))}: {what}")


def _quoted(key: int | str) -> str:
    return shortened(repr(key), _KEY)


def _rules(manifest: Manifest, keys: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> RowRules:
    query = manifest.config.query
    return RowRules(
        hashes=(vertex_hashes(keys[0], "left"), vertex_hashes(keys[1], "right")),
        containing=(_ids(keys[0], query.containing_left), _ids(keys[1], query.containing_right)),
        minima=(query.min_left, query.min_right),
        maxima=(query.max_left, query.max_right),
        min_edges=query.min_edges,
    )


def _ids(keys: pa.ChunkedArray, wanted: tuple[int | str, ...]) -> np.ndarray:
    """Dense ids of keys, found by their text."""
    text = set(map(str, wanted))
    if not text:
        return np.empty(0, np.int64)
    found = {key: vertex for vertex, key in enumerate(keys.cast(pa.string()).to_pylist()) if key in text}
    if missing := sorted(text - set(found)):
        raise VerificationError(f"the query asks for {_quoted(missing[0])}, which is no vertex of that side")
    return np.array(sorted(found.values()), np.int64)


def _choose(n_rows: int, sample: int, rng: np.random.Generator) -> np.ndarray:
    """Rows to hold against the graph, ascending: all, or one at random from each of `sample` equal stretches."""
    if n_rows <= sample:
        return np.arange(n_rows)
    bounds = np.arange(sample + 1, dtype=np.int64) * n_rows // sample
    return rng.integers(bounds[:-1], bounds[1:])


def _check_order(batch: Batch, last_key: int | None) -> int:
    """Keys ascend, as `output.sort` promises; returns the last one."""
    keys = batch.keys if last_key is None else np.concatenate([[last_key], batch.keys])
    descends = np.flatnonzero(keys[1:] < keys[:-1])
    if descends.size:
        row = int(descends[0]) + (last_key is None)
        raise VerificationError(f"{batch.name(row)}: out of order; output.sort promises ascending keys")
    return int(keys[-1])
