"""The best partner of each row among the rows of the other run: three searches of different reach.

All work on stretches of rows, so memory does not depend on the number of members. Their compiled parts run in threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from mbe_stage.pipeline.views.diff.bundles import (
    Best,
    BestOfBlock,
    Compared,
    Indexed,
    Known,
    Others,
    Partners,
    Prefixes,
    SumTable,
)
from mbe_stage.pipeline.views.diff.kernels import (
    GROWN,
    SHRUNK,
    compare_prefixes,
    count_shared,
    index_members,
    merge_best,
    take_pairs,
)
from mbe_stage.pipeline.views.diff.prefixes import (
    count_members,
    count_prefixes,
    fill_table,
    member_signatures,
    prefix_lengths,
    probe,
    rarest_first,
)
from mbe_stage.pipeline.views.diff.rows import Rows, Stretch
from mbe_stage.pipeline.views.diff.vertices import SharedVertices

# Members of gone rows to index at once, and of new rows to compare with them at once.
_INDEXED = 1 << 24
_COMPARED = 1 << 20
# Counters of one core: 8 bytes per row.
_FEWEST_BLOCK_ROWS, _MOST_BLOCK_ROWS = 1 << 15, 1 << 20
_POSTING = 8
_NO_WORDS = np.zeros(0, np.uint64)


def by_one_member(new: Rows, gone: Rows, shared: SharedVertices, threads: int) -> Best:
    """Find partners with one member more or one less, by the sums of the members' hashes.

    Such a pair precedes every other pair of its groups. For a group with s members its Jaccard index is at least (s -
    1) / s, and any other pair has at most s / (s + 2).
    """
    best = Best.none_yet(len(new), len(gone))
    of_new, of_gone = Partners(best.new_jaccard, best.new_partner), Partners(best.gone_jaccard, best.gone_partner)
    _probe(new, gone, shared, threads, of_new, of_gone)
    _probe(gone, new, shared, threads, of_gone, of_new)
    found = np.flatnonzero(best.new_partner >= 0)
    partners = gone.which[best.new_partner[found]]
    larger = _sizes(new)[found] > gone.side.n_left[partners] + gone.side.n_right[partners]
    best.new_kind[found] = np.where(larger, GROWN, SHRUNK)
    return best


def member_counts(rows: Rows, n_vertices: int) -> np.ndarray:
    """Count the rows of each shared vertex; ``(n_vertices,) int64``."""
    counts = np.zeros(n_vertices, np.int64)
    for stretch in rows.stretches(_COMPARED):
        count_members(stretch.members, counts)
    return counts


def by_shared_members(
    new: Rows, gone: Rows, shared: SharedVertices, threads: int, on_progress: Callable[[float], None]
) -> Best:
    """Compare every pair: count the common members of all rows that have any."""
    best, gone_known = Best.none_yet(len(new), len(gone)), _known(gone)

    def compare(block: Indexed, rows: Compared, first: int, last: int) -> None:
        found = BestOfBlock.none_yet(len(block.keys))
        count_shared(first, last, rows, shared.n_left, block, found, best, gone_known)
        _merge(block, found, best, new)

    def blocks() -> Iterator[list[Indexed]]:
        for stretch in gone.stretches(_INDEXED):
            yield _blocks(stretch, stretch.members, np.diff(stretch.offsets).astype(np.int32), shared.n)

    _compare_all(new, blocks(), gone, compare, threads, on_progress, _compared)
    return best


def prefix_counts(rows: Rows, ranks: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Count the rows with each shared vertex in their prefix; ``(n_levels, n_vertices) int64``, by rank."""
    counts = np.zeros((levels.size, ranks.size), np.int64)
    for stretch in rows.stretches(_COMPARED):
        ranked = rarest_first(stretch.offsets, stretch.members, ranks)
        count_prefixes(stretch.offsets, ranked, stretch.n_left + stretch.n_right, levels, counts)
    return counts


def by_prefixes(
    new: Rows,
    gone: Rows,
    shared: SharedVertices,
    ranks: np.ndarray,
    least: float,
    threads: int,
    on_progress: Callable[[float], None],
) -> Best:
    """Compare every pair with a Jaccard index of at least `least`; `ranks` orders shared vertices, rarest first.

    Parameters
    ----------
    shared : SharedVertices
        The vertices of both runs.
    ranks : (n_shared,) int32
    on_progress : callable
        Takes the share done.
    """
    best, gone_known = Best.none_yet(len(new), len(gone)), _known(gone)
    is_left = np.empty(shared.n, np.bool_)
    is_left[ranks] = np.arange(shared.n) < shared.n_left

    def compare(block: Indexed, prepared: tuple[Compared, Prefixes], first: int, last: int) -> None:
        found = BestOfBlock.none_yet(len(block.keys))
        compare_prefixes(first, last, *prepared, block, found, best, gone_known)
        _merge(block, found, best, new)

    def blocks() -> Iterator[list[Indexed]]:
        for stretch in gone.stretches(_INDEXED):
            members, limits = _ranked(stretch, ranks, least)
            signatures = member_signatures(stretch.offsets, members)
            yield _blocks(stretch, members, limits, shared.n, signatures)

    def prepared(stretch: Stretch) -> tuple[Compared, Prefixes]:
        members, limits = _ranked(stretch, ranks, least)
        signatures = member_signatures(stretch.offsets, members)
        return _compared(stretch)._replace(members=members), Prefixes(limits, signatures, is_left, least)

    _compare_all(new, blocks(), gone, compare, threads, on_progress, prepared)
    return best


