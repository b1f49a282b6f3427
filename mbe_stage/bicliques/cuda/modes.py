"""Which of the walk's kernels a run takes."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.constraints import ACTIVE
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.results import Detail


def mode_of(detail: Detail, constraints: np.ndarray) -> int:
    """What the kernel says of a biclique (`layout.COUNTS` and so on), where these constraints are checked.

    Parameters
    ----------
    constraints : (6,) int64
        As in `layout.Pool`.
    """
    within = {Detail.COUNT: at.SIZES, Detail.SIZES: at.SIZES, Detail.MEMBERS: at.CONSTRAINED}
    return within[detail] if constraints[ACTIVE] else int(detail)
