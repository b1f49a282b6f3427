"""`BicliqueClusterer`: the best maximal bicliques of a matrix with the API of scikit-learn, which must be installed."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from mbe_stage.bicliques.best.find import best_bicliques
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR

try:
    from sklearn.base import BaseEstimator, BiclusterMixin
    from sklearn.utils.validation import validate_data
except ImportError as error:
    raise ImportError(f"BicliqueClusterer needs scikit-learn 1.6 ({error}): pip install 'mbe-stage[sklearn]'") from None


class BicliqueClusterer(BiclusterMixin, BaseEstimator):  # type: ignore[misc]
    """Biclusters whose entries are all above a threshold and that no further row or column fits.

    Biclusters are ordered by score. They may overlap, and some rows and columns may be in none. The result is exact.

    Parameters
    ----------
    n_clusters : int
        Maximum number of biclusters.
    by : str
        The score: ``edges`` (entries), ``vertices`` (rows and columns), ``balance`` (the smaller number of both) or
        ``surprise``.
    min_rows, min_columns : int
        Minimum numbers of rows and columns of a bicluster.
    overlap : float
        Leave out a bicluster if a better one has more than this share of its entries.
    threshold : float
        Entries above this number, which is at least 0, are edges.

    Attributes
    ----------
    rows_, columns_ : (n_biclusters, n_rows), (n_biclusters, n_columns) bool
        The rows and columns of each bicluster, best first.
    scores_ : (n_biclusters,) int64, or float64 by surprise

    Examples
    --------
    >>> model = BicliqueClusterer(n_clusters=1).fit([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    >>> [ids.tolist() for ids in model.get_indices(0)]
    [[0, 1], [0, 1]]
    """

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        by: str = "edges",
        min_rows: int = 2,
        min_columns: int = 2,
        overlap: float = 1.0,
        threshold: float = 0.0,
    ) -> None:
        self.n_clusters = n_clusters
        self.by = by
        self.min_rows = min_rows
        self.min_columns = min_columns
        self.overlap = overlap
        self.threshold = threshold

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Find the biclusters of a dense or sparse matrix; `y` is ignored.

        Raises
        ------
        ValueError
            The matrix is invalid, as for scikit-learn's estimators.
        """
        if not self.threshold >= 0:
            raise InvalidArgument(f"threshold is {self.threshold!r}: expected a number of at least 0")
        matrix = validate_data(self, X, accept_sparse="csr")
        rows, columns = (csr_array(matrix) > self.threshold).nonzero()
        graph = BipartiteCSR.from_edges(rows, columns, *matrix.shape)
        best = best_bicliques(
            graph, self.by, self.n_clusters, min_left=self.min_rows, min_right=self.min_columns, overlap=self.overlap
        )
        self.rows_, self.columns_ = (np.zeros((len(best.table), n), np.bool_) for n in matrix.shape)
        for row, (left, right) in enumerate(best.table):
            self.rows_[row, left], self.columns_[row, right] = True, True
        self.scores_ = best.scores
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
