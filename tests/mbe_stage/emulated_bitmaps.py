"""Bitmaps of columns on the emulator, against plain sets. As a script, prints a JSON line."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES
from tests.mbe_stage import emulated_cuda, warp_emulator

_N_GRAPHS = 24


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    emulated_cuda.install_emulator()
    rng = np.random.default_rng(0)
    wrong = sum(_is_wrong(rng, k % 3 == 0) for k in range(_N_GRAPHS))
    print(json.dumps({"graphs": _N_GRAPHS, "wrong": wrong, "shifts": _shifts()}), flush=True)


def _shifts() -> list[int]:
    """Shifts of a node that may have bitmaps; in a small pool, with many edges, sparse, long, and written."""
    from mbe_stage.bicliques.cuda.column_bitmaps import shift_of

    def of(n_columns: int, n_rows: int, n_edges: int, pool_size: int = 1 << 20, mode: int = layout.COUNT) -> int:
        launch = SimpleNamespace(mode=mode, techniques=ALL_TECHNIQUES)
        pool = SimpleNamespace(ints=SimpleNamespace(size=pool_size))
        return int(shift_of(np.int32(n_columns), np.int32(n_rows), np.int32(n_edges), pool, launch))

    return [
        of(60, 1100, 900),
        of(60, 1100, 900, pool_size=16 * 60 * 64 - 1),
        of(60, 1100, (1 << 26) + 1),
        of(60, 1100, 239),
        of(60, 8193, 1 << 20),
        of(60, 1100, 900, mode=layout.SIZES),
    ]


def _is_wrong(rng: np.random.Generator, is_long: bool) -> bool:
    """True if the rows of some child of a random node are others than those of its matrix."""
    from numba import cuda

    from mbe_stage.bicliques.cuda.column_bitmaps import combine_bitmaps
    from mbe_stage.bicliques.cuda.subgraph_parts import parts_of, set_bit
    from mbe_stage.bicliques.cuda.walk_bundles import Child

    n_rows, n_columns = int(rng.integers(1050, 2200) if is_long else rng.integers(2, 90)), int(rng.integers(2, 70))
    matrix = rng.random((n_rows, n_columns)) < rng.uniform(0.02, 0.4)
    matrix[rng.integers(n_rows)] |= rng.random(n_columns) < 0.3
    sizes = matrix.sum(axis=1)
    chosen = np.flatnonzero((sizes > 0) & (sizes <= layout.WORD_BITS))
    if not chosen.size:
        return False
    row, fewest, is_small = int(rng.choice(chosen)), int(rng.integers(0, 4)), bool(rng.integers(2))
    is_small = is_small and int(sizes[row]) <= layout.CLOSED_SET_WIDTH
    shift = np.int32(6 if is_long and n_rows <= 2048 else 7 if is_long else 5)
    n_edges = int(sizes.sum())
    node = parts_of(0, n_columns, n_rows, n_edges, 0, 3, shift)
    ints = np.full(int(node.bitmaps) + (n_columns << int(shift)), 7, np.int32)
    first = int(sizes[:row].sum())
    ints[int(node.row_members) :][:n_edges] = np.nonzero(matrix)[1]
    ints[int(node.bitmaps) :] = 0
    edges = list(zip(*np.nonzero(matrix), strict=True))
    own = SimpleNamespace(
        bits=np.zeros(n_rows, np.uint32), nonzero=np.zeros(n_rows, np.int32), subsets=np.zeros(64, np.uint32)
    )
    child = Child(np.int32(row), np.uint32(node.row_members + first), np.int32(sizes[row]), 0, np.int32(fewest))
    found: list[Any] = []

    def kernel() -> None:
        for edge in edges[int(cuda.laneid) :: 32]:
            set_bit(np.int32(edge[0]), np.int32(edge[1]), node, ints)
        cuda.syncwarp()
        found.append(combine_bitmaps(node, child, is_small, own, ints))

    warp_emulator.launch(kernel, 1, 1, ())
    held = matrix[:, matrix[row]].astype(np.uint64) @ (np.uint64(1) << np.arange(sizes[row], dtype=np.uint64))
    columns = [{k for k in range(n_rows) if int(held[k]) >> j & 1} for j in range(sizes[row])]
    several = {k for k in range(n_rows) if int(held[k]).bit_count() > 1}
    earlier = sum(1 << j for j, rows in enumerate(columns) if min(rows) < row)
    later = sum(1 << j for j, rows in enumerate(columns) if min(rows) == row and any(k > row for k in rows - several))
    n_nonzero, *singles = (int(value) for value in found[0])
    is_wrong = singles != [earlier, later if fewest <= 1 else 0]
    if is_small:
        wanted = [set(), set()]
        for k in several:
            if int(held[k]).bit_count() >= fewest:
                wanted[k < row].add(int(held[k]))
        bits = [{32 * w + b for w in range(32) for b in range(32) if own.subsets[s + w] >> b & 1} for s in (0, 32)]
        return is_wrong or n_nonzero != 0 or bits != wanted
    rows = own.nonzero[:n_nonzero].tolist()
    return is_wrong or sorted(rows) != sorted(several) or any(int(own.bits[k]) != int(held[k]) for k in rows)


if __name__ == "__main__":
    main()