def _known(rows: Rows) -> Known:
    return Known(rows.side.keys, rows.which)


def _compared(stretch: Stretch) -> Compared:
    return Compared(stretch.first, stretch.offsets, stretch.members, stretch.keys, stretch.n_left, stretch.n_right)


def _blocks(
    stretch: Stretch,
    members: np.ndarray,
    limits: np.ndarray,
    n_vertices: int,
    signatures: np.ndarray | None = None,
) -> list[Indexed]:
    # Enough rows that a vertex has some in each block; otherwise looking up its postings costs more than reading them.
    wanted = _POSTING * n_vertices * len(stretch) // max(1, int(limits.sum()))
    n_rows = min(max(wanted, _FEWEST_BLOCK_ROWS), _MOST_BLOCK_ROWS)
    blocks = []
    for first, last in pairwise([*range(0, len(stretch), n_rows), len(stretch)]):
        starts, postings = index_members(stretch.offsets, members, first, last, n_vertices, limits)
        blocks.append(
            Indexed(
                first=stretch.first + first,
                starts=starts,
                postings=postings,
                keys=stretch.keys[first:last],
                n_left=stretch.n_left[first:last],
                n_right=stretch.n_right[first:last],
                offsets=stretch.offsets[first : last + 1],
                members=members,
                signatures=_NO_WORDS if signatures is None else signatures[first:last],
            )
        )
    return blocks


def _compare_all(
    new: Rows,
    block_lists: Iterable[list[Indexed]],
    gone: Rows,
    compare: Callable[..., None],
    threads: int,
    on_progress: Callable[[float], None],
    prepared: Callable[[Stretch], Any],
) -> None:
    """Compare every stretch of new rows with every block of gone ones; each thread has its own rows.

    Parameters
    ----------
    block_lists : iterable of list of Indexed
        Gone rows, in lists that are indexed together.
    compare : callable
        Takes a block, prepared rows, and the first and last of them.
    on_progress : callable
        Takes the share done.
    prepared : callable
        Turns a stretch into the argument of `compare`.
    """
    steps = max(1, -(-gone.n_members // _INDEXED)) * max(1, len(new))
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        for blocks in block_lists:
            for stretch in new.stretches(_COMPARED):
                content = prepared(stretch)
                waiting = [
                    pool.submit(_with_all, compare, blocks, content, *cut) for cut in _cuts(len(stretch), threads)
                ]
                for each in waiting:
                    each.result()
                done += len(stretch)
                on_progress(min(1.0, done / steps))


def _with_all(compare: Callable[..., None], blocks: list[Indexed], content: Any, first: int, last: int) -> None:
    for block in blocks:
        compare(block, content, first, last)


_MERGING = threading.Lock()


def _merge(block: Indexed, found: BestOfBlock, best: Best, new: Rows) -> None:
    with _MERGING:
        merge_best(block, found, best, _known(new))


def _ranked(stretch: Stretch, ranks: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    n_shared = stretch.shared_left + stretch.shared_right
    limits = prefix_lengths(n_shared, stretch.n_left + stretch.n_right, least)
    return rarest_first(stretch.offsets, stretch.members, ranks), limits


def _probe(
    rows: Rows, others: Rows, shared: SharedVertices, threads: int, best: Partners, other_best: Partners
) -> None:
    """Pair rows with those of `others` that have one member less.

    Parameters
    ----------
    best, other_best : Partners
        Best partners of `rows` and of `others`; changed in place.
    """
    bits = max(4, int(2 * len(others)).bit_length())
    is_whole = others.shared_left + others.shared_right == _sizes(others)
    slots, flags = fill_table(others.sums, is_whole, bits)
    table = SumTable(slots, flags, bits)
    there = Others(others.sums, others.which, others.side.n_left, others.side.n_right)

    def look(stretch: Stretch, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        return probe(first, last, _compared(stretch), rows.sums, shared.hashes, shared.n_left, table, there)

    with ThreadPoolExecutor(threads) as pool:
        for stretch in rows.stretches(_COMPARED):
            waiting = [pool.submit(look, stretch, *cut) for cut in _cuts(len(stretch), threads)]
            for each in waiting:
                found, partners = each.result()
                at = rows.which[found]
                sizes = rows.side.n_left[at] + rows.side.n_right[at]
                take_pairs(found, partners, sizes, _known(rows), _known(others), best, other_best)


def _cuts(n: int, pieces: int) -> Iterator[tuple[int, int]]:
    return pairwise(np.linspace(0, n, pieces + 1).astype(int).tolist())


def _sizes(rows: Rows) -> np.ndarray:
    return rows.side.n_left[rows.which] + rows.side.n_right[rows.which]
