"""Parts of the kernels on the emulator: warp operations, closed-set bitmaps, rows as words.

As a script, prints the number of cases of each part as JSON; an AssertionError ends it if one differs from the plain
model.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.walk_bundles import Child, Earlier
from tests.mbe_stage import warp_emulator

LANES = range(32)
_U = np.uint32


def by_all_lanes(function: Callable[..., Any], *values: Any) -> list:
    """Return each lane's result: an array of 32 passes one value per lane, anything else goes to all."""
    answers: list = [None] * 32

    def kernel() -> None:
        lane = warp_emulator.getcurrent().lane
        mine = (value[lane] if isinstance(value, np.ndarray) and value.shape == (32,) else value for value in values)
        answers[lane] = function(*mine)

    warp_emulator.launch(kernel, 1, 1, ())
    return answers


def of_arena(array: np.ndarray) -> np.ndarray:
    """Return an arena whose shape no lane takes for its own values."""
    assert array.shape != (32,)
    return array


def bits(word: Any) -> list[int]:
    return [bit for bit in LANES if int(word) >> bit & 1]


def check_warp(rng: np.random.Generator) -> int:
    """Every operation with the lanes' numbers."""
    from mbe_stage.device import warp

    values = rng.integers(-1000, 1000, 32).astype(np.int32)
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(_U)
    chosen = rng.random(32) < rng.choice([0.1, 0.5, 0.9])
    mask = sum(1 << lane for lane in LANES if chosen[lane])
    assert by_all_lanes(warp.ballot, chosen) == [mask] * 32
    assert by_all_lanes(warp.rank, _U(mask)) == [int(chosen[:lane].sum()) for lane in LANES]
    assert by_all_lanes(warp.count_bits, words) == [len(bits(word)) for word in words]
    assert by_all_lanes(warp.first_bit, words & words[::-1]) == [
        bits(word)[0] if word else -1 for word in words & words[::-1]
    ]
    some = words & words[::-1]
    lowest = [(bits(word)[0] if word else -1, int(word & (word - _U(1)))) for word in some]
    assert by_all_lanes(warp.lowest_bit, some) == lowest
    shifted = by_all_lanes(lambda word: warp.four(lambda one, more: one + more, (word, 2, 3, 4), 5), values)
    assert shifted == [(int(value) + 5, 7, 8, 9) for value in values]
    assert by_all_lanes(warp.lowest_bits, np.arange(1, 33)) == [(1 << n) - 1 for n in range(1, 33)]
    for operation, wanted in (
        (warp.sum_all, int(values.sum())),
        (warp.sum_small, int(values.sum())),
        (warp.max_all, int(values.max())),
        (warp.min_all, int(values.min())),
    ):
        assert by_all_lanes(operation, values) == [wanted] * 32, operation
    assert by_all_lanes(warp.or_all, words) == [int(np.bitwise_or.reduce(words))] * 32
    for operation in (warp.inclusive_sum, warp.inclusive_sum_64):
        assert by_all_lanes(operation, values) == np.cumsum(values).tolist(), operation
    source = int(rng.integers(0, 32))
    assert by_all_lanes(warp.shuffle_word, words, source) == [int(words[source])] * 32
    assert by_all_lanes(warp.shuffle_xor, words, source) == [int(words[lane ^ source]) for lane in LANES]
    return 17


def check_positions(rng: np.random.Generator) -> int:
    """Find the lane whose list holds a position, and the n-th set bit."""
    from mbe_stage.device import warp

    ends = np.cumsum(rng.integers(0, 4, 32) * rng.integers(0, 2, 32)).astype(np.int32)
    positions = rng.integers(0, max(1, int(ends[-1])), 32).astype(np.int32)
    owners = by_all_lanes(warp.owner_of, positions, ends)
    for position, owner in zip(positions, owners, strict=True):
        assert owner == (int(np.argmax(ends > position)) if ends[-1] > position else 31), (position, ends)
    word = _U(rng.integers(1, 1 << 32, dtype=np.uint64))
    set_bits = bits(word)
    found = by_all_lanes(warp.nth_bit, word, np.arange(32, dtype=np.int32))
    assert found == [set_bits[n] if n < len(set_bits) else 31 for n in LANES]
    return 2


def check_arrays(rng: np.random.Generator) -> int:
    """Fill, clear and sum ranges in memory."""
    from mbe_stage.bicliques.cuda.subgraph_parts import fill
    from mbe_stage.device import warp
    from mbe_stage.device.warp import exclusive_sums

    n, first = int(rng.integers(0, 100)), int(rng.integers(1, 9))
    array = of_arena(rng.integers(0, 50, 130).astype(np.int32))
    wanted = array.copy()
    wanted[first : first + n] = np.cumsum(array[first : first + n]) - array[first : first + n]
    by_all_lanes(exclusive_sums, array, first, n)
    assert np.array_equal(array, wanted)
    wanted[:n] = 0
    by_all_lanes(warp.clear, array, n)
    assert np.array_equal(array, wanted)
    wanted[first : first + n] = -1
    by_all_lanes(fill, array, first, n, -1)
    assert np.array_equal(array, wanted)
    return 3


