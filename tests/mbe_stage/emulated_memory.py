"""Run the CUDA engine on the emulator with an almost exhausted budget. As a script, prints a JSON line per case.

Pool, node table and arenas are too small for the graph, and the run may take only a few bytes beyond its plan.
"""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR
from mbe_stage.bicliques import reference
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan
from mbe_stage.bicliques.results import Detail
from mbe_stage.errors import MemoryBudgetExceeded
from tests.mbe_stage import graphs

PLENTY = 1 << 24
AT_THE_EDGE, IN_GAPS = 8_000, 20_000
# The initial plan, and the bytes that a run may take beyond it.
CASES: list[tuple[dict[str, Any], int, Detail]] = [
    ({"pool_extra": 64}, PLENTY, Detail.COUNT),
    ({"pool_extra": 64, "words": 64}, 48_000, Detail.MEMBERS),
    ({"pool_extra": 300, "words": 64}, IN_GAPS, Detail.COUNT),
    ({"pool_extra": 300, "words": 64}, 24_000, Detail.COUNT),
    # At the limit: the seed decides whether it is enough.
    ({"pool_extra": 300, "words": 64}, AT_THE_EDGE, Detail.COUNT),
    ({"pool_extra": 64, "nodes": 2}, 120_000, Detail.MEMBERS),
    ({"pool_extra": 64, "n_blocks": 1}, 0, Detail.COUNT),
]
EVENTS = {"in place", "in gaps", "grown", "grown partly", "fewer warps"}
MOST_SEEDS = 12
"""Seeds decide the order of warps, and so the pool's use: seeds are tried until every event has happened."""


def graph() -> BipartiteCSR:
    """Return a graph with list children and some hundred bicliques."""
    return graphs.from_matrix(graphs.random_matrix(7, 110, 9, 0.6))


def limit(original: Any, spare_bytes: int, happened: list[str]) -> None:
    """Limit a session's budget to its plan plus some bytes, and record changes of the plan."""
    from mbe_stage.bicliques.cuda import memory_plan, pool_compaction, session

    class Limited(original):
        def __init__(
            self, graph: Any, limits: Any, mode: int, plan: MemoryPlan, _budget: int, techniques: int, rows: Any
        ) -> None:
            super().__init__(graph, limits, mode, plan, plan.total_bytes + spare_bytes, techniques, rows)

    def with_space_in_pool(plan: MemoryPlan, used: int, needed: int, *others: int) -> MemoryPlan:
        after = memory_plan.with_space_in_pool(plan, used, needed, *others)
        if after.pool == plan.pool:
            happened.append("in place")
        else:
            happened.append("grown" if after.pool >= 2 * (used + needed) else "grown partly")
        if after.n_blocks < plan.n_blocks:
            happened.append("fewer warps")
        return after

    def filled(*live: Any) -> Any:
        found = pool_compaction.filled(*live)
        if found is not None:
            happened.append("in gaps")
        return found

    session.with_space_in_pool, session.filled = with_space_in_pool, filled
    session.Session = Limited


def main() -> None:
    # GPU tests import the names above and have no emulator.
    from tests.mbe_stage import emulated_cuda

    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = emulated_cuda.install_emulator()
    from mbe_stage.bicliques.cuda import pool_compaction, session

    original = session.Session
    # Nodes are moved in pieces, several times.
    pool_compaction.PASSING_INTS = 96
    wanted = set(reference.maximal_bicliques(graph()))
    seen: set[str] = set()
    for seed, (sizes, spare, detail) in itertools.product(range(MOST_SEEDS), CASES):
        if seed > 0 and seen == EVENTS:
            break
        # Large nodes are moved into gaps.
        launcher.seed, pool_compaction._LARGE_NODE = seed, 1 if spare == IN_GAPS else 1 << 14
        happened: list[str] = []
        limit(original, spare, happened)
        case: dict[str, Any] = {"sizes": sizes, "spare": spare, "happened": happened}
        try:
            found = emulated_cuda.found(graph(), BicliqueQuery(), detail, {"n_blocks": 2, "nodes": 64} | sizes)
        except MemoryBudgetExceeded as refusal:
            case["refused"] = str(refusal)
        else:
            case["same"] = found == (wanted if detail == Detail.MEMBERS else len(wanted))
        seen.update(happened)
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
