"""Groups of a run whose bicliques are not to be had: what they say themselves, and whether the input has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mbe_stage.pipeline.verify import closure
from mbe_stage.pipeline.verify.group_tables import Groups, refuse_first
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.rows import Batch
from mbe_stage.pipeline.verify.surprise import Found, Null, Wanted, score_bicliques
from mbe_stage.runtime.jit import readonly_view

__all__ = ["rows_of", "score_groups"]

_NOT_CHECKED = (
    "groups: that no better one is missing, n_bicliques, seeds, significant_candidates and what there were no steps "
    "for; vertex scores: the scores, but for lower bounds: the bicliques are not to be had"
)


def score_groups(job: Job, groups: Groups, null: Null, wanted: Wanted, whose: str = "") -> Found:
    """As `pipeline.verify.surprise.score_bicliques`, of the groups of a short list alone; of grown ones nothing.

    Where the input is given, each group of a short list is held against it: complete, and none can join. `whose` says
    of which graph they are, where there are two.

    Raises
    ------
    VerificationError
        A group is no maximal biclique of the input.
    """
    job.not_checked(whose + _NOT_CHECKED)
    rows = rows_of(job, groups)
    if job.edges is not None and rows:
        edges = job.edges
        graph = closure.Adjacency.of(edges.left_ids, edges.right_ids, len(edges.left_keys), len(edges.right_keys))
        (batch,) = rows
        (left_offsets, left), (right_offsets, right) = zip(batch.offsets, batch.members, strict=True)
        # As those of published bicliques are, for which the check was compiled.
        left, right = readonly_view(left), readonly_view(right)
        verdicts = closure.judge(graph, np.arange(len(groups)), left_offsets, left, right_offsets, right, job.threads)
        refuse_first(groups.path, verdicts[:, 0] != 0, "is no maximal biclique of the input")
        job.passed(f"{whose}groups complete and maximal", f"all {len(groups):,}")
    return replace(score_bicliques(rows, null, wanted), is_whole=False)


def rows_of(job: Job, groups: Groups) -> list[Batch]:
    """The groups as rows of bicliques; none where they are grown and no bicliques."""
    if job.manifest.config.section("groups").kind == "grown_cover" or not len(groups):
        return []
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    n_left, n_right = np.diff(left_offsets), np.diff(right_offsets)
    rows = Batch(
        start=0,
        keys=np.array(groups.column("group_key"), np.int64),
        offsets=(left_offsets, right_offsets),
        members=(left.astype(np.int32), right.astype(np.int32)),
        n_left=n_left,
        n_right=n_right,
        n_edges=n_left * n_right,
    )
    return [rows]