def random_rows(rng: np.random.Generator, width: int, most: int) -> list[int]:
    return [int(row) for row in rng.integers(0, 1 << width, int(rng.integers(0, most)))]


def closed_by_definition(candidates: list[int], excluded: list[int], width: int) -> set[int]:
    """Return the non-empty intersections of the whole left set and candidates' rows that are inside no excluded row."""
    closed = {(1 << width) - 1}
    for row in candidates:
        closed |= {row & known for known in closed}
    return {s for s in closed if s and not any(s & ~row == 0 for row in excluded)}


def subsets_in(parts: list) -> set[int]:
    """Return the subsets that 32 lanes hold as one bitmap."""
    return {32 * lane + bit for lane in LANES for bit in bits(parts[lane])}


def check_closed_sets(rng: np.random.Generator) -> int:
    """Add rows; closed sets of all, without the whole left set, and the smallest ones."""
    from mbe_stage.bicliques.cuda import closed_sets as of

    width = int(rng.integers(1, of.CLOSED_SET_WIDTH + 1))
    candidates, excluded = random_rows(rng, width, 12), random_rows(rng, width, 4)
    shared = of_arena(np.full(64, 0xA5A5A5A5, _U))

    def closed(is_without_whole: bool) -> Any:
        of.clear_subsets(shared)
        if warp_emulator.getcurrent().lane == 0:
            for rows, are_excluded in ((candidates, False), (excluded, True)):
                for row in rows:
                    of.add_subset(shared, _U(row), are_excluded)
        mine, theirs = of.subsets_of_lane(shared)
        found = of.closed_sets(mine, theirs, width)
        return of.without_whole(found, mine, width) if is_without_whole else found

    wanted = closed_by_definition(candidates, excluded, width)
    parts = by_all_lanes(closed, False)
    assert subsets_in(parts) == wanted, (candidates, excluded, width)
    if wanted:
        fewest = min(subset.bit_count() for subset in wanted)
        assert by_all_lanes(of.fewest_members, np.array(parts, _U)) == [fewest] * 32
    whole = (1 << width) - 1
    assert subsets_in(by_all_lanes(closed, True)) == wanted - ({whole} - set(candidates))
    return 3


def check_packing(rng: np.random.Generator) -> int:
    """Pack subsets of a left set to an index and back; collect a frame's rows that way."""
    from mbe_stage.bicliques.cuda import closed_sets as of

    columns = sorted(rng.choice(32, int(rng.integers(1, of.CLOSED_SET_WIDTH + 1)), replace=False).tolist())
    left = sum(1 << column for column in columns)
    rows = (rng.integers(0, 1 << 32, 32, dtype=np.uint64) & left).astype(_U)

    def index_of(row: int) -> int:
        return sum(1 << k for k, column in enumerate(columns) if row >> column & 1)

    assert by_all_lanes(lambda row: of.pack(row, of.moves_of(_U(left))), rows) == [index_of(int(row)) for row in rows]

    def round_trip(row: Any) -> Any:
        moves = of.moves_of(_U(left))
        return of.spread(of.pack(row, moves), _U(left), moves)

    assert by_all_lanes(round_trip, rows) == rows.tolist()
    n_rows, n_excluded = int(rng.integers(1, 50)), int(rng.integers(0, 50))
    words = of_arena(rng.integers(0, 1 << 32, 200, dtype=np.uint64).astype(_U))
    first, cursor, singles = 7, int(rng.integers(0, n_rows)), _U(rng.integers(0, 1 << 32, dtype=np.uint64))
    own = SimpleNamespace(words=words, subsets=of_arena(np.full(64, 0xA5A5A5A5, _U)))
    child, frame = SimpleNamespace(left=_U(left), cursor=cursor), np.zeros(layout.FRAME_FIELDS, np.int32)
    frame[[layout.WORDS, layout.N_ROWS, layout.N_EXCLUDED]] = first, n_rows, n_excluded
    frame[layout.SINGLES] = singles.view(np.int32)

    def collected() -> Any:
        return of.collect_subsets(child, of.moves_of(_U(left)), frame, own)

    indices = [index_of(int(word)) for word in words[first : first + n_rows + n_excluded]]
    # A lane's column has the lane's number among the packed ones, if it is in the left set.
    single = {1 << k for k in range(len(columns)) if index_of(int(singles)) >> k & 1}
    candidates, excluded = zip(*by_all_lanes(collected), strict=True)
    assert subsets_in(list(candidates)) == set(indices[cursor + 1 : n_rows]) - {0}
    assert subsets_in(list(excluded)) == (set(indices[:cursor]) | set(indices[n_rows:]) | single) - {0}
    return 4


