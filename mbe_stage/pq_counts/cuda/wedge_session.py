"""Searches for bicliques of two and of three rows on the device: memory and quanta."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.arrays import upload
from mbe_stage.device.launch import launch_blocks
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.rank_windows import BLOCKS_NS, CONTROL_WORDS, LONGEST_NS
from mbe_stage.pq_counts.cuda.session import Counted
from mbe_stage.pq_counts.cuda.triples.kernels import count_triples_block_per_root
from mbe_stage.pq_counts.cuda.triples.layout import Triples
from mbe_stage.pq_counts.cuda.wedges import THREADS, Wedges, count_wedges_block_per_root
from mbe_stage.search.cuda.session import SearchSession

PAIR, TRIPLE = 2, 3
"""Number of rows of a biclique."""


def wedge_bytes(max_row_degree: int) -> int:
    """Return the device memory of a search, besides the graph's lists and the ranks of the rows."""
    # Including the list of nonzero counters while leaves are fetched.
    return 24 * (max_row_degree + 1) + 8 * (CONTROL_WORDS + layout.N_SETTINGS)


class WindowSettings(NamedTuple):
    """Settings of kernels that walk windows of ranks.

    Attributes
    ----------
    n_ranked : int
        Number of rows with a rank.
    fewest_columns : int
    max_row_degree : int
    short_list : int
        Longest list that one lane walks alone.
    quantum_seconds : float
    """

    n_ranked: int
    fewest_columns: int
    max_row_degree: int
    short_list: int
    quantum_seconds: float


class Ranked(NamedTuple):
    """A graph with ranks of rows, by degree.

    Attributes
    ----------
    lists : Graph
        The lists; `order` has the roots.
    ranks : (n_rows,) int32
    window_settings : WindowSettings
    """

    lists: Graph
    ranks: cp.ndarray
    window_settings: WindowSettings


def wedges_of(window_settings: WindowSettings, ranks: cp.ndarray) -> Wedges:
    """Return the memory shared by all blocks, without leaves.

    Parameters
    ----------
    window_settings : WindowSettings
    ranks : (n_rows,) int32
        As in `Wedges`.
    """
    settings = np.zeros(layout.N_SETTINGS, np.int64)
    settings[layout.QUANTUM_NS] = int(window_settings.quantum_seconds * 1e9)
    settings[layout.FEWEST_COLUMNS], settings[layout.N_RANKED] = (
        window_settings.fewest_columns,
        window_settings.n_ranked,
    )
    settings[layout.LANE_ENTRIES] = window_settings.short_list
    times = cp.zeros(window_settings.max_row_degree + 1, cp.int64)
    return Wedges(times, cp.zeros(CONTROL_WORDS, cp.int64), cp.asarray(settings), ranks)


def run_quantum(kernel: Any, n_blocks: int, graph: Graph, shared: Sequence[Any], n_roots_taken: int) -> tuple[int, int]:
    """Run one quantum on roots that are not taken yet.

    Parameters
    ----------
    kernel : CUDA kernel
    n_blocks : int
    graph : Graph
        The graph with the roots.
    shared : sequence of named tuples
        Further arguments of the kernel; the control words of the first are set.
    n_roots_taken : int

    Returns
    -------
    n_roots_taken : int
        Number of roots taken at the end of the quantum.
    idle_ns : int
        Time that warps waited for the last block, summed over all warps.
    """
    control = np.zeros(CONTROL_WORDS, np.int64)
    control[layout.NEXT_ROOT] = n_roots_taken
    upload(control, shared[0].control)
    launch_blocks(kernel, n_blocks, THREADS, graph, *shared)
    control = cp.asnumpy(shared[0].control)
    idle_ns = n_blocks * int(control[LONGEST_NS]) - int(control[BLOCKS_NS])
    return min(int(graph.order.size), int(control[layout.NEXT_ROOT])), idle_ns * (THREADS // WARP_SIZE)


class WedgeSession(SearchSession):
    """Device memory of one search, and the quanta that work on it, like `session.Session`.

    Parameters
    ----------
    graph : Graph
        The graph with the wanted roots; its positions are not read.
    shared : Wedges or Triples
        `Wedges` for bicliques of two rows, `Triples` for bicliques of three rows.
    n_blocks : int
    n_bytes : int
        Device memory of the search, for benchmarks and tests.
    """

    def __init__(self, graph: Graph, shared: Wedges | Triples, n_blocks: int, n_bytes: int) -> None:
        super().__init__(graph)
        self._n_signatures = self._idle_ns = 0
        self._n_blocks, self._n_bytes, self._shared = n_blocks, n_bytes, shared

    @property
    def statistics(self) -> dict[str, int]:
        """Statistics of the quanta, for benchmarks and tests."""
        return {
            "kernel_us": round(1e6 * self._seconds),
            "idle_ns": self._idle_ns,
            "kinds": self._n_signatures,
            "quanta": self.n_quanta,
            "warps": self._n_blocks * THREADS // WARP_SIZE,
            "plan_bytes": self._n_bytes,
        }

    def restart(self, roots: np.ndarray) -> None:
        """Restart as in `SearchSession.restart`."""
        super().restart(roots)
        self._shared.times.fill(0)

    def quantum(self) -> Counted:
        """Run one quantum; return its leaves."""
        is_of_triples, n_roots = isinstance(self._shared, Triples), self._graph.order.size
        kernel = count_triples_block_per_root if is_of_triples else count_wedges_block_per_root
        began = time.perf_counter()
        window_settings = kernel, self._n_blocks, self._graph, [self._shared]
        self.n_roots_taken, idle_ns = run_quantum(*window_settings, self.n_roots_taken)
        self._idle_ns += idle_ns
        self._seconds += time.perf_counter() - began
        self.n_quanta += 1
        self.is_over = self.n_roots_taken == n_roots
        return self._take_leaves(goes_on=not self.is_over)

    def _take_leaves(self, *, goes_on: bool) -> Counted:
        """Return the leaves by number of columns, and clear them if the search continues."""
        shared = cp.flatnonzero(self._shared.times)
        columns, times = cp.asnumpy(cp.stack([shared, self._shared.times[shared]]))
        if goes_on:
            self._shared.times.fill(0)
        self._n_signatures += columns.size
        nothing = np.zeros(columns.size, np.int64)
        n_rows = TRIPLE if isinstance(self._shared, Triples) else PAIR
        return Counted(nothing + n_rows, nothing, nothing, columns, times)
