"""Bicliques held against the graph that they are of: each complete and maximal, all distinct, nothing missing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from pipeline.edges import EdgeData
from pipeline.errors import VerificationError
from pipeline.terminal import shortened
from pipeline.verify import closure
from pipeline.verify.job import Job
from pipeline.verify.missing import check_witnesses, pair_seeds, vertex_seeds
from pipeline.verify.rows import Batch, RowRules

__all__ = ["Keys", "adjacency", "check_distinct", "check_nothing_missing", "judge_rows"]

# Pairs of vertices whose bicliques are looked up.
_PAIRS = 100_000
# Characters of a key in a message.
_KEY = 80

Keys = tuple[pa.ChunkedArray, pa.ChunkedArray]
"""Those of the left and of the right vertices, by dense id."""


def adjacency(edges: EdgeData) -> closure.Adjacency:
    """The graph of some edges."""
    return closure.Adjacency.of(edges.left_ids, edges.right_ids, len(edges.left_keys), len(edges.right_keys))


def judge_rows(graph: closure.Adjacency, batch: Batch, chosen: np.ndarray, keys: Keys, threads: int) -> None:
    """Some rows of a batch: each complete, and none can join.

    Raises
    ------
    VerificationError
        Names the first that is not.
    """
    verdicts = closure.judge(
        graph, chosen, batch.offsets[0], batch.members[0], batch.offsets[1], batch.members[1], threads
    )
    wrong = np.flatnonzero(verdicts[:, 0])
    if wrong.size == 0:
        return
    verdict, first, second = verdicts[wrong[0]].tolist()
    left, right = (partial(_key_of, of_side) for of_side in keys)
    what = {
        closure.MISSING_EDGE: lambda: f"is not complete: no edge between left {left(first)} and right {right(second)}",
        closure.LEFT_CAN_JOIN: lambda: f"is not maximal: left {left(first)} can join",
        closure.RIGHT_CAN_JOIN: lambda: f"is not maximal: right {right(first)} can join",
    }[verdict]()
    raise VerificationError(f"{batch.name(int(chosen[wrong[0]]))}: {what}")


def check_distinct(place: str, sorted_keys: np.ndarray, name: str = "biclique_key") -> None:
    """No key twice, of keys in ascending order; `place` is where they are from.

    Raises
    ------
    VerificationError
    """
    twice = np.flatnonzero(sorted_keys[1:] == sorted_keys[:-1])
    if twice.size:
        raise VerificationError(f"{place}: {name} {sorted_keys[twice[0]]} is there more than once")


def check_nothing_missing(
    job: Job, graph: closure.Adjacency, rules: RowRules, sorted_keys: np.ndarray, keys: Keys
) -> int:
    """The bicliques of single vertices and of pairs are there; returns how many were looked up.

    Raises
    ------
    VerificationError
        One is not.
    """
    looked_up = [
        check_witnesses(graph, side, seeds, rules, sorted_keys, of_side, job.threads)
        for side, seeds, of_side in (
            ("left", vertex_seeds(len(keys[0]), job.sample, job.rng), keys[0]),
            ("right", vertex_seeds(len(keys[1]), job.sample, job.rng), keys[1]),
            ("left", pair_seeds(graph, min(_PAIRS, job.sample), job.rng), keys[0]),
        )
    ]
    return int(np.unique(np.concatenate(looked_up)).size)


def _key_of(keys: pa.ChunkedArray, vertex: int) -> str:
    return shortened(repr(keys[vertex].as_py()), _KEY)
