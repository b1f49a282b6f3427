"""The nursery (`nursery.py`) of runs on a small part of a GPU: each says ``holding`` once the device is its own.

Nothing here asks for a device before a run does: what has been initialised is of no use to a process that is forked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mbe_stage.bicliques.cuda import search
from mbe_stage.search.cuda import barriers
from tests.pipeline import nursery
from tests.pipeline.crash_child import say

# So few blocks of threads are at it for a second or two, and a checkpoint may come every few milliseconds.
SMALL = {"n_blocks": 2, "quantum_seconds": 0.005}


def main() -> None:
    plan_memory = search.plan_memory

    def planned(*given: Any) -> Any:
        plan = replace(plan_memory(*given), **SMALL)
        say("holding")
        return plan

    search.plan_memory = planned
    barriers._TAKEN_SLOWLY, barriers._PART_SECONDS = 0.0, 0.05
    nursery.main()


if __name__ == "__main__":
    main()
