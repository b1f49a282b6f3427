"""Bicliques expanded on the emulator, with little and much shared memory. Run as a script: a JSON line per case."""

from __future__ import annotations

import json
import warnings

import numpy as np

from tests.mbe_stage.emulated_cuda import put_in_place

# Vertices a warp has room for, and up to how many are sorted by counting.
THRESHOLDS = [(512, 32), (40, 5), (1, 1)]


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    put_in_place()
    from mbe_stage.bicliques.cuda import expand, expand_kernels
    from tests.mbe_stage import expansion_checks

    for number, case in enumerate(expansion_checks.CASES):
        for staged, counted in THRESHOLDS:
            expand.LONGEST_STAGED = expand_kernels.LONGEST_STAGED = staged
            expand_kernels._LONGEST_COUNTED = counted
            sums = expansion_checks.check_expansion(case, number)
            print(json.dumps({"case": case, "staged": staged} | sums), flush=True)


if __name__ == "__main__":
    main()
