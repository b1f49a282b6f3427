"""Compact the nodes of a pool in NumPy memory. As a script, prints a JSON line per layout."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests.mbe_stage import emulated_cuda


def laid_out(dice: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Return fields and cursors of consecutive nodes, some closed, in shuffled order of their numbers."""
    from mbe_stage.bicliques.cuda import layout

    n = int(dice.integers(1, 60))
    sizes = dice.integers(1, (100, 900)[int(dice.integers(2))], n)
    room = -(-sizes // layout.ALIGNMENT) * layout.ALIGNMENT
    order = np.concatenate([[0], 1 + dice.permutation(n - 1)]).astype(np.int64)
    nodes = np.zeros((n, layout.NODE_FIELDS), np.int64)
    nodes[order, layout.NODE_OFFSET] = np.cumsum(room[order]) - room[order]
    nodes[:, layout.NODE_SIZE], nodes[:, layout.NODE_END] = sizes, 5
    # In nodes without ids the first columns and one more word are unused, unless sizes are written.
    nodes[:, layout.NODE_IDS] = dice.random(n) < 0.7
    nodes[:, layout.NODE_COLUMNS] = np.minimum(dice.integers(0, 9, n), sizes - 1)
    nodes[nodes[:, layout.NODE_COLUMNS] + 1 >= sizes, layout.NODE_IDS] = 1
    cursors = np.where(dice.random(n) < dice.choice([0.2, 0.6, 0.9]), 0, 5).astype(np.int32)
    return nodes, cursors, int(room.sum() * dice.choice([1.0, 1.1, 1.5]))


def case(seed: int) -> dict[str, Any]:
    """Return whether each node keeps its content at a separate place, and how much moved into gaps."""
    from mbe_stage.bicliques.cuda import layout, pool_compaction

    dice = np.random.default_rng(seed)
    nodes, cursors, size = laid_out(dice)
    pool_compaction._LARGE_NODE = 1
    mode = (layout.COUNT, layout.SIZES)[seed % 2]
    live = pool_compaction.live_nodes(nodes, cursors, dice.integers(-1, len(nodes), 3), mode)
    if mode == layout.SIZES:
        # Offsets are written even without ids: everything moves.
        assert np.array_equal(live.starts, nodes[live.numbers, layout.NODE_OFFSET])
        assert np.array_equal(live.sizes, nodes[live.numbers, layout.NODE_SIZE])
    needed = int(dice.integers(0, size - live.used + 1))
    into_gaps = pool_compaction.filled(live, size, needed)
    ints = np.arange(size, dtype=np.int32)
    same = bool(np.all(np.diff(live.numbers) > 0)) and live.numbers[0] == 0
    wanted = [ints[start : start + n].copy() for start, n in zip(live.starts, live.sizes, strict=True)]
    now = into_gaps or live
    pool_compaction.move(ints, now, 96)
    taken = np.zeros(size, np.int64)
    for place, held in zip(now.places, wanted, strict=True):
        same &= np.array_equal(ints[place : place + held.size], held)
        taken[place : place + held.size] += 1
    same &= bool(np.all(taken <= 1)) and not taken[now.used :].any()
    moved = None
    if into_gaps is not None:
        elsewhere = now.places != now.starts
        same &= bool(np.all(now.places[elsewhere] % layout.ALIGNMENT == 0)) and now.used + needed <= size
        moved = int(now.sizes[elsewhere].sum())
    return {"case": seed, "same": bool(same), "live": int(live.sizes.sum()), "moved": moved}


def main() -> None:
    emulated_cuda.install_emulator()
    from mbe_stage.bicliques.cuda import pool_compaction

    def copy_pieces(source: Any, starts: Any, sizes: Any, target: Any, places: Any) -> None:
        held = [source[start : start + n].copy() for start, n in zip(starts, sizes, strict=True)]
        for place, each in zip(places, held, strict=True):
            target[place : place + each.size] = each

    pool_compaction.copy_pieces = copy_pieces
    for seed in range(300):
        print(json.dumps(case(seed)))


if __name__ == "__main__":
    main()
