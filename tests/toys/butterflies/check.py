"""Check a run with matrices; shares no code with the engines, reference and collector."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow.parquet as pq

from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify import Job

__all__ = ["check"]


def check(job: Job) -> None:
    """Compare `edges.parquet` with the manifest and, if given, with the input."""
    path, asked = job.run / "edges.parquet", job.manifest.config.problem_section
    rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
    job.report.n_found = len(rows)
    numbers = [row[2] for row in rows]
    counts = {"counted": len(rows), "in_butterflies": sum(n > 0 for n in numbers), "most": max([0, *numbers])}
    if job.manifest.counts != counts:
        raise VerificationError(f"{job.run / 'manifest.json'}: counts are {job.manifest.counts}; recomputed {counts}")
    text = "\n".join(sorted(json.dumps(list(row[:3])) for row in rows))
    if job.manifest.content_fingerprint != hashlib.sha256(text.encode()).hexdigest():
        raise VerificationError(f"{job.run / 'manifest.json'}: content_fingerprint is not that of {path}")
    if asked.order == "butterflies" and numbers != sorted(numbers, reverse=True):
        raise VerificationError(f"{path}: out of order; order = butterflies promises most butterflies first")
    job.passed("counts and content fingerprint", f"{len(rows):,} edges")
    if job.edges is None:
        job.not_checked("butterflies of each edge: the input is not given")
        return
    expected = _expected(job.edges, asked)
    for row in rows:
        if expected.get(row[:2]) != row[2:]:
            raise VerificationError(f"{path}: {row[:2]} has {row[2:]}; recomputed {expected.get(row[:2])}")
    if len(set(rows)) != len(rows):
        raise VerificationError(f"{path}: an edge is there twice")
    job.report.n_against_input = len(rows)
    job.passed("butterflies", f"all {len(rows):,} edges")
    if job.manifest.truncated is not None:
        job.not_checked(f"nothing missing: the run is incomplete ({job.manifest.truncated})")
    elif missing := sorted(set(expected) - {row[:2] for row in rows}, key=repr):
        raise VerificationError(f"{path}: the edge {missing[0]} is missing; {len(missing)} of {len(expected)} are")
    else:
        job.passed("nothing missing", f"{len(expected):,} edges")


def _expected(edges: EdgeData, asked) -> dict[tuple, tuple]:
    joined = np.zeros((len(edges.left_keys), len(edges.right_keys)), np.int64)
    joined[edges.left_ids, edges.right_ids] = 1
    paths = joined @ joined.T @ joined
    left_degrees, right_degrees = joined.sum(1), joined.sum(0)
    found = {}
    for u, v in zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True):
        # Paths of three edges between the ends, except those that reuse the edge itself.
        n = int(paths[u, v] - left_degrees[u] - right_degrees[v] + 1)
        most = int((left_degrees[u] - 1) * (right_degrees[v] - 1))
        above = asked.max_butterflies is not None and n > asked.max_butterflies
        if n < asked.min_butterflies or above or n < asked.min_share * most:
            continue
        degrees = (int(left_degrees[u]), int(right_degrees[v])) if asked.degrees else ()
        found[edges.left_keys[u].as_py(), edges.right_keys[v].as_py()] = (n, *degrees)
    return found
