"""The bicliques of a graph, scored by the specification: candidates, and what they say of vertices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mbe_stage.groups import reference
from mbe_stage.groups.reference import Best, Bicliques, EdgeScores, Null
from mbe_stage.pipeline.verify import closure
from mbe_stage.pipeline.verify.files import table_parts
from mbe_stage.pipeline.verify.group_tables import Groups, refuse_first
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.rows import batches
from mbe_stage.runtime.jit import readonly_view

__all__ = ["Scored", "score"]

_NOT_CHECKED = (
    "groups: that no better one is missing, n_bicliques, seeds, significant_candidates and what there were no steps "
    "for; vertex scores: the scores, but for lower bounds: the bicliques are not to be had"
)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """All bicliques of a graph, summed up.

    Attributes
    ----------
    candidates : Bicliques
        Best first.
    surprise, evidence : (n,) int64
        Of the candidates.
    seed_keys : int64
        Of the bicliques that groups are grown from.
    best : int
        The largest surprise, positive or not.
    share_numerators : pair of (n_vertices,) int64
        As `Best.numerators`.
    is_whole : bool
        Whether these are all bicliques of the run; else the groups themselves, which tell less.
    """

    candidates: Bicliques
    surprise: np.ndarray
    evidence: np.ndarray
    seed_keys: np.ndarray
    best: int
    share_numerators: tuple[np.ndarray, np.ndarray]
    by_edge: EdgeScores
    is_whole: bool


def score(job: Job, groups: Groups, null: Null, whose: str = "") -> Scored:
    """Two passes over the bicliques of a run: the first finds the candidates, the second reads their members.

    If the bicliques are not available, the groups of a short list stand for them. `whose` names the graph in messages
    if there are two.

    Raises
    ------
    VerificationError
        The bicliques are not available, the input is, and a group is no maximal biclique of it.
    """
    alone = None
    if job.results is None:
        job.not_checked(whose + _NOT_CHECKED)
        alone = _rows_of(job, groups)
        _check_against_input(job, groups, alone, whose)
    best = Best(null, reference.TOP)
    for rows in _bicliques(job, alone):
        best.add(rows)
    keys = best.candidate_keys()
    found = (rows.take(np.flatnonzero(np.isin(rows.keys, keys))) for rows in _bicliques(job, alone))
    candidates = Bicliques.joined(list(found))
    candidates = candidates.take(np.lexsort((candidates.keys, -null.surprise(candidates))))
    return Scored(
        candidates=candidates,
        surprise=null.surprise(candidates),
        evidence=null.evidence(candidates),
        seed_keys=best.candidate_keys(reference.SEEDS),
        best=int(best.surprise[0].max(initial=np.iinfo(np.int64).min)),
        share_numerators=(best.numerators[0], best.numerators[1]),
        by_edge=reference.edge_scores(candidates, null),
        is_whole=alone is None,
    )


def _bicliques(job: Job, alone: Bicliques | None) -> Iterable[Bicliques]:
    if alone is not None:
        return [alone] if alone.keys.size else []
    assert job.results is not None
    parts = table_parts(job.results, "bicliques")
    return (Bicliques(batch.keys, batch.offsets, batch.members) for batch in batches(parts))


def _rows_of(job: Job, groups: Groups) -> Bicliques:
    """The groups as bicliques; none if they are grown, since those are not bicliques."""
    if job.manifest.config.section("groups").kind == "grown_cover":
        return Bicliques.joined([])
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    keys = np.array(groups.column("group_key"), np.int64)
    return Bicliques(keys, (left_offsets, right_offsets), (left, right))


def _check_against_input(job: Job, groups: Groups, rows: Bicliques, whose: str) -> None:
    if job.edges is None or not rows.keys.size:
        return
    edges = job.edges
    graph = closure.Adjacency.of(edges.left_ids, edges.right_ids, len(edges.left_keys), len(edges.right_keys))
    # As those of published bicliques, for which the check was compiled.
    left, right = (readonly_view(members.astype(np.int32)) for members in rows.members)
    verdicts = closure.judge(graph, np.arange(len(groups)), rows.offsets[0], left, rows.offsets[1], right, job.threads)
    refuse_first(groups.path, verdicts[:, 0] != 0, "is no maximal biclique of the input")
    job.passed(f"{whose}groups complete and maximal", f"all {len(groups):,}")
