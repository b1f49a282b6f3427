"""No technique changes the result: the search counts the same without each of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ablation
from mbe_stage import CountSink, enumerate_into
from mbe_stage.bicliques.cpu.techniques import TECHNIQUES
from tests.mbe_stage import graphs
from tests.patience import completed


@pytest.mark.slow
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_technique_can_be_left_out(technique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for seed, (shape, density) in enumerate([((40, 40), 0.3), ((300, 60), 0.1), ((900, 14), 0.5)]):
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        path = tmp_path / f"random_{seed}.npz"
        left, right = graph.edges()
        np.savez(path, u=left, v=right)
        paths.append(path)
        sink = CountSink()
        enumerate_into(sink, graph, engine="cpu")
        assert sink.n_bicliques > 1000
    assert ablation.main([*map(str, paths), "--without", technique, "--repeats", "1"]) == 0
    assert f"without {technique}" in capsys.readouterr().out


def test_an_unknown_technique_is_refused() -> None:
    done = completed(
        [sys.executable, "-c", "import mbe_stage.bicliques.engine_cpu"], env={**os.environ, "MBE_CPU_WITHOUT": "magic"}
    )
    assert done.returncode
    assert "MBE_CPU_WITHOUT holds magic: expected some of twins" in done.stderr
