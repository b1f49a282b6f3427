"""Compare node choices of idle warps on the emulator with a plain model, and the warps that look for idle ones.

As a script, prints the choices of each kind as JSON; an AssertionError ends it on a difference from the model, or if
too many or too few look.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from mbe_stage.bicliques.cuda import layout
from tests.mbe_stage import emulated_warp, warp_emulator


def chosen_by_model(
    ends: Any, cursors: Any, nodes: Any, low: int, n_open: int, any_owner: bool, mode: int
) -> tuple[str, int]:
    """Return the kind of choice and the node; -1 if no node has children left."""
    n, sizes = len(ends), nodes[:, layout.NODE_SIZE]
    may_be = [node for node in range(low, n) if any_owner or not nodes[node, layout.NODE_IS_OWNED]]
    is_open = [node for node in may_be if cursors[node] < ends[node]]
    if mode == layout.COUNT and any_owner and n_open < 1024:
        mixed = (n + n_open * 0x85EBCA6B) * 0x9E3779B1 % (1 << 32)
        start = low + (mixed * (n - low) >> 32)
        near = [node for node in is_open if start <= node < start + 32]
        if near:
            return "largest", max(near, key=lambda node: (sizes[node], -node))
    return ("oldest", is_open[0]) if is_open else ("none", -1)


def main() -> None:
    # The number mixing wraps around.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    emulated_warp.install_emulator()
    from mbe_stage.bicliques.cuda.work_donation import find_open_node, is_donor

    answer = np.zeros(32, np.int32)

    def choose(pool: layout.Pool, control: np.ndarray, any_owner: bool, mode: int) -> None:
        node = find_open_node(pool, control, any_owner, mode)
        answer[warp_emulator.getcurrent().lane] = node

    kinds: Counter = Counter()
    rng = np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(1, 150))
        nodes = np.zeros((n + 40, layout.NODE_FIELDS), np.int64)
        cursors = np.zeros(n + 40, np.int32)
        # Some are being written: they have a cursor and no end yet.
        ends = np.where(rng.random(n) < 0.8, 10, 0)
        cursors[:n] = np.where(rng.random(n) < rng.choice([0.05, 0.5]), 4, 10)
        nodes[:n, layout.NODE_END] = ends
        nodes[:n, layout.NODE_SIZE] = rng.integers(1, 50, n)
        nodes[:n, layout.NODE_IS_OWNED] = rng.random(n) < 0.5
        low = int(rng.integers(0, n + 1))
        n_open = int(rng.choice([1, 7, 300, 2000]))
        control = np.zeros(layout.CONTROL_FIELDS, np.int32)
        control[layout.N_OPEN], control[layout.N_NODES], control[layout.LOW_NODE] = n_open, n, low
        pool = layout.Pool(None, nodes, cursors, None, None, None, None, None)
        for any_owner, mode in itertools.product((True, False), (layout.COUNT, layout.MEMBERS)):
            control[layout.LOW_NODE] = low
            kind, wanted = chosen_by_model(ends, cursors, nodes, low, n_open, any_owner, mode)
            warp_emulator.launch(choose, 1, 1, (pool, control, any_owner, mode))
            assert set(answer.tolist()) == {wanted}, (kind, wanted, answer)
            # No node with children left is before the node where the others start to look.
            assert not (
                cursors[low : control[layout.LOW_NODE]] < nodes[low : control[layout.LOW_NODE], layout.NODE_END]
            ).any()
            kinds[kind] += 1
    check_choice_of_donors(is_donor)
    print(json.dumps(kinds))


def check_choice_of_donors(is_donor: Any) -> None:
    """About four warps per idle one at every visit; all, if there are fewer; none without idle ones."""
    n_warps = 5280
    warps = SimpleNamespace(idle_mask=np.zeros(n_warps // 32, np.uint32))
    for n_idle in (0, 1, 10, 300, 1320, 5000):
        for visit in (1, 2, 1000):
            drawn = sum(bool(is_donor(warp, visit, n_idle, warps)) for warp in range(n_warps))
            assert abs(drawn - min(4 * n_idle, n_warps)) <= min(4 * n_idle, 0.25 * n_idle + 4), (n_idle, visit, drawn)
    # Every warp is drawn sooner or later.
    assert all(any(is_donor(warp, visit, 1, warps) for visit in range(8 * n_warps)) for warp in (0, 7, 5279))


if __name__ == "__main__":
    main()
