"""Check the tables of bicliques: every row against the graph, the sums over rows, and missing bicliques.

`pipeline.verify.job.Job` has already checked what holds for a run of any problem. If a run was published without its
bicliques, they come from the run that it was made from. Otherwise the engine `cpu` enumerates them again into temporary
files (``TMPDIR``), and their rows are checked in the same way.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.options import Execution
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import PublishError, VerificationError
from mbe_stage.pipeline.publish.manifest import Manifest, lost_file, read_manifest
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.schemas import BICLIQUES, GRAPH
from mbe_stage.pipeline.safe_paths import is_directory
from mbe_stage.pipeline.verify import closure, rows, two_hop
from mbe_stage.pipeline.verify.closure import adjacency, check_distinct, check_nothing_missing, judge_rows
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import KeySums, biclique_keys, mix
from mbe_stage.pipeline.verify.rows import (
    Batch,
    RowRules,
    Tally,
    VertexStatistics,
    check_column,
    check_rows,
    chosen_rows,
    refuse,
    rules_of,
    sampled,
)
from mbe_stage.pipeline.verify.two_hop import check_presence, check_two_hop
from mbe_stage.runtime.compile_ahead import CompileStep

_ENGINE = "cpu"


def compile_steps() -> tuple[CompileStep, ...]:
    """List what checking bicliques needs compiled."""
    return (*closure.compile_steps(), *rows.compile_steps(), *two_hop.compile_steps())


def check(job: Job) -> None:
    """Check the tables of bicliques against each other and, if it is given, against the input.

    Raises
    ------
    VerificationError
        The first error found.
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
    """A check in progress, with the data read so far."""

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
        self.members = MemberSums() if self.manifest.config.output.members else None
        self.graph = None if job.edges is None else adjacency(job.edges)

    def check_bicliques(self) -> None:
        """Check every row by itself and a sample against the graph; collect the sums for later checks."""
        job, n_rows = self.job, self.tally.keys.size
        chosen = chosen_rows(n_rows, job.sample, job.rng)
        for batch, own in sampled(job, self.parts, rows.BICLIQUES, n_rows, chosen):
            check_rows(batch, self.rules)
            if self.graph is not None:
                judge_rows(self.graph, batch, own, self.keys, job.threads)
            self.tally.add(batch)
            if self.members is not None:
                self.members.add_batch(batch)
        job.passed("rows", f"{n_rows:,} bicliques: members, sizes, keys and the query's conditions")
        if self.manifest.config.input.by is not None and self.manifest.config.output.bicliques:
            job.passed("graphs", check_graphs(self.parts, self.keys))
        if self.graph is None:
            job.not_checked("complete and maximal, degrees, nothing missing: the input is not given")
            return
        job.passed_sample("complete and maximal", "bicliques", chosen.size)

    def check_tables(self) -> None:
        """Compare the other tables and the manifest with the sums over all rows."""
        job = self.job
        job.check_sums(counts_of(self.tally), KeySums.of(self.tally.keys), "bicliques")
        job.passed("size histogram", check_histogram(self.run, self.tally))
        self._check_vertices()
        if self.members is not None:
            job.passed("members", check_members(self.run, self.members))

    def check_sums(self) -> None:
        """Compare sizes, vertices, counts and fingerprint of a run without its bicliques."""
        self.job.passed("size histogram and counts", check_sums(self.run, self.manifest, self.rules))
        self._check_vertices()

    def _check_vertices(self) -> None:
        job, has_rows = self.job, self.job.results is not None
        degrees = (None, None) if self.graph is None else self.graph.degrees()
        for number, side in enumerate(("left", "right")):
            statistics = self.tally.of_vertices[number] if has_rows else None
            job.passed(f"{side} vertices", check_vertices(self.run, side, statistics, degrees[number]))
            if self.graph is not None:
                self._check_two_hop(self.graph if side == "left" else self.graph.swapped(), side)
            else:
                check_presence(self.run, side, self._two_hop_steps())

    def _check_two_hop(self, graph: closure.Adjacency, side: str) -> None:
        most_steps, rng = self._two_hop_steps(), self.job.rng
        detail, n_skipped = check_two_hop(self.run, side, graph, most_steps, rng, self.job.threads)
        self.job.passed(f"{side} two-hop degrees", detail)
        if n_skipped:
            self.job.not_checked(f"{side} two-hop degrees: {n_skipped:,} vertices outside the random sample")

    def _two_hop_steps(self) -> int:
        return self.manifest.input.most_two_hop_steps(self.manifest.config.output.two_hop_steps)

    def check_distinct(self) -> None:
        """Check that keys are distinct, and sort them."""
        keys = self.tally.keys
        keys.sort()
        check_distinct(f"{self.run / 'bicliques'}", keys)
        self.job.passed("all distinct", f"{keys.size:,} keys")

    def check_nothing_missing(self) -> None:
        """Check that the bicliques of single vertices and pairs are present."""
        job = self.job
        if self.graph is None:
            return
        if self.manifest.truncated is not None:
            job.not_checked(f"nothing missing: the run is incomplete ({self.manifest.truncated})")
            return
        n_looked_up = check_nothing_missing(job, self.graph, self.rules, self.tally.keys, self.keys)
        job.passed("nothing missing", f"{n_looked_up:,} bicliques generated by vertices and pairs are present")

    def check_degrees(self) -> None:
        """Check that the degrees of a side add up to the edges."""
        facts = self.manifest.input
        for side in ("left", "right"):
            path = self.run / f"{side}_vertices.parquet"
            n_edges = pc.sum(pq.read_table(path, columns=["degree"])["degree"]).as_py()
            if n_edges != facts.n_edges:
                raise VerificationError(
                    f"{self.run / 'manifest.json'}: input.n_edges is {facts.n_edges}; "
                    f"the degrees in {path} add up to {n_edges}"
                )


