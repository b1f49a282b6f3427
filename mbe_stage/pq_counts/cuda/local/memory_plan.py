"""Plan the device memory of local counts of one cell before anything is allocated. Needs no GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.device import whole_lines
from mbe_stage.pq_counts.cuda.local.layout import FRAME_WORDS, N_CONSTANTS, PATH_AT
from mbe_stage.pq_counts.cuda.memory_plan import MemoryPlan, SearchSizes, least_bytes, plan_memory
from mbe_stage.search.cuda.plan import budget_refusal


@dataclass(frozen=True, slots=True)
class LocalSizes:
    """Sizes that the memory of a search depends on.

    Attributes
    ----------
    search : SearchSizes
        Sizes for `plan_memory`; nodes include the vertices of their matrix, and their path.
    n_columns : int
    edges : bool
        True if counts of edges are requested.
    most_path : int
        Most vertices on a path.
    n_weights : int
        Most rows, or columns, of a submatrix.
    """

    search: SearchSizes
    n_columns: int
    edges: bool
    most_path: int
    n_weights: int

    @classmethod
    def of(
        cls,
        row_offsets: np.ndarray,
        column_offsets: np.ndarray,
        paths: np.ndarray,
        most: tuple[int, int],
        *,
        edges: bool,
    ) -> LocalSizes:
        """Return the sizes of a core.

        Parameters
        ----------
        row_offsets, column_offsets : (n_rows + 1,) and (n_columns + 1,) int64
        paths : (n_rows,) int64
            Two-step paths from each row to later ones.
        most : tuple of int
            Most rows and columns of a biclique.
        edges : bool
        """
        n_rows, degrees = paths.size, np.diff(row_offsets)
        matrix_rows = np.minimum(np.arange(n_rows - 1, -1, -1), paths // most[1])
        words = matrix_rows * ((degrees + 31) // 32) + degrees * ((matrix_rows + 31) // 32)
        # Each vertex of the matrix is also a vertex of the node or on its path; the root is on its path.
        words += matrix_rows + degrees + 1
        max_matrix_rows, max_degree = int(matrix_rows.max(initial=0)), int(degrees.max(initial=0))
        most_path = max_matrix_rows + max_degree + 1
        n_weights = max(max_matrix_rows, -(-max_degree // 1024) * 1024)
        search = SearchSizes(
            n_rows,
            int(row_offsets[-1]),
            max_degree,
            int(np.diff(column_offsets).max(initial=0)),
            max_matrix_rows,
            int(words.max(initial=0)),
            *most,
            own_words=whole_lines(FRAME_WORDS + most_path),
        )
        search = replace(search, more_warp_bytes=8 * (PATH_AT + most_path + 2 * n_weights))
        return cls(search, column_offsets.size - 1, edges, most_path, n_weights)

    @property
    def scratch_words(self) -> int:
        """Number of 64-bit words of a warp's scratch."""
        return PATH_AT + self.most_path + 2 * self.n_weights

    @property
    def n_sums(self) -> int:
        """Number of sums: of rows, columns and entries."""
        return self.search.n_rows + self.n_columns + (self.search.n_edges if self.edges else 1)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the lists, sums and binomials, which all warps share."""
        search = self.search
        # Row and column offsets, members of both sides, positions, and the order of the roots.
        lists = 16 * search.n_edges + 8 * (search.n_rows + self.n_columns + 2) + 4 * search.n_rows
        ways = (search.max_column_degree + 1) * (search.most_rows + 1)
        ways += (search.max_row_degree + 1) * (search.most_columns + 1)
        # A further 64-bit number per entry while lists are made.
        return lists + 32 * search.n_edges + 8 * (self.n_sums + ways + 1 + N_CONSTANTS)

    def plan(self, n_blocks: int, budget: int) -> MemoryPlan:
        """Plan within a budget.

        Raises
        ------
        MemoryBudgetExceeded
            One block does not fit.
        """
        self.check(budget)
        return plan_memory(self.search, n_blocks, budget - self.fixed_bytes)

    def check(self, budget: int) -> None:
        """Raise an error with the needed bytes if the budget is not enough."""
        needed = self.fixed_bytes + least_bytes(self.search)
        if needed > budget:
            what = "vertex and edge" if self.edges else "vertex"
            why = ", as it takes the graph as a whole"
            raise budget_refusal(f"counting for every {what}", needed, budget, why)
