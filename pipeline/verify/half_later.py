"""The bicliques of buckets of time that begin half a bucket later, which no run publishes: found anew, and checked.

An engine finds them, as those of a run that was published without its own (`elsewhere`); every row is then held
against the graph, and the bicliques of vertices and of pairs are looked up among them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.edges import EdgeData
from pipeline.errors import VerificationError
from pipeline.verify.against_graph import Keys, adjacency, check_distinct, check_nothing_missing, judge_rows
from pipeline.verify.elsewhere import found_anew
from pipeline.verify.files import table_parts
from pipeline.verify.job import Job
from pipeline.verify.rows import RowRules, batches, check_rows, rules_of

__all__ = ["later_bicliques"]


def later_bicliques(later: Job) -> Path | None:
    """The directory below which the table `bicliques` of the later buckets lies; None where they are not to be had.

    Parameters
    ----------
    later : Job
        With the edges, keys and hashes of the second graph.

    Raises
    ------
    VerificationError
        They are not as many as the manifest says, or not those of the graph.
    """
    assert later.edges is not None
    assert later.keys is not None
    assert later.hashes is not None
    stated = later.manifest.derived["groups"]
    n = stated.get("half_later_bicliques", 0)
    if stated.get("half_later_truncated"):
        why = "a limit ended their search, and would end another elsewhere"
    elif n > later.sample:
        why = f"{n:,} are more than the sample of {later.sample:,}, up to which they are enumerated anew (--sample)"
    else:
        rules = rules_of(later.manifest, later.keys, later.hashes)
        directory = found_anew(later, later.edges, rules, n)
        n_looked_up = _check(later, later.edges, rules, later.keys, directory, n)
        later.passed(
            "half later bicliques",
            f"all {n:,}, enumerated anew: complete and maximal, distinct; {n_looked_up:,} looked up are there",
        )
        return directory
    later.not_checked(f"half later bicliques: {why}")
    return None


def _check(later: Job, edges: EdgeData, rules: RowRules, keys: Keys, directory: Path, n_stated: int) -> int:
    """Hold what was found against the graph; returns how many were looked up.

    Parameters
    ----------
    later : Job
    edges : EdgeData
    rules : RowRules
    keys : pair of pa.ChunkedArray
        Of the vertices.
    directory : Path
        Below which the table lies.
    n_stated : int
        How many the run says there are.
    """
    graph, found = adjacency(edges), [np.empty(0, np.int64)]
    for batch in batches(table_parts(directory, "bicliques")):
        check_rows(batch, rules)
        judge_rows(graph, batch, np.arange(batch.keys.size), keys, later.threads)
        found.append(batch.keys)
    sorted_keys = np.sort(np.concatenate(found))
    if sorted_keys.size != n_stated:
        n_found = f"{sorted_keys.size:,}" if sorted_keys.size < n_stated else "more"
        raise VerificationError(
            f"{later.run / 'manifest.json'}: derived.groups.half_later_bicliques is {n_stated:,}; found {n_found}"
        )
    check_distinct("the buckets that begin half later", sorted_keys)
    return check_nothing_missing(later, graph, rules, sorted_keys, keys)