def excluded_list(rng: np.random.Generator, words: np.ndarray, rows: list[int]) -> Earlier:
    """Write rows into an arena in two pieces; return the place of the list."""
    first, gap, split = 3, int(rng.integers(0, 20)), int(rng.integers(0, len(rows) + 1))
    for k, row in enumerate(rows):
        words[first + k + (gap if k >= split else 0)] = row
    return Earlier(first, len(rows), split, gap)


def check_rows(rng: np.random.Generator) -> int:
    """Rows: dominated ones dropped, sorted, made distinct, found, united, restricted."""
    from mbe_stage.bicliques.cuda import row_words as of
    from mbe_stage.bicliques.cuda.layout import TABLE_SIZE

    width = int(rng.choice([3, 6, 32]))
    words, top = of_arena(np.full(600, 0xFFFFFFFF, _U)), 300
    rows, excluded = random_rows(rng, width, int(rng.choice([4, 40, 120]))), random_rows(rng, width, 60)
    singles = int(rng.integers(0, 1 << width))
    words[top : top + len(rows)] = rows
    earlier = excluded_list(rng, words, excluded)

    def is_dropped(row: int) -> bool:
        return row == 0 or (row & (row - 1) == 0 and row & singles != 0) or any(row & ~other == 0 for other in excluded)

    kept = [row for row in rows if not is_dropped(row)]
    inside_none = by_all_lanes(of.inside_none, words, earlier, np.array((rows + [0] * 32)[:32], _U), _U(0xFFFFFFFF))
    expected = [all(row & ~other for other in excluded) for row in (rows + [0] * 32)[:32]]
    assert inside_none == [sum(1 << lane for lane in LANES if expected[lane])] * 32
    n_kept = by_all_lanes(of.drop_dominated, words, top, len(rows), _U(singles), earlier)
    assert n_kept == [len(kept)] * 32
    assert words[top : top + len(kept)].tolist() == kept
    n_distinct = by_all_lanes(of.sort_distinct, words, top, len(kept))
    distinct = sorted(set(kept))
    assert n_distinct == [len(distinct)] * 32
    assert words[top : top + len(distinct)].tolist() == distinct
    assert by_all_lanes(of.union_of, words, top, len(distinct)) == [int(np.bitwise_or.reduce([0, *distinct]))] * 32
    if distinct:
        asked = np.array([distinct[lane % len(distinct)] ^ int(lane % 3 == 0) for lane in LANES], _U)
        assert by_all_lanes(of.is_among, asked, words, top, len(distinct)) == [row in distinct for row in asked]
    table, mask = of_arena(np.full(TABLE_SIZE, 0xA5A5A5A5, _U)), 0xFF & ~(1 << int(rng.integers(0, 12)))
    mode, excluded = int(rng.choice([layout.COUNT, layout.SIZES])), random_rows(rng, 9, 200)
    earlier = excluded_list(rng, words, excluded)
    n_restricted, found_singles = by_all_lanes(of.restrict, words, earlier, _U(mask), top, table, mode)[0]
    restricted = [row & mask for row in excluded]
    # Most repetitions are dropped, not all; in kernels that only count, also rows inside others.
    several = {row for row in restricted if row & (row - 1)}
    written = set(words[top : top + n_restricted].tolist())
    drops = mode == layout.COUNT and len(several) > 32
    assert written < several if drops else written <= several if mode == layout.COUNT else written == several
    assert all(any(row & ~other == 0 for other in written) for row in several)
    assert n_restricted <= len([row for row in restricted if row & (row - 1)])
    assert found_singles == int(np.bitwise_or.reduce([0, *(row for row in restricted if row & (row - 1) == 0)]))
    return 5


