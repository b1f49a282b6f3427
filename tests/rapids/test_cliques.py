"""Maximal cliques on both backends: the same tables from device edges as from those of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.graphs.undirected import UndirectedCSR
from pipeline import Config, count, run
from pipeline.ingest import ingest
from pipeline.installed_publications import reading_of
from pipeline.verify import verify_run

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(5)
ENDS = RNG.integers(0, 60, (2, 900))
EDGES = pa.table({"src": [f"v{u}" for u in ENDS[0]], "dst": [f"v{v}" for v in ENDS[1]]})
MIXED = pa.table({"src": pa.array(ENDS[0]), "dst": [str(v) for v in ENDS[1]]})


def settings(out: Path | str, engine: str, **asked: Any) -> Config:
    values = {"execution": {"engine": engine}, "output": {"directory": str(out), "sort": True}, "problem": "cliques"}
    return Config.from_mapping({**values, "cliques": asked})


@pytest.mark.parametrize("source", [EDGES, MIXED], ids=["text", "text and integers"])
@pytest.mark.parametrize("asked", [{}, {"min_size": 3}, {"project": "left", "min_shared": 4}], ids=str)
def test_the_backends_publish_the_same(tmp_path: Path, source: pa.Table, asked: dict[str, Any]) -> None:
    cudf = pytest.importorskip("cudf")
    runs = [
        run(settings(tmp_path / engine, engine, **asked), given)
        for engine, given in (("cpu", source), ("rapids", cudf.DataFrame.from_arrow(source)))
    ]
    assert [each.manifest.engine for each in runs] == ["cpu", "rapids"]
    assert runs[0].manifest.input.undirected == runs[1].manifest.input.undirected
    assert runs[0].manifest.input.fingerprint == runs[1].manifest.input.fingerprint
    for name in ("cliques", "vertices.parquet", "size_histogram.parquet"):
        tables = [pq.read_table(each.run_dir / name) for each in runs]
        assert tables[0].equals(tables[1]), name
    verify_run(runs[1].run_dir, ingest(reading_of(runs[1].manifest.config), source))
    assert count(settings("out", "rapids", **asked), source).n_found == runs[0].manifest.n_found


def test_a_graph_is_made_on_the_device() -> None:
    cp = pytest.importorskip("cupy")
    from mbe_stage.device.graph import undirected_from_edges

    graph = UndirectedCSR.from_edges(*ENDS, n=70)
    made = undirected_from_edges(*(cp.asarray(side) for side in ENDS), 70)
    assert made.n == graph.n
    assert cp.asnumpy(made.offsets).tolist() == graph.offsets.tolist()
    assert cp.asnumpy(made.members).tolist() == graph.members.tolist()


def test_graphs_of_cugraph(tmp_path: Path) -> None:
    cudf, cugraph = pytest.importorskip("cudf"), pytest.importorskip("cugraph")
    graph = cugraph.Graph()
    edges = cudf.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 1]})
    graph.from_cudf_edgelist(edges, "src", "dst", vertices=cudf.Series([1, 2, 3, 9]))
    result = run(settings(tmp_path, "cpu"), graph)
    assert result.manifest.counts.cliques == 2
    assert result.manifest.input.n_left == 4
