"""Check a run, in order: files, schemas, limits, the input, the problem's own tables, and the manifest.

This module has the checks that apply to any problem. The publications of the problem and of derived outputs check their
own tables; they are given the `Job`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.options import Execution
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import PublishError, VerificationError
from mbe_stage.pipeline.problems.base import DerivedPublication, Publication
from mbe_stage.pipeline.problems.installed import (
    derived_of,
    limit_of,
    publication_of,
    published_problems,
    unknown_sections,
)
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.run_files import SCHEMA_VERSION
from mbe_stage.pipeline.publish.run_store import resolve_run
from mbe_stage.pipeline.verify.fields import (
    check_derived,
    check_key_types,
    check_own_fields,
    check_reading,
    check_vertex_ids,
    standing_notes,
)
from mbe_stage.pipeline.verify.files import check_asked, check_codecs, check_files, check_schemas, table_parts
from mbe_stage.pipeline.verify.recipe import KeySums, edge_fingerprint, vertex_hashes

_OF_MEMORY = "stopped at the memory budget: "

# Results to check against the graph one by one; if there are more, a random sample of this size.
DEFAULT_SAMPLE = 5_000_000
# Approximate share of the work done after the checksums, the keys' hashes and the results.
_FILES, _KEYS, _ROWS = 0.1, 0.2, 0.9
_VERTICES = ("left_vertices.parquet", "right_vertices.parquet")


def check_limits(run: Path, manifest: Manifest) -> str:
    """Check that `truncated` names a limit of the run's own configuration, and agrees with the number of results.

    Otherwise a complete run with missing results could pass as a stopped one.
    """
    truncated, n_found = manifest.truncated, manifest.n_found
    execution, what = manifest.config.execution, publication_of(manifest.problem).counted
    limit, seconds = limit_of(manifest.problem), execution.time_limit_seconds
    most = None if limit is None else getattr(execution, limit)
    place = f"{run / 'manifest.json'}: truncated is {truncated!r}"
    if most is not None and n_found > most:
        raise VerificationError(f"{place}: {n_found:,} {what} are more than {limit} = {most} of its config")
    if truncated is None:
        return "complete"
    reasons = []
    if most is not None and n_found == most:
        reasons.append(f"stopped at {limit} = {most}")
    if execution.max_output_bytes is not None:
        reasons.append(f"stopped at max_output_bytes = {execution.max_output_bytes}")
    if seconds is not None:
        reasons.append(f"stopped at time_limit_seconds = {seconds:g}")
    # Every run has a memory budget; the engine writes the rest of the message.
    if truncated not in reasons and not truncated.startswith(_OF_MEMORY):
        expected = " or ".join(map(repr, reasons)) or "null"
        raise VerificationError(f"{place}; expected {expected}, by its config and its {n_found:,} {what}")
    return truncated


@dataclass(frozen=True, slots=True)
class Check:
    """A passed check."""

    name: str
    detail: str


@dataclass(slots=True)
class VerifyReport:
    """All passed checks; the first failure raises instead.

    Attributes
    ----------
    n_found : int
        Results in the tables.
    n_against_input : int
        Results checked against the graph one by one; 0 without the input.
    not_checked : list of str
        Checks that were not or only partly possible, with the reason.
    """

    run: Path
    problem: str
    n_found: int = 0
    n_against_input: int = 0
    checks: list[Check] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def n_bicliques(self) -> int:
        """Return `n_found`, for a run of bicliques."""
        return self.n_found


def verify_run(
    run_dir: str | Path,
    edges: EdgeData | None = None,
    sample: int | None = None,
    seed: int = 0,
    *,
    threads: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> VerifyReport:
    """Check a published run with code independent of the engines and writers; only the reader of the input is shared.

    Parameters
    ----------
    run_dir : path
        A run directory, or an output directory for its latest run.
    edges : EdgeData, optional
        The input, read with the run's own input configuration. Without it, only the files are compared with each other.
    sample : int, optional
        Results to check against the graph one by one, drawn at random if there are more; `DEFAULT_SAMPLE` by default.
        Everything else is checked on all rows.
    seed : int
        Seed of the sample and of the witnesses.
    threads : int
        0 uses every core.
    on_progress : callable, optional
        Called with the approximate share of the work done.

    Raises
    ------
    VerificationError
        The first error found.
    PublishError
        There is no run, or its problem or one of its derived outputs is not installed here.
    """
    started = time.perf_counter()
    report_progress = on_progress or (lambda _: None)
    run = resolve_run(run_dir, may_be_odd=True)
    manifest = read_manifest(run)
    publication, derived = publications_of_run(run, manifest)
    job = Job(run, manifest, edges, DEFAULT_SAMPLE if sample is None else sample, seed, threads, report_progress)
    with job.ends:
        job.check_disk(publication, derived)
        job.check_input(publication)
        publication.check(job)
        for output in derived:
            if manifest.schema_version == SCHEMA_VERSION:
                output.check(job)
            else:
                job.not_checked(f"{output.name}: listed by the rules of an earlier version")
        job.check_manifest()
    report_progress(1.0)
    job.report.seconds = time.perf_counter() - started
    return job.report


def publications_of_run(run: Path, manifest: Manifest) -> tuple[Publication, tuple[DerivedPublication, ...]]:
    """Return the publications of a run's problem and derived outputs.

    Raises
    ------
    PublishError
        One of them is not installed here.
    """
    if not is_here(manifest.problem):
        raise PublishError(
            f"{run}: holds results of the problem {manifest.problem!r}, which is not installed here; expected "
            f"one of {', '.join(published_problems())}; install the package that provides it"
        )
    if missing := unknown_sections(manifest.config):
        raise PublishError(
            f"{run}: holds the derived output {missing[0]!r}, which is not installed here; install the package that "
            "brings it"
        )
    return publication_of(manifest.problem), derived_of(manifest.config)


class Job:
    """A check in progress: the data read so far, and the report.

    Parameters
    ----------
    edges : EdgeData or None
        The input, if given; once `check_input` has passed, it is known to be the run's input.
    sample : int
        Results to check against the graph one by one.
    seed : int
        Seed of `rng`.
    threads : int
        0 uses every core.
    on_progress : callable
        Takes the share of the work done.

    Attributes
    ----------
    keys : pair of pa.ChunkedArray, or None
        The keys of the left and right side; the position is the dense id. None if unknown.
    hashes : pair of (n,) uint64, or None
        Hashes of the keys (`pipeline.verify.recipe`).
    rng : np.random.Generator
    report : VerifyReport
    results : Path or None
        Directory of the problem's results, for the checks of derived outputs: the run, unless the problem's own check,
        which comes first, sets another. None if results are not available.
    ends : ExitStack
        Closed when the check ends, for temporary files.
    """

    def __init__(
        self,
        run: Path,
        manifest: Manifest,
        edges: EdgeData | None,
        sample: int,
        seed: int,
        threads: int,
        on_progress: Callable[[float], None],
    ) -> None:
        self.run, self.manifest, self.edges, self.sample = run, manifest, edges, sample
        self.rng = np.random.default_rng(seed)
        self.threads = Execution(threads=threads).worker_count
        self.report = VerifyReport(run, manifest.problem)
        self.results: Path | None = run
        self.ends = ExitStack()
        self.keys: tuple[pa.ChunkedArray, pa.ChunkedArray] | None = None
        self.hashes: tuple[np.ndarray, np.ndarray] | None = None
        self._report_progress, self._share = on_progress, 0.0
        self._tables: tuple[str, ...] = ()

    def passed(self, name: str, detail: str) -> None:
        """Note a passed check."""
        self.report.checks.append(Check(name, detail))

    def not_checked(self, what: str) -> None:
        """Note a check that was not or only partly possible, with the reason."""
        self.report.not_checked.append(what)

    def check_fingerprint(self, found: str) -> None:
        """Compare the manifest's content fingerprint with that of the rows."""
        stated, place = self.manifest.content_fingerprint, self.run / "manifest.json"
        if stated != found:
            raise VerificationError(f"{place}: content_fingerprint is {stated}; recomputed {found}")

    def parts_of(self, table: str) -> tuple[list[Path], int]:
        """Return the files of a table of results and the number of its rows, which the report gets."""
        parts = table_parts(self.run, table)
        self.report.n_found = sum(pq.read_metadata(part).num_rows for part in parts)
        return parts, self.report.n_found

    def passed_sample(self, name: str, results: str, n: int) -> None:
        """Note a check against the input of `n` random results."""
        self.report.n_against_input, n_found = n, self.report.n_found
        self.passed(name, f"{'all' if n == n_found else f'a random sample of {n:,} of'} {n_found:,} {results}")
        if n < n_found:
            self.not_checked(f"{name}: {n_found - n:,} {results} outside the random sample")

    def check_sums(self, counts: Mapping[str, object], sums: KeySums, what: str) -> None:
        """Compare the manifest's counts, and its content fingerprint, with those of the rows."""
        given, stated = self.manifest.counts, dict(self.manifest.counts)
        # Without a model, further names may be there.
        for name in {**stated, **counts} if isinstance(given, Mapping) else counts:
            if (found := stated.get(name)) != counts.get(name):
                place = self.run / "manifest.json"
                raise VerificationError(f"{place}: counts.{name} is {found}; recomputed {counts.get(name)}")
        self.check_fingerprint(str(sums))
        self.passed("manifest counts and content fingerprint", f"{sums.n:,} {what}, {sums}")

    def progress(self, share: float) -> None:
        """Report the approximate share of the problem's own checks done."""
        # A second reading of the rows reports its shares, too.
        self._share = max(self._share, share)
        self._report_progress(_KEYS + (_ROWS - _KEYS) * self._share)

    def check_disk(self, publication: Publication, derived: tuple[DerivedPublication, ...]) -> None:
        """Check files, columns and limits."""
        run, manifest = self.run, self.manifest
        self.passed("files", check_files(run, manifest, lambda share: self._report_progress(_FILES * share)))

        def schemas(key_types: tuple[pa.DataType, pa.DataType]) -> dict[str, pa.Schema]:
            of_each = (publication.schemas, *(output.schemas for output in outputs))
            return {name: schema for of in of_each for name, schema in of(manifest.config, key_types).items()}

        outputs = derived
        check_asked(run, manifest, schemas((pa.int64(), pa.int64())))
        outputs = derived if manifest.schema_version == SCHEMA_VERSION else ()
        self._tables = tuple(schemas((pa.int64(), pa.int64())))
        self.passed("schemas", check_schemas(run, schemas))
        self.passed("limits", check_limits(run, manifest))

    def check_input(self, publication: Publication) -> None:
        """Find the keys of the dense ids; check that the input, if given, is the run's input.

        The keys come from the problem's vertex tables or, without these, from the input.
        """
        run, facts = self.run, self.manifest.input
        tables = publication.schemas(self.manifest.config, (pa.int64(), pa.int64()))
        if all(name in tables for name in _VERTICES):
            self.keys = (
                check_vertex_ids(run, "left", facts.n_left),
                check_vertex_ids(run, "right", facts.n_right),
            )
            check_key_types(run, self.manifest, self.keys)
        elif self.edges is not None:
            self.keys = (pa.chunked_array([self.edges.left_keys]), pa.chunked_array([self.edges.right_keys]))
        if self.keys is not None:
            self.hashes = (vertex_hashes(self.keys[0], "left"), vertex_hashes(self.keys[1], "right"))
        self._report_progress(_KEYS)
        if self.edges is not None:
            self._check_edges(self.edges)

    def _check_edges(self, edges: EdgeData) -> None:
        assert self.keys is not None
        assert self.hashes is not None
        facts = self.manifest.input
        for side, found, keys in (("left", edges.left_keys, self.keys[0]), ("right", edges.right_keys, self.keys[1])):
            if not pa.chunked_array([found]).equals(keys):
                raise VerificationError(
                    f"{self.run / f'{side}_vertices.parquet'}: its keys are not the {side} keys of {edges.facts.source}"
                )
        left, right = edges.left_ids, edges.right_ids
        if edges.facts.undirected is not None:
            # An undirected edge has the end with the smaller left hash on the left.
            is_turned = self.hashes[0][left] > self.hashes[0][right]
            left, right = np.where(is_turned, right, left), np.where(is_turned, left, right)
        fingerprint = edge_fingerprint(left, right, *self.hashes)
        if fingerprint != facts.fingerprint:
            raise VerificationError(
                f"{self.run / 'manifest.json'}: input.fingerprint is {facts.fingerprint}; "
                f"{edges.facts.source} has {fingerprint}: it is not the input of this run, or was read with "
                "other filters"
            )
        if edges.events is not None and edges.facts.events_fingerprint != facts.events_fingerprint:
            raise VerificationError(
                f"{self.run / 'manifest.json'}: input.events_fingerprint is {facts.events_fingerprint}; "
                f"{edges.facts.source} has {edges.facts.events_fingerprint}: weights, times or rows of the edges differ"
            )
        self.passed("input", f"{edges.facts.n_edges:,} edges of {edges.facts.source}, fingerprint {fingerprint}")

    def check_manifest(self) -> None:
        """Check the remaining manifest fields, and note those that cannot be checked."""
        detail, unsure = check_own_fields(self.run, self.manifest)
        check_derived(self.run, self.manifest)
        uncompressed = check_codecs(self.run, self.manifest, self._tables)
        self.passed("manifest fields", detail if uncompressed else f"{detail}, compression")
        reading, unread = check_reading(self.run, self.manifest.input, None if self.edges is None else self.edges.facts)
        if reading is not None:
            self.passed("reading", reading)
        self.report.not_checked += [*unsure, *uncompressed, *unread, *standing_notes(self.manifest)]
