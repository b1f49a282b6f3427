"""The scikit-learn API for biclusters: its estimator checks, and the best bicliques as rows and columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from mbe_stage import BipartiteCSR, best_bicliques
from tests.mbe_stage.graphs import random_matrix

pytest.importorskip("sklearn")


def test_estimator_checks() -> None:
    from sklearn.utils.estimator_checks import check_estimator

    from mbe_stage.pipeline.clusterer import BicliqueClusterer

    done = check_estimator(BicliqueClusterer(n_clusters=2), on_skip=None)
    assert len(done) > 25
    assert {check["status"] for check in done} <= {"passed", "skipped"}


@pytest.mark.parametrize("by", ["edges", "vertices", "balance", "surprise"])
def test_biclusters_are_the_best_bicliques(by: str) -> None:
    from mbe_stage.pipeline.clusterer import BicliqueClusterer

    for seed in range(8):
        is_edge = random_matrix(seed, 14, 9, 0.5)
        values = is_edge * np.random.default_rng(seed).uniform(1.1, 3, is_edge.shape) + 0.5
        graph = BipartiteCSR.from_edges(*np.nonzero(is_edge), *is_edge.shape)
        best = best_bicliques(graph, by, 4, min_left=3, overlap=0.7)
        model = BicliqueClusterer(4, by=by, min_rows=3, overlap=0.7, threshold=1.0)
        for given in (values, scipy.sparse.csr_array(values), scipy.sparse.coo_array(values)):
            model.fit(given)
            found = [tuple(ids.tolist() for ids in model.get_indices(i)) for i in range(len(model.rows_))]
            assert found == [tuple(ids.tolist() for ids in best.table[i]) for i in range(len(best.table))]
            assert (model.rows_.shape[1], model.columns_.shape[1]) == is_edge.shape
            assert model.scores_.tolist() == best.scores.tolist()


def test_a_matrix_without_biclusters() -> None:
    from mbe_stage.pipeline.clusterer import BicliqueClusterer

    model = BicliqueClusterer().fit(np.eye(4))
    assert (model.rows_.shape, model.columns_.shape) == ((0, 4), (0, 4))
    with pytest.raises(ValueError, match="threshold"):
        BicliqueClusterer(threshold=-1).fit(np.eye(4))