def check_graphs(parts: list[Path], keys: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> str:
    """Check that all members of each biclique are of one graph, and that the column `graph` has its name."""
    try:
        of_vertices = [np.array([str(json.loads(key)[0]) for key in side.to_pylist()], object) for side in keys]
    except (TypeError, ValueError, LookupError):
        raise VerificationError("a key is no JSON array that begins with the value of the column of graphs") from None
    seen: set[str] = set()
    for part in parts:
        start = 0
        for batch in pq.ParquetFile(part).iter_batches(1 << 16, columns=["left", "right", GRAPH.name]):
            graphs = np.array(batch[GRAPH.name].to_pylist(), object)
            seen.update(graphs)
            for side, names in zip(("left", "right"), of_vertices, strict=True):
                members = names[batch[side].flatten().to_numpy()]
                row_of = np.repeat(np.arange(graphs.size), batch[side].value_lengths().to_numpy())
                if (wrong := np.flatnonzero(members != graphs[row_of])).size:
                    row, found = int(row_of[wrong[0]]), members[wrong[0]]
                    raise VerificationError(
                        f"{part}, row {start + row}: graph is {graphs[row]!r}; a {side} member is of {found!r}"
                    )
            start += batch.num_rows
    return f"{len(seen):,} graphs with bicliques"


def bicliques_elsewhere(job: Job, rules: RowRules) -> Path | None:
    """Find a directory with the table `bicliques` for a run that has none itself; None if there is none.

    Parameters
    ----------
    job : Job
        Gets a note on their source, or on why they are not available.
    rules : RowRules
        The query's conditions, in dense ids.
    """
    manifest = job.manifest
    n = manifest.counts.bicliques
    if (source := _source(job)) is not None:
        job.passed("bicliques", f"not written; taken from run {source.name}, from which this run was made")
        return source
    if job.edges is None:
        why = "the input is not given"
    elif manifest.truncated is not None:
        why = "the run is incomplete, and repeating it would give another result"
    elif n > job.sample:
        why = f"{n:,} are more than {job.sample:,}, the most that are enumerated again (--sample)"
    else:
        job.passed("bicliques", f"not written; enumerated again by the engine {_ENGINE}")
        return enumerated_again(job, job.edges, rules, n)
    job.not_checked(
        f"bicliques: not written (output.bicliques: false), and {why}: rows, complete and maximal, all distinct, "
        "nothing missing, content fingerprint, which largest biclique a vertex is in"
    )
    return None


def _source(job: Job) -> Path | None:
    """Return the run that this one was made from, if it is complete and in the same output directory."""
    made_of = job.manifest.made_of
    if made_of is None:
        return None
    source = job.run.resolve().parent / made_of
    if not is_directory(source):
        return None
    try:
        manifest = read_manifest(source)
    except PublishError:
        # It was removed, or this run was published elsewhere.
        return None
    same = manifest.content_fingerprint == job.manifest.content_fingerprint
    return source if same and manifest.config.output.bicliques and lost_file(source, manifest) is None else None


def enumerated_again(job: Job, edges: EdgeData, rules: RowRules, n_stated: int) -> Path:
    """Enumerate a graph; return the directory of its table `bicliques`, which exists until the check ends.

    Parameters
    ----------
    rules : RowRules
        The query's conditions, in dense ids.
    n_stated : int
        The stated number; the search stops after one more.
    """
    query = BicliqueQuery(
        *(*rules.minima, *rules.maxima, rules.min_edges),
        *(tuple(map(int, ids)) for ids in rules.containing),
    )
    directory = Path(job.ends.enter_context(tempfile.TemporaryDirectory(prefix="mbe-verify-")))
    (directory / "bicliques").mkdir()
    with as_publish_errors(directory, "nothing was checked"), _Table(directory / "bicliques", rules.hashes) as table:
        execution = Execution(threads=job.threads, max_bicliques=n_stated + 1)
        enumerate_into(table, edges.graph(), query, execution, _ENGINE)
    return directory


class _Table:
    """The sink that writes one part of the table."""

    detail = Detail.MEMBERS

    def __init__(self, directory: Path, hashes: tuple[np.ndarray, np.ndarray]) -> None:
        self._hashes = hashes
        self._writer = pq.ParquetWriter(directory / "part-00000.parquet", BICLIQUES)

    def accept(self, block: BicliqueBlock) -> None:
        """Accept one block."""
        if not len(block):
            return
        sides, sums, sizes = [], [], []
        for side, offsets, members, hashes in (
            ("left", block.left_offsets, block.left_members, self._hashes[0]),
            ("right", block.right_offsets, block.right_members, self._hashes[1]),
        ):
            assert members is not None
            sides.append(pa.ListArray.from_arrays(offsets, members, type=BICLIQUES.field(side).type))
            sums.append(np.add.reduceat(hashes[members], offsets[:-1]))
            sizes.append(np.diff(offsets).astype(np.int32))
        columns = [biclique_keys(*sums), *sides, *sizes, sizes[0].astype(np.int64) * sizes[1]]
        self._writer.write_batch(pa.RecordBatch.from_arrays(list(map(_array, columns)), schema=BICLIQUES))

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _array(column: pa.Array | np.ndarray) -> pa.Array:
    return column if isinstance(column, pa.Array) else pa.array(column)


def check_vertices(run: Path, side: str, statistics: VertexStatistics | None, degrees: np.ndarray | None) -> str:
    """Check degrees (with the input), and the number of bicliques and the largest (if known), row by row."""
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
        check_column(path, column, values, right, "recomputed")
    nulls = pc.is_null(largest).to_numpy()
    what = "largest_biclique_key must be null exactly for vertices in no biclique"
    refuse(path, nulls != (table["n_bicliques"].to_numpy() == 0), what)
    return f"{table.num_rows:,} {side} vertices" + ("" if degrees is not None else " (degrees need the input)")


def check_histogram(run: Path, tally: Tally) -> str:
    """Check the number of bicliques of each size."""
    path = run / "size_histogram.parquet"
    table = pq.read_table(path)
    seen: set[tuple[int, int]] = set()
    for row, (n_left, n_right, count) in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        size = (n_left, n_right)
        if size in seen:
            raise VerificationError(f"{path}, row {row}: the size {n_left} x {n_right} occurs twice")
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


def counts_of(tally: Tally) -> dict[str, int]:
    """Return the counts that the manifest should have."""
    sizes = list(tally.histogram) or [(0, 0)]
    return {
        "bicliques": tally.n_rows,
        "left_members": tally.n_members[0],
        "right_members": tally.n_members[1],
        "sizes": len(tally.histogram),
        "max_left": max(left for left, _ in sizes),
        "max_right": max(right for _, right in sizes),
        "max_edges": max(left * right for left, right in sizes),
    }


def check_sums(run: Path, manifest: Manifest, rules: RowRules) -> str:
    """Compare the other tables with each other and with the graph, for a run without its bicliques."""
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
        raise VerificationError(f"{path}: a size occurs twice")
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
    """Check that a side's members of bicliques add up, and that each largest biclique has an existing size."""
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
        """Add some rows of the long form."""
        codes = (2 * vertices.astype(np.int64) + side).view(np.uint64)
        self._sums.add(mix(keys.view(np.uint64) + mix(codes)).view(np.int64))

    def add_batch(self, batch: Batch) -> None:
        """Add the long form of these bicliques."""
        for side in (0, 1):
            self.add(np.repeat(batch.keys, batch.sizes(side)), side, batch.members[side])

    def __str__(self) -> str:
        return str(self._sums)


def check_members(run: Path, expected: MemberSums) -> str:
    """Check that the long form holds exactly the members of the lists."""
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
