"""Ablation: leaving out a technique does not change the counts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import networkx
import numpy as np
import pytest

from benchmarks import ablation, ablation_run
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


@pytest.fixture
def clique_graph(tmp_path: Path) -> tuple[Path, int]:
    """Return a file and the number of maximal cliques of its graph."""
    graph = networkx.gnp_random_graph(60, 0.4, seed=1)
    src, dst = np.array(graph.edges, np.int32).T
    np.savez(tmp_path / "random.npz", src=src, dst=dst)
    return tmp_path / "random.npz", sum(1 for _ in networkx.find_cliques(graph))


@pytest.mark.slow
def test_techniques_of_maximal_cliques_can_be_left_out(
    clique_graph: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, n_cliques = clique_graph
    figures = tmp_path / "figures.json"
    asked = ["--problem", "cliques", "--without", "order", "words", "--repeats", "1", "--json", str(figures)]
    assert ablation.main([str(path), *asked]) == 0
    assert "visited nodes per clique" in capsys.readouterr().out
    variants = json.loads(figures.read_text())["variants"]
    assert {name: by_graph["random"]["found"] for name, by_graph in variants.items()} == dict.fromkeys(
        ("", "order", "words"), n_cliques
    )


def test_a_variant_counts_maximal_cliques_and_nodes(
    clique_graph: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path, n_cliques = clique_graph
    ablation_run.main(["cliques", "2", "60", str(path)])
    figures = json.loads(capsys.readouterr().out)["random"]
    assert (figures["found"], figures["truncated"]) == (n_cliques, False)
    assert figures["nodes"] >= 60


def test_techniques_of_another_problem_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ablation.main(["--problem", "cliques", "--without", "twins"])
    assert "--without twins: expected some of order, words, subsets" in capsys.readouterr().err
    assert ablation.main(["--problem", "cliques", "no_such_graph"])
    assert "no_such_graph: no such file; expected a path, or one of ca_HepPh" in capsys.readouterr().err


def test_an_unknown_technique_is_refused() -> None:
    done = completed(
        [sys.executable, "-c", "import mbe_stage.bicliques.engine_cpu"], env={**os.environ, "MBE_CPU_WITHOUT": "magic"}
    )
    assert done.returncode
    assert "MBE_CPU_WITHOUT holds magic: expected some of twins" in done.stderr
