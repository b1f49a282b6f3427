"""The bicliques of a run that was published without them: those of the run that it was made of, or found anew.

What is found anew lies in temporary files (``TMPDIR``) while the check lasts. An engine finds it, and every row is then
held against the graph, and all of them against the run's fingerprint, as published rows are.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.options import Execution
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import lost_file, read_manifest
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.schemas import BICLIQUES
from mbe_stage.pipeline.safe_paths import is_directory
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import biclique_keys
from mbe_stage.pipeline.verify.rows import RowRules

__all__ = ["bicliques_elsewhere", "found_anew"]

_ENGINE = "cpu"


def bicliques_elsewhere(job: Job, rules: RowRules) -> Path | None:
    """The directory below which the table `bicliques` lies, of a run that has none itself; None where there is none.

    Parameters
    ----------
    job : Job
        Notes where they come from, or why they are not to be had.
    rules : RowRules
        What the query asks for, in dense ids.
    """
    manifest = job.manifest
    n = manifest.counts.bicliques
    if (source := _source(job)) is not None:
        job.passed("bicliques", f"not written; those of run {source.name}, which this run was made of")
        return source
    if job.edges is None:
        why = "the input is not given"
    elif manifest.truncated is not None:
        why = "the run is incomplete, and would be another if it were repeated"
    elif n > job.sample:
        why = f"{n:,} are more than the sample of {job.sample:,}, up to which they are enumerated anew (--sample)"
    else:
        job.passed("bicliques", f"not written; enumerated anew by the engine {_ENGINE}")
        return found_anew(job, job.edges, rules, n)
    job.not_checked(
        f"bicliques: not written (output.bicliques: false), and {why}: rows, complete and maximal, all distinct, "
        "nothing missing, content fingerprint, which largest biclique a vertex is in"
    )
    return None


def _source(job: Job) -> Path | None:
    """The run that this one was made of, where it lies beside it and is whole."""
    made_of = job.manifest.made_of
    if made_of is None:
        return None
    source = job.run.resolve().parent / made_of
    if not is_directory(source):
        return None
    try:
        manifest = read_manifest(source)
    except PublishError:
        # Removed since, or this run was published elsewhere.
        return None
    same = manifest.content_fingerprint == job.manifest.content_fingerprint
    return source if same and manifest.config.output.bicliques and lost_file(source, manifest) is None else None


def found_anew(job: Job, edges: EdgeData, rules: RowRules, n_stated: int) -> Path:
    """Enumerate a graph; returns the directory below which its table `bicliques` lies while the check lasts.

    Parameters
    ----------
    rules : RowRules
        What the query asks for, in dense ids.
    n_stated : int
        As many as there should be: the search ends behind one more.
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
        """Take one block in."""
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
