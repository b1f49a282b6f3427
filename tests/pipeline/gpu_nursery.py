"""The nursery (`nursery.py`) for runs on a small part of a GPU; each run prints ``holding`` once it has the device.

Nothing here uses a device before a run does: an initialised device is of no use to a forked process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mbe_stage.bicliques.cuda import search
from mbe_stage.search.cuda import barriers
from tests.pipeline import nursery
from tests.pipeline.crash_child import say

# So few thread blocks need a second or two, and a checkpoint may come every few milliseconds.
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
