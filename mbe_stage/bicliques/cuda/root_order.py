"""The order in which the children of the whole graph start, and the work below them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cupy as cp
import numpy as np


@dataclass(frozen=True, eq=False)
class RootOrder:
    """The children of the whole graph that are to start; others have started before.

    Attributes
    ----------
    order : (n,) int32
        Their rows, in descending order of two-step paths (to within an eighth).
    all_paths : (n_rows,) int64
        Two-step paths of every row, on the device or on the host.
    begun_before : float
        Paths of the roots that have started and left the order.
    total : float or None
        Paths of all wanted roots; None for those of this order.
    """

    order: cp.ndarray
    all_paths: cp.ndarray | np.ndarray
    begun_before: float = 0.0
    total: float | None = None

    @cached_property
    def paths(self) -> cp.ndarray:
        """The same on the device; a small search ends without them."""
        return cp.asarray(self.all_paths)

    @cached_property
    def _total(self) -> float:
        """Expected work below all of them."""
        return float(self.paths[self.order].sum()) if self.total is None else self.total

    @property
    def n(self) -> int:
        """Number of roots to start."""
        return int(self.order.size)

    def only(self, rows: np.ndarray) -> RootOrder:
        """Keep some of them, in the same order."""
        is_wanted = cp.zeros(self.paths.size, cp.bool_)
        is_wanted[cp.asarray(rows)] = True
        return RootOrder(self.order[is_wanted[self.order]], self.paths)

    def followed_by(self, n_taken: int, rows: np.ndarray) -> RootOrder:
        """Replace the roots behind the first `n_taken` by others."""
        return RootOrder(cp.asarray(rows, cp.int32), self.paths, self.paths_begun(n_taken), self._total)

    def share_of(self, rows: np.ndarray) -> float:
        """Share of the expected work below some of them."""
        return float(self.paths[cp.asarray(rows)].sum()) / max(1.0, self._total)

    def paths_begun(self, n_taken: int) -> float:
        """Paths of the first `n_taken` roots, and of those started before them."""
        return self.begun_before + (float(self.paths[self.order[:n_taken]].sum()) if n_taken else 0.0)

    def work_done(self, n_taken: int, unfinished: cp.ndarray) -> float:
        """Share of the expected work below started roots, without the rows that are `unfinished`."""
        expected = self.paths[self.order[:n_taken]].sum() - self.paths[cp.unique(unfinished)].sum()
        return (self.begun_before + float(expected)) / max(1.0, self._total)