def check_accumulator(rng: np.random.Generator) -> int:
    """The roles of rows for a list child: numbered candidates, full rows counted, the largest of an earlier one.

    Kept columns that are not merged have a number each.
    """
    from mbe_stage.bicliques.cuda.merged_columns import Table, assign_columns
    from mbe_stage.bicliques.cuda.two_step_paths import look_at_rows

    n_rows, n_left = int(rng.integers(2, 150)), 5
    row = int(rng.integers(0, n_rows))
    counts = rng.integers(0, n_left + 1, n_rows).astype(np.int32)
    counts[row] = n_left
    nonzero = rng.permutation(np.flatnonzero(counts)).astype(np.int32)
    own = SimpleNamespace(
        counts=counts, nonzero=nonzero, bits=np.zeros(n_rows, _U), subsets=np.zeros(layout.MOST_KEY_ROWS, _U)
    )
    found = by_all_lanes(look_at_rows, Child(row, 0, n_left, n_left, 0), nonzero.size, 0, own, layout.COUNT)[0]
    candidates = [other for other in nonzero.tolist() if other > row and counts[other] < n_left]
    assert (found.n_candidates, found.n_full) == (len(candidates), int((counts == n_left).sum()))
    assert found.most_earlier == max([0, *counts[:row].tolist()])
    assert [int(own.bits[other]) for other in candidates] == list(range(1, len(candidates) + 1))
    assert own.subsets[: len(candidates)].tolist() == candidates[: layout.MOST_KEY_ROWS]
    own.columns = rng.integers(layout.NO_COLUMN, 3, n_rows).astype(np.int32)
    kept = np.flatnonzero(own.columns != layout.NO_COLUMN)
    numbers = by_all_lanes(assign_columns, Table(False, 2), Child(row, 0, n_rows, n_rows, 0), own, 0)
    assert numbers == [(kept.size, kept.size)] * 32
    assert own.columns[kept].tolist() == list(range(kept.size))
    assert (np.delete(own.columns, kept) == layout.NO_COLUMN).all()
    return 2


def check_places_of_keys(rng: np.random.Generator) -> int:
    """Keys of the most frequent rows, which are some of the highest bits, start at different places."""
    from mbe_stage.bicliques.cuda.merged_columns import first_place

    lowest = int(rng.integers(40, 55))
    keys = {sum(1 << int(bit) for bit in rng.choice(np.arange(lowest, 64), 3, replace=False)) for _ in range(200)}
    taken = Counter(int(first_place(np.uint64(key), np.int32(1024))) for key in keys)
    assert max(taken) < 1024
    assert max(taken.values()) < 12, (lowest, taken.most_common(3))
    return len(keys)


def check_enough(rng: np.random.Generator) -> int:
    """Vertices that columns of a word stand for; subsets of columns that stand for enough."""
    from mbe_stage.bicliques.constraints import MIN_LEFT
    from mbe_stage.bicliques.cuda.closed_sets import moves_of
    from mbe_stage.bicliques.cuda.count_within import large_enough, with_few
    from mbe_stage.bicliques.cuda.emit_bitsets import size_of_word

    width, least = int(rng.integers(1, 11)), int(rng.integers(1, 14))
    weights = np.where(np.arange(32) < width, rng.integers(1, rng.choice([2, 3, 6]), 32), 0).astype(np.int32)
    subsets = rng.random(1 << width) < rng.choice([0.1, 0.7])
    subsets[0] = False
    words = np.zeros(32, _U)
    for subset in np.flatnonzero(subsets):
        words[subset >> 5] |= _U(1 << (subset & 31))
    constraints = np.zeros(6, np.int64)
    constraints[MIN_LEFT] = least
    pool = SimpleNamespace(constraints=constraints)
    few = np.array(by_all_lanes(with_few, words, pool), _U)
    # The columns of a word; a left set has some of them.
    left = sorted(int(bit) for bit in rng.permutation(32)[:width])
    of_word = rng.integers(1, 3, 32).astype(np.int32)
    of_word[left] = weights[:width]
    alike = np.full(32, sum(1 << bit for bit in left), _U)
    found = by_all_lanes(
        lambda *own: large_enough(*own[:3], moves_of(own[2]), own[3], pool), words, few, alike, of_word
    )
    sums = np.array([sum(int(weights[bit]) for bit in bits(subset)) for subset in range(1 << width)])
    wanted = np.flatnonzero(subsets & (sums >= least)).tolist()
    assert [32 * lane + bit for lane in LANES for bit in bits(found[lane])] == wanted, (width, least)
    own = rng.integers(0, 1 << width, 32).astype(_U)
    assert by_all_lanes(size_of_word, own, weights) == sums[own].tolist()
    return 2


CHECKS = (
    (check_warp, 10),
    (check_positions, 20),
    (check_arrays, 20),
    (check_closed_sets, 50),
    (check_packing, 20),
    (check_rows, 35),
    (check_accumulator, 25),
    (check_places_of_keys, 8),
    (check_enough, 40),
)


def main() -> None:
    # Words wrap around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    warp_emulator.install()
    held: Counter = Counter()
    rng = np.random.default_rng(7)
    for check, times in CHECKS:
        for _ in range(times):
            held[check.__name__.removeprefix("check_")] += check(rng)
    print(json.dumps(held))


if __name__ == "__main__":
    main()
