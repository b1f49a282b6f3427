"""Scores of bicliques as single numbers (codes), and the sizes that a score implies.

For the scores "vertices" and "balance", ties go to more edges. So their *code* is ``score * scale + edges``, with a
scale above every number of edges. Other scores are their own codes. Codes by sizes are monotone: a biclique inside
another one has a smaller code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.graphs.bipartite import BipartiteCSR

OF_SIZES = ("edges", "vertices", "balance")


class Band(NamedTuple):
    """A range of left sizes, and an upper bound on the codes in it."""

    low: int
    high: int
    bound: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The codes of a score, and bounds on them.

    Attributes
    ----------
    by : str
    scale : int
    min_left, min_right : int
        Fewest vertices on each side.
    missing : int
        Number of right vertices that `completing` may add. Bands and queries are for bicliques before that.
    """

    by: str
    scale: int
    min_left: int
    min_right: int
    missing: int = 0

    @property
    def factors(self) -> tuple[int, int]:
        """Factors of the sum of both sizes and of the smaller size, which codes by sizes add to the edges."""
        return (self.scale if self.by == "vertices" else 0), (self.scale if self.by == "balance" else 0)

    def codes(self, n_left: Any, n_right: Any) -> Any:
        """Return the codes of bicliques of these sizes, int64; infinity by weight and surprise."""
        if self.by not in OF_SIZES:
            return np.full(np.shape(n_left), np.inf)
        of_both, of_smaller = self.factors
        return n_left * n_right + of_both * (n_left + n_right) + of_smaller * np.minimum(n_left, n_right)

    def of_ranked(self, scores: np.ndarray, n_edges: np.ndarray) -> np.ndarray:
        """Return the codes for these scores and numbers of edges."""
        return scores * self.scale + n_edges if self.by in ("vertices", "balance") else scores

    def scores(self, codes: Any) -> Any:
        """Return the scores for codes, or for a finite bound on codes."""
        return codes // self.scale if self.by in ("vertices", "balance") else codes

    def bands(self, graph: BipartiteCSR, threshold: float) -> list[Band]:
        """Return bands that together contain all bicliques with at least the threshold, the highest bound first.

        A biclique of at least `T` edges with 16 to 31 left vertices has at least ``T / 31`` right vertices. Few
        vertices of a real graph have so many neighbours on both sides: progressive bounding (Lyu et al., Maximum
        Biclique Search at Billion Scale, VLDB 2020).
        """
        # The left member with the lowest degree bounds the right size, and the reverse.
        more = self.missing
        by_left = self.codes(np.arange(1, graph.n_left + 1), more - np.sort(-graph.left_degrees))
        by_right = self.codes(-np.sort(-graph.right_degrees), np.arange(1 + more, graph.n_right + 1 + more))
        highest, found = by_right[self.min_right - 1 - more :].max(initial=-1), []
        for low, high in self._ranges(threshold, min(int(graph.right_degrees.max(initial=0)), graph.n_left)):
            codes = by_left[low - 1 : high]
            reaching = np.flatnonzero(codes >= threshold)
            if reaching.size and highest >= threshold:
                low, high = low + int(reaching[0]), low + int(reaching[-1])
                found.append(Band(low, high, min(highest, codes.max())))
        return sorted(found, key=lambda band: -band.bound)

    def _ranges(self, threshold: float, most: int) -> Iterator[tuple[int, int]]:
        low = self.min_left
        while low <= most:
            high = 2 * low - 1 if self._least_right(threshold, low) > self.min_right else most
            yield low, high
            low = high + 1

    def _least_right(self, threshold: float, n_left: int) -> int:
        """Return the fewest right vertices for the threshold with at most `n_left` left ones."""
        if self.by == "edges":
            return max(self.min_right, -(-int(threshold) // n_left))
        return max(self.min_right, int(threshold) // self.scale - n_left) if self.by == "vertices" else self.min_right

    def query(self, band: Band, threshold: float) -> BicliqueQuery:
        """Return the query for the bicliques in a band with at least the threshold."""
        low, min_right = band.low, self._least_right(threshold, band.high)
        if self.by == "balance":
            low, min_right = (max(size, int(threshold) // self.scale) for size in (low, min_right))
        min_right -= self.missing
        min_edges = max(low * min_right, self.least_edges(band, threshold))
        return BicliqueQuery(low, min_right, max_left=max(low, band.high), min_edges=min_edges)

    def least_edges(self, band: Band, threshold: float) -> int:
        """Return the fewest edges of a biclique in a band with at least the threshold."""
        if self.by == "edges":
            return int(threshold) - self.missing * band.high
        if self.missing:
            return 1
        if self.by == "vertices":
            n_vertices = int(threshold) // self.scale
            turn = max(band.low, n_vertices - self.min_right)
            return min(n * max(self.min_right, n_vertices - n) for n in (band.low, min(band.high, turn)))
        if self.by == "balance":
            size, n_edges = divmod(int(threshold), self.scale)
            return min(n_edges, (size + 1) ** 2)
        return 1
