"""Compare device expansion of bicliques with the definition: on a GPU, or on the emulator with NumPy as CuPy.

Import it when `cupy` is the intended one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.collapse_twins import DeviceGroups
from mbe_stage.bicliques.cuda.layout import Output
from mbe_stage.bicliques.cuda.twin_expansion import expanded, room_for_sizes, work_out_sizes

__all__ = ["CASES", "check_expansion", "expand_all"]

_N_GROUPS = 40

# List entries, left and right, 0 for an unused slot; group sizes, concatenated; and the most members of a piece.
CASES: dict[str, tuple[Sequence[tuple[int, int]], Sequence[int], int]] = {
    "nothing": ([], [1], 100),
    "only unused slots": ([(0, 0)] * 40, [1], 100),
    "one biclique": ([(1, 1)], [1], 100),
    "one tile and one more": ([(1, 2)] * 33, [1], 1 << 20),
    "every length": ([(n % 40 + 1, (7 * n) % 40 + 1) for n in range(40)], [1], 1 << 20),
    "twins": ([(n % 9 + 1, n % 11 + 1) for n in range(70)], [1, 1, 3, 1, 2], 1 << 20),
    "unused between": ([(3, 2), (0, 0), (0, 0), (8, 9), (0, 0)] * 8, [1, 2], 1 << 20),
    "full to the last place": ([(31, 1), (32, 1), (33, 1), (16, 2)], [4], 1 << 20),
    "long": ([(40, 2), (1, 40), (40, 40), (2, 3), (0, 0), (40, 1)], [5, 60, 1, 2], 1 << 20),
    "thousands": ([(40, 1), (1, 1), (2, 39)], [40], 1 << 20),
    "one wide group": ([(1, 1), (2, 1), (1, 2)], [700, 1], 1 << 20),
    "more tiles than warps": ([(n % 3 + 1, 2) if n % 7 else (0, 0) for n in range(600)], [1, 2], 1 << 20),
    "pieces": ([(n % 5 + 1, n % 7 + 1) if n % 6 else (0, 0) for n in range(120)], [1, 1, 2], 60),
    "pieces of whole tiles": ([(1, 1)] * 96, [1], 64),
    "each alone": ([(n % 3 + 1, 2) if n % 4 else (0, 0) for n in range(50)], [1, 9], 1),
    "long ones in pieces": ([(n % 4 + 1, n % 8 + 1) if n % 5 else (40, 30) for n in range(20)], [1, 30], 700),
}


def check_expansion(case: str, seed: int = 0) -> dict[str, int]:
    """Expand a case and compare; return the numbers of bicliques, members and pieces."""
    lengths, group_sizes, range_members = CASES[case]
    n_untaken = 0 if seed % 2 and lengths else 37
    groups, lists, found, d_groups = _made(np.random.default_rng(seed), lengths, group_sizes, n_untaken)
    blocks = list(_blocks(found, len(lists), d_groups, range_members))
    wanted = [[_vertices(*each) for each in zip(groups, pair, strict=True)] for pair in lists if pair[0].size]
    n_members = 0
    taken = 0
    for block in blocks:
        mine = wanted[taken : taken + block.n_bicliques]
        assert mine, "a piece without bicliques"
        for side, (offsets, members) in enumerate(
            ((block.left_offsets, block.left_members), (block.right_offsets, block.right_members))
        ):
            assert offsets.dtype == np.int64
            assert members.dtype == np.int32
            assert cp.asnumpy(offsets).tolist() == np.cumsum([0, *(pair[side].size for pair in mine)]).tolist()
            assert cp.asnumpy(members).tolist() == np.concatenate([pair[side] for pair in mine]).tolist()
        in_block = block.left_members.size + block.right_members.size
        assert in_block <= range_members or block.n_bicliques == 1
        n_members += in_block
        taken += block.n_bicliques
    assert taken == len(wanted)
    return {"bicliques": taken, "members": n_members, "pieces": len(blocks)}


def expand_all(lengths: Sequence[tuple[int, int]], group_sizes: Sequence[int], range_members: int) -> int:
    """Expand bicliques and release each block before the next, as a run does; return their number."""
    _, lists, found, d_groups = _made(np.random.default_rng(0), lengths, group_sizes, 0)
    n_blocks = 0
    for _block in _blocks(found, len(lists), d_groups, range_members):
        n_blocks += 1
    return n_blocks


def _blocks(
    found: Output, n_slots: int, groups: tuple[DeviceGroups, DeviceGroups], range_members: int
) -> Iterator[DeviceBlock]:
    n = found.left_sizes.size
    sizes = room_for_sizes(n, groups)
    # When slots run out, warps keep asking for more.
    work_out_sizes(sizes, found, cp.asarray(np.array([n_slots if n_slots < n else n + 64])))
    return expanded(found, n_slots, sizes, range_members, 1 << 30)


def _made(
    chance: np.random.Generator, lengths: Sequence[tuple[int, int]], group_sizes: Sequence[int], n_untaken: int
) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[list[np.ndarray]], Output, tuple[DeviceGroups, DeviceGroups]]:
    """Return groups of both sides, list entries, and both on the device."""
    groups = [_groups(chance, group_sizes) for _ in range(2)]
    lists = [[chance.choice(_N_GROUPS, n, replace=False) for n in pair] for pair in lengths]
    found = _written(chance, lists, n_untaken)
    left, right = (
        DeviceGroups(*map(cp.asarray, (offsets, members, _alone(offsets, members)))) for offsets, members in groups
    )
    return groups, lists, found, (left, right)


def _groups(chance: np.random.Generator, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and members of one side, after those of the other; members within a group are unordered."""
    offsets = 7 + np.concatenate([[0], np.cumsum(np.resize(sizes, _N_GROUPS))])
    return offsets, np.concatenate([np.full(7, -5), chance.permutation(offsets[-1] - 7)]).astype(np.int32)


def _alone(offsets: np.ndarray, members: np.ndarray) -> np.ndarray:
    return np.where(np.diff(offsets) == 1, members[offsets[:-1]], -1).astype(np.int32)


def _vertices(groups: tuple[np.ndarray, np.ndarray], entries: np.ndarray) -> np.ndarray:
    offsets, members = groups
    return np.sort(np.concatenate([members[offsets[g] : offsets[g + 1]] for g in entries]))


def _written(chance: np.random.Generator, lists: list[list[np.ndarray]], n_untaken: int) -> Any:
    """Return memory as the walk leaves it: bicliques anywhere, garbage in unused parts and untaken slots."""
    starts = chance.integers(0, 1 << 40, len(lists) + n_untaken)
    sizes = np.array([[each.size for each in pair] for pair in lists], np.int32).reshape(-1, 2)
    sizes[sizes[:, 0] == 0, 1] = 99
    members = [np.full(5, -9)]
    for k in chance.permutation(np.flatnonzero(sizes[:, 0])):
        starts[k] = sum(each.size for each in members)
        members += [*lists[k], np.full(chance.integers(3), -9)]
    sizes = np.concatenate([sizes, np.full((n_untaken, 2), 99, np.int32)])
    return Output(
        *map(cp.asarray, (np.concatenate(members).astype(np.int32), starts, sizes[:, 0].copy(), sizes[:, 1].copy()))
    )
