"""A graph that workers of a cluster have read: this process knows its degrees, and no edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mbe_stage.graphs.bipartite import BipartiteCSR


@dataclass(frozen=True, slots=True, eq=False)
class HeldGraph:
    """A bipartite graph that only a `DaskRunner` can search.

    Attributes
    ----------
    left_degrees, right_degrees : (n,) int64
    pickled : distributed.Future
        Of the pickled `BipartiteCSR`, in the memory of a worker; made again by another if that one is lost.
    again : callable
        Returns the same graph, read again by the workers that there are.
    """

    n_left: int
    n_right: int
    left_degrees: np.ndarray
    right_degrees: np.ndarray
    pickled: Any
    again: Callable[[], HeldGraph]

    is_on_host: ClassVar[bool] = True
    check_containing = BipartiteCSR.check_containing
