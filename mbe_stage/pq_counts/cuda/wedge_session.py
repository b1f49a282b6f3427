"""The search of bicliques of two rows on the device: its memory and its time quanta."""

from __future__ import annotations

import time

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import kernel_bundles, upload
from mbe_stage.device.grid import on_grid
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda import wedges
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.memory_plan import QUANTUM_SECONDS
from mbe_stage.pq_counts.cuda.roots_in_turn import RootsInTurn
from mbe_stage.pq_counts.cuda.session import Counted

__all__ = ["PAIR", "WedgeSession", "wedge_bytes"]

PAIR = 2
"""Rows of the largest bicliques."""


def wedge_bytes(max_row_degree: int) -> int:
    """Device memory that a search takes beside the lists of its graph and the ranks of the rows."""
    # While leaves are fetched it is written down which there are.
    return 24 * (max_row_degree + 1) + 8 * (at.CONTROL_WORDS + at.N_SETTINGS)


class WedgeSession(RootsInTurn):
    """Device memory of one search, and the quanta that work on it; as `session.Session`.

    Parameters
    ----------
    graph : Graph
        With the roots that are wanted; its positions are not read.
    ranks : (n_rows,) int32
        As `Wedges` has them.
    n_ranked : int
        Rows that have one.
    fewest_columns : int
    max_row_degree : int
    n_blocks : int
    short_list : int
        Entries of a list that a lane walks alone.
    quantum_seconds : float

    Attributes
    ----------
    n_quanta : int
    """

    def __init__(
        self,
        graph: Graph,
        ranks: cp.ndarray,
        n_ranked: int,
        fewest_columns: int,
        max_row_degree: int,
        n_blocks: int,
        short_list: int,
        quantum_seconds: float = QUANTUM_SECONDS,
    ) -> None:
        super().__init__(graph)
        self.n_quanta = self._n_kinds = 0
        self._seconds = 0.0
        self._n_blocks, self._max_row_degree = n_blocks, max_row_degree
        settings = np.zeros(at.N_SETTINGS, np.int64)
        settings[at.QUANTUM_NS], settings[at.FEWEST_COLUMNS] = int(quantum_seconds * 1e9), fewest_columns
        settings[at.NARROW], settings[at.MOST_ROWS] = short_list, n_ranked
        times, control = cp.zeros(max_row_degree + 1, cp.int64), cp.zeros(at.CONTROL_WORDS, cp.int64)
        self._wedges = wedges.Wedges(times, control, cp.asarray(settings), ranks)

    @property
    def statistics(self) -> dict[str, int]:
        """What the quanta did, for benchmarks and tests."""
        return {
            "kernel_us": round(1e6 * self._seconds),
            "kinds": self._n_kinds,
            "quanta": self.n_quanta,
            "warps": self._n_blocks * wedges.THREADS // 32,
            "plan_bytes": wedge_bytes(self._max_row_degree),
        }

    def restart(self, rows: np.ndarray) -> None:
        """Begin with rows that were held back, where what was counted has been taken."""
        super().restart(rows)
        self._wedges.times.fill(0)

    def quantum(self) -> tuple[bool, Counted]:
        """Work for a while; whether the search is over, and the leaves found."""
        kernel, n_roots = wedges.count_wedges_block_per_root, self._graph.order.size
        control = np.zeros(at.CONTROL_WORDS, np.int64)
        control[at.NEXT_ROOT] = self.n_roots_taken
        upload(control, self._wedges.control)
        began = time.perf_counter()
        on_grid(kernel, self._n_blocks, wedges.THREADS)(*kernel_bundles(kernel, self._graph, self._wedges))
        self.n_roots_taken = min(n_roots, int(cp.asnumpy(self._wedges.control)[at.NEXT_ROOT]))
        self._seconds += time.perf_counter() - began
        self.n_quanta += 1
        is_over = self.n_roots_taken == n_roots
        return is_over, self._take_leaves(goes_on=not is_over)

    def _take_leaves(self, *, goes_on: bool) -> Counted:
        """Pairs of rows by the columns that they share; there are none afterwards, where the search goes on."""
        shared = cp.flatnonzero(self._wedges.times)
        columns, times = cp.asnumpy(cp.stack([shared, self._wedges.times[shared]]))
        if goes_on:
            self._wedges.times.fill(0)
        self._n_kinds += columns.size
        nothing = np.zeros(columns.size, np.int64)
        return Counted(nothing + PAIR, nothing, nothing, columns, times)
