"""Expand bicliques on the emulator with little and much shared memory, and compare allocations with the plan.

As a script, with ``some`` or ``all`` cases, prints a JSON line per case.
"""

from __future__ import annotations

import json
import sys
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from mbe_stage.bicliques.cuda.memory_plan import expansion_bytes
from tests.mbe_stage.emulated_cuda import install_emulator

# A warp's room for vertices, and the most that are sorted by counting.
THRESHOLDS = [(512, 32), (40, 5), (1, 1)]
# Without staging most lists are long and are sorted by a block each, which is slow: for some cases, one of them at a
# third of its size.
NOT_ALL_LONG = "more tiles than warps"
SOME_LONG = (
    "one tile and one more",
    "unused between",
    "full to the last place",
    "long",
    "pieces of whole tiles",
    "each alone",
)
# Offsets, members, lengths of unused slots, or long lists take most of the memory; as `expansion_checks.CASES`, with no
# biclique larger than a block.
METERED: list[tuple[Sequence[tuple[int, int]], Sequence[int], int]] = [
    ([(1, 1)] * 700, [1], 300),
    ([(1, 1)] * 90, [1], 1000),
    ([(20, 20)] * 30, [4], 500),
    ([(1, 1), *[(0, 0)] * 63] * 9, [1], 4),
    ([(9, 1)] * 6, [60], 1100),
]


class Meter:
    """CuPy's allocations by `twin_expansion`, with the bytes alive."""

    int32, int64, asnumpy, cumsum = np.int32, np.int64, staticmethod(np.asarray), staticmethod(np.cumsum)

    def __init__(self) -> None:
        self.alive = self.peak = 0

    def empty(self, *arguments: Any) -> np.ndarray:
        return self._counted(np.empty(*arguments))

    def _counted(self, array: np.ndarray) -> np.ndarray:
        self.alive += array.nbytes
        self.peak = max(self.peak, self.alive)
        weakref.finalize(array, self._freed, array.nbytes)
        return array

    def _freed(self, n_bytes: int) -> None:
        self.alive -= n_bytes


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    install_emulator()
    from mbe_stage.bicliques.cuda import twin_expansion
    from tests.mbe_stage import expansion_checks

    for number, case in enumerate(expansion_checks.CASES):
        is_long = case != NOT_ALL_LONG and (part == "all" or case in SOME_LONG)
        # Of those that fit shared memory, one in turn.
        chosen = THRESHOLDS[:2] if part == "all" else [THRESHOLDS[number % 2]]
        for staged, counted in [*chosen, *(THRESHOLDS[2:] if is_long else ())]:
            twin_expansion.LONGEST_STAGED = staged
            twin_expansion._LONGEST_COUNTED = counted
            sums = expansion_checks.check_expansion(case, number)
            print(json.dumps({"case": case, "staged": staged} | sums), flush=True)
    twin_expansion.LONGEST_STAGED = THRESHOLDS[0][0]
    for lengths, group_sizes, range_members in METERED:
        twin_expansion.cp = meter = Meter()
        n_blocks = expansion_checks.expand_all(lengths, group_sizes, range_members)
        planned = expansion_bytes(len(lengths), range_members)
        line = {"planned": planned, "peak": meter.peak, "blocks": n_blocks, "alive": meter.alive}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
