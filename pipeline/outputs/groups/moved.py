"""Groups of buckets of time that one run finds at the one offset, and the next at the other: their right keys differ.

Without its bucket a right key is the same at both offsets. Of two groups at different offsets that act at the same time
these keys tell who became whom, where they are more alike than what either is paired with by the keys with the bucket.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.backends.arrow.hashes import key_hashes
from pipeline.diff.partners import Pairs
from pipeline.outputs.groups.group_rows import GroupRows

__all__ = ["with_moved", "without_buckets"]


def without_buckets(rows: GroupRows) -> GroupRows:
    """The same groups, their right members by the keys without the bucket of time, each once in a group."""
    keys = rows.members["key"].filter(pa.array(rows.is_right)).combine_chunks().dictionary_encode()
    # The last part of a right key is the beginning of the bucket.
    bare = [json.dumps(json.loads(key)[:-1], ensure_ascii=False) for key in keys.dictionary.to_pylist()]
    of_bare = key_hashes(pa.chunked_array([pa.array(bare, pa.string())]), "right")
    hashes = rows.hashes.copy()
    hashes[rows.is_right] = of_bare[keys.indices.to_numpy()]
    order = np.lexsort((hashes, rows.is_right, rows.owners))
    owners, is_right, hashes = rows.owners[order], rows.is_right[order], hashes[order]
    is_first = np.ones(order.size, np.bool_)
    is_first[1:] = (np.diff(owners) != 0) | (is_right[1:] != is_right[:-1]) | (hashes[1:] != hashes[:-1])
    return replace(
        rows,
        members=rows.members.take(pa.array(order[is_first])),
        owners=owners[is_first],
        is_right=is_right[is_first],
        hashes=hashes[is_first],
    )


def with_moved(
    pairs: Pairs, moved: Pairs, of_old: tuple[pa.Table, np.ndarray], of_new: tuple[pa.Table, np.ndarray]
) -> Pairs:
    """The pairs by whole keys, but for groups that are more like one at the other offset that acts at the same time.

    Parameters
    ----------
    pairs : Pairs
        By the right keys with their buckets.
    moved : Pairs
        Of the same groups, by the keys without.
    of_old, of_new : (pa.Table, (n,) int64)
        `groups` of either run, and the rows of those that were paired.
    """
    of_gone = np.zeros(pairs.partner_of_gone.size)
    has_one = pairs.partner_of_new >= 0
    of_gone[pairs.partner_of_new[has_one]] = pairs.jaccard[has_one]
    new = np.flatnonzero(moved.kind)
    gone = moved.partner_of_new[new]
    is_one = moved.jaccard[new] > np.maximum(pairs.jaccard[new], of_gone[gone])
    is_one &= _act_together(of_old[0].take(pa.array(of_old[1][gone])), of_new[0].take(pa.array(of_new[1][new])))
    new, gone = new[is_one], gone[is_one]
    partner_of_new, partner_of_gone = pairs.partner_of_new.copy(), pairs.partner_of_gone.copy()
    # Whom they leave is new, or gone.
    partner_of_gone[partner_of_new[new][partner_of_new[new] >= 0]] = -1
    partner_of_new[partner_of_gone[gone][partner_of_gone[gone] >= 0]] = -1
    partner_of_new[new], partner_of_gone[gone] = gone, new
    kind, jaccard = np.where(partner_of_new < 0, 0, pairs.kind), np.where(partner_of_new < 0, 0, pairs.jaccard)
    kind[new], jaccard[new] = moved.kind[new], moved.jaccard[new]
    return Pairs(partner_of_new, partner_of_gone, kind, jaccard, max(pairs.searched_from, moved.searched_from))


def _act_together(old: pa.Table, new: pa.Table) -> np.ndarray:
    """Whether groups, row by row, are of different offsets and their events of overlapping times; ``(n,) bool``."""
    told = (
        pc.not_equal(old["half_later"], new["half_later"]),
        pc.less_equal(old["first_time"], new["last_time"]),
        pc.less_equal(new["first_time"], old["last_time"]),
    )
    return np.logical_and.reduce([pc.fill_null(each, False).to_numpy() for each in told])
