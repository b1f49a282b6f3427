"""A graph that workers of a cluster have read: this process knows its degrees, and no edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR

if TYPE_CHECKING:
    from mbe_stage.runners.dask_runner import DaskRunner


@dataclass(frozen=True, slots=True, eq=False)
class HeldGraph:
    """A bipartite graph that only its runner can search.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    runner : DaskRunner
    holder : str
        The worker with the pickled graph, in `lease_work.HELD`.
    key : str
        Its key there.
    n_bytes : int
        Its size.
    read_here : callable
        Takes the reason for the log; reads the graph in this process. For runs whose workers have lost the graph.
    """

    n_left: int
    n_right: int
    left_degrees: np.ndarray
    right_degrees: np.ndarray
    runner: DaskRunner
    holder: str
    key: str
    n_bytes: int
    read_here: Callable[[str], BipartiteCSR]

    is_on_host: ClassVar[bool] = True
    check_containing = BipartiteCSR.check_containing
