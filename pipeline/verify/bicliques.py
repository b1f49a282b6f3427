"""The tables of bicliques: every row and the graph, what the rows add up to, and what is missing.

A check of `pipeline.problems.base.Publication`; `pipeline.verify.job.Job` comes with everything that any problem's run
has to hold.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import closure, rows, tables, two_hop
from mbe_stage.pipeline.verify.against_graph import adjacency, check_distinct, check_nothing_missing, judge_rows
from mbe_stage.pipeline.verify.elsewhere import bicliques_elsewhere
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.rows import Batch, Tally, batches, check_rows, rules_of
from mbe_stage.pipeline.verify.two_hop import check_presence, check_two_hop
from mbe_stage.runtime.compile_ahead import CompileStep

__all__ = ["check", "compile_steps"]


def compile_steps() -> tuple[CompileStep, ...]:
    """What checking bicliques needs compiled."""
    return (*closure.compile_steps(), *rows.compile_steps(), *two_hop.compile_steps())


def check(job: Job) -> None:
    """Hold the tables of bicliques against each other and, where it is given, against the input.

    Raises
    ------
    VerificationError
        The first thing that is not as it should be.
    """
    checking = _Bicliques(job)
    if job.results is None:
        checking.check_sums()
    else:
        checking.check_bicliques()
        checking.check_tables()
        checking.check_distinct()
        checking.check_nothing_missing()
    checking.check_degrees()


class _Bicliques:
    """A check under way: what was read so far."""

    def __init__(self, job: Job) -> None:
        assert job.keys is not None
        assert job.hashes is not None
        self.job, self.run, self.manifest = job, job.run, job.manifest
        self.keys = job.keys
        self.rules = rules_of(self.manifest, self.keys, job.hashes)
        if not self.manifest.config.output.bicliques:
            job.results = bicliques_elsewhere(job, self.rules)
        self.parts = [] if job.results is None else table_parts(job.results, "bicliques")
        n_rows = sum(pq.read_metadata(part).num_rows for part in self.parts)
        job.report.n_found = self.manifest.counts.bicliques if job.results is None else n_rows
        self.tally = Tally(n_rows, (len(self.keys[0]), len(self.keys[1])))
        self.members = tables.MemberSums() if self.manifest.config.output.members else None
        self.graph = None if job.edges is None else adjacency(job.edges)

    def check_bicliques(self) -> None:
        """One pass over all rows: each by itself, a choice of them against the graph, and the sums for later."""
        job, n_rows = self.job, self.tally.keys.size
        chosen = _choose(n_rows, job.sample, job.rng)
        last_key: int | None = None
        for batch in batches(self.parts):
            check_rows(batch, self.rules)
            if self.manifest.config.output.sort:
                last_key = _check_order(batch, last_key)
            if self.graph is not None:
                begin, end = np.searchsorted(chosen, [batch.start, batch.start + batch.keys.size])
                judge_rows(self.graph, batch, chosen[begin:end] - batch.start, self.keys, job.threads)
            self.tally.add(batch)
            if self.members is not None:
                self.members.add_batch(batch)
            job.progress(self.tally.n_rows / n_rows)
        job.passed("rows", f"{n_rows:,} bicliques: members, sizes, keys and the query's conditions")
        if self.graph is None:
            job.not_checked("complete and maximal, degrees, nothing missing: the input is not given")
            return
        job.report.n_against_input = chosen.size
        share = "all" if chosen.size == n_rows else f"a random sample of {chosen.size:,} of"
        job.passed("complete and maximal", f"{share} {n_rows:,} bicliques")
        if chosen.size < n_rows:
            job.not_checked(f"complete and maximal: {n_rows - chosen.size:,} bicliques outside the random sample")

    def check_tables(self) -> None:
        """Everything that the rows add up to."""
        job = self.job
        job.passed("manifest counts and content fingerprint", tables.check_counts(self.run, self.manifest, self.tally))
        job.passed("size histogram", tables.check_histogram(self.run, self.tally))
        self._check_vertices()
        if self.members is not None:
            job.passed("members", tables.check_members(self.run, self.members))

    def check_sums(self) -> None:
        """Of a run without its bicliques: what the other tables say of each other and of the graph."""
        self.job.passed("size histogram and counts", tables.check_sums(self.run, self.manifest, self.rules))
        self._check_vertices()

    def _check_vertices(self) -> None:
        job, has_rows = self.job, self.job.results is not None
        degrees = (None, None) if self.graph is None else self.graph.degrees()
        for number, side in enumerate(("left", "right")):
            statistics = self.tally.of_vertices[number] if has_rows else None
            job.passed(f"{side} vertices", tables.check_vertices(self.run, side, statistics, degrees[number]))
            if self.graph is not None:
                self._check_two_hop(self.graph if side == "left" else self.graph.swapped(), side)
            else:
                check_presence(self.run, side, self.manifest.config.output.two_hop_steps)

    def _check_two_hop(self, graph: closure.Adjacency, side: str) -> None:
        most_steps = self.manifest.config.output.two_hop_steps
        detail, n_skipped = check_two_hop(self.run, side, graph, most_steps, self.job.rng, self.job.threads)
        self.job.passed(f"{side} two-hop degrees", detail)
        if n_skipped:
            self.job.not_checked(f"{side} two-hop degrees: {n_skipped:,} vertices outside the random sample")

    def check_distinct(self) -> None:
        """No key twice; afterwards the keys are sorted."""
        keys = self.tally.keys
        keys.sort()
        check_distinct(f"{self.run / 'bicliques'}", keys)
        self.job.passed("all distinct", f"{keys.size:,} keys")

    def check_nothing_missing(self) -> None:
        """The bicliques of single vertices and of pairs are there."""
        job = self.job
        if self.graph is None:
            return
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        n_looked_up = check_nothing_missing(job, self.graph, self.rules, self.tally.keys, self.keys)
        job.passed("nothing missing", f"{n_looked_up:,} bicliques that vertices and pairs of them generate are there")

    def check_degrees(self) -> None:
        """The degrees of a side add up to the edges."""
        facts = self.manifest.input
        for side in ("left", "right"):
            path = self.run / f"{side}_vertices.parquet"
            n_edges = pc.sum(pq.read_table(path, columns=["degree"])["degree"]).as_py()
            if n_edges != facts.n_edges:
                raise VerificationError(
                    f"{self.run / 'manifest.json'}: input.n_edges is {facts.n_edges}; "
                    f"the degrees in {path} add up to {n_edges}"
                )


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
