"""A graph that workers of a cluster have read: this process knows its degrees, and no edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR


@dataclass(frozen=True, slots=True, eq=False)
class HeldGraph:
    """A bipartite graph that only `runner` can search, a `DaskRunner`.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    holder, key : str
        The worker with the pickled graph, and its key in `lease_work.HELD` there.
    read_here : callable
        Takes the reason, for the log, and reads the graph in this process: if workers have lost it.
    """

    n_left: int
    n_right: int
    left_degrees: np.ndarray
    right_degrees: np.ndarray
    runner: Any
    holder: str
    key: str
    read_here: Callable[[str], BipartiteCSR]

    is_on_host: ClassVar[bool] = True
    check_containing = BipartiteCSR.check_containing
