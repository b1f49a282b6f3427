"""cuDF in, cuDF out: bicliques, keys and sums equal those of the CPU library and of published tables."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cudf", reason="needs RAPIDS: pip install 'mbe-stage[rapids-cu13]'")
pytest.importorskip("cugraph", reason="needs RAPIDS: pip install 'mbe-stage[rapids-cu13]'")

import cudf
import cugraph

from mbe_stage import InvalidArgument
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.cudf import frame_sink
from mbe_stage.pipeline.errors import ConfigError, InputError
from mbe_stage.pipeline.rapids.library import BicliqueTables, edges_of_graph, enumerate_bicliques
from tests.pipeline.groups_support import EDGES as PLANTED

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]


def frame(seed: int = 0, n: int = 300) -> cudf.DataFrame:
    rng = np.random.default_rng(seed)
    accounts = [f"ä{i:03}" for i in rng.integers(0, 40, n)]
    return cudf.DataFrame({"account": accounts, "item": rng.integers(-(2**40), 2**40, 25)[rng.integers(0, 25, n)]})


def groups(tables: BicliqueTables) -> set[tuple[tuple, tuple]]:
    """Return the bicliques by their members' keys."""
    left, right = (side["key"].to_arrow().to_pylist() for side in (tables.left_vertices, tables.right_vertices))
    rows = tables.bicliques.to_arrow().to_pylist()
    return {(tuple(left[u] for u in row["left"]), tuple(right[v] for v in row["right"])) for row in rows}


@pytest.mark.parametrize("asked", [{}, {"kind": "grown_cover", "limit": 3}])
def test_groups_are_those_of_a_published_run(tmp_path: Path, asked: dict) -> None:
    edges = cudf.DataFrame.from_arrow(PLANTED)
    tables = enumerate_bicliques(edges, "l", "r", min_left=2, groups=asked)
    sections = {"query": {"min_left": 2}, "execution": {"engine": "cpu"}, "output": {"directory": str(tmp_path)}}
    published = run(Config.from_mapping({**sections, "groups": asked}), PLANTED).run_dir
    assert tables.groups.keys() == {
        *("groups", "group_members", "group_edges", "group_halo", "group_keys", "vertex_scores", "verdicts")
    }
    for name, frame in tables.groups.items():
        expected = cudf.read_parquet(published / f"{name}.parquet").to_arrow(preserve_index=False)
        assert frame.to_arrow(preserve_index=False).to_pylist() == expected.to_pylist(), name
    assert len(tables.groups["groups"]) > 0
    assert not enumerate_bicliques(edges, "l", "r", min_left=2).groups
    with pytest.raises(ConfigError, match=r"groups\.limit is 0"):
        enumerate_bicliques(edges, "l", "r", groups={"limit": 0})


def test_tables_are_those_of_a_published_run(tmp_path: Path) -> None:
    edges = frame()
    tables = enumerate_bicliques(edges, "account", "item", min_left=2)
    config = Config.from_mapping(
        {
            "input": {"left": "account", "right": "item"},
            "query": {"min_left": 2},
            "output": {"directory": str(tmp_path / "out"), "sort": True},
            "execution": {"engine": "cpu"},
        }
    )
    published = run(config, edges.to_arrow(preserve_index=False)).run_dir
    found = tables.bicliques.sort_values("biclique_key", ignore_index=True).to_arrow(preserve_index=False)
    expected = cudf.read_parquet(published / "bicliques" / "part-00000.parquet").to_arrow(preserve_index=False)
    assert found.to_pylist() == expected.to_pylist()
    for name in ("left_vertices", "right_vertices", "size_histogram"):
        expected = cudf.read_parquet(published / f"{name}.parquet").to_arrow(preserve_index=False)
        assert getattr(tables, name).to_arrow(preserve_index=False).to_pylist() == expected.to_pylist(), name
    assert tables.n_bicliques == len(tables.bicliques) > 10
    assert tables.truncated is None
    assert tables.input.source == "memory:cudf"


def test_conditions_and_limits() -> None:
    edges = frame(1)
    everything = enumerate_bicliques(edges)
    wanted = enumerate_bicliques(edges, min_left=2, max_left=4, min_right=2, min_edges=6, containing_left=("ä007",))
    assert groups(wanted) == {
        (left, right)
        for left, right in groups(everything)
        if 2 <= len(left) <= 4 and len(right) >= 2 and len(left) * len(right) >= 6 and "ä007" in left
    }
    few = enumerate_bicliques(edges, max_bicliques=5)
    assert few.n_bicliques == len(few.bicliques) == 5
    assert few.truncated == "stopped at max_bicliques = 5"
    none = enumerate_bicliques(edges, min_edges=10**6)
    assert len(none.bicliques) == none.n_bicliques == 0
    assert none.bicliques.columns.tolist() == everything.bicliques.columns.tolist()
    assert none.bicliques.dtypes.tolist() == everything.bicliques.dtypes.tolist()


def test_frames_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, pieces = frame(2), []
    tables = enumerate_bicliques(edges, on_frame=pieces.append)
    assert len(tables.bicliques) == 0
    assert sum(map(len, pieces)) == tables.n_bicliques
    joined = cudf.concat(pieces)["biclique_key"].sort_values(ignore_index=True)
    at_once = enumerate_bicliques(edges).bicliques["biclique_key"].sort_values(ignore_index=True)
    assert joined.equals(at_once)
    monkeypatch.setattr(frame_sink, "MOST_CHILDREN", 100)
    with pytest.raises(InvalidArgument, match=r"more than 100 members.*on_frame.*min_left"):
        enumerate_bicliques(edges)
    enumerate_bicliques(edges, on_frame=pieces.append)


@pytest.mark.parametrize("kind", ["int32", "int64", "str"])
def test_graphs_of_cugraph(kind: str) -> None:
    rng = np.random.default_rng(3)
    edges = cudf.DataFrame({"u": rng.integers(0, 12, 60), "v": 100 + rng.integers(0, 9, 60)}).astype(kind)
    expected = groups(enumerate_bicliques(edges, "u", "v"))
    undirected, directed = cugraph.Graph(), cugraph.Graph(directed=True)
    # Ends in either order: undirected edges have none.
    mixed = cudf.concat([edges.iloc[:30], edges.iloc[30:].rename(columns={"u": "v", "v": "u"})], ignore_index=True)
    undirected.from_cudf_edgelist(mixed, source="u", destination="v")
    directed.from_cudf_edgelist(edges, source="u", destination="v")
    assert groups(enumerate_bicliques(undirected, left_vertices=edges["u"].unique())) == expected
    assert groups(enumerate_bicliques(directed)) == expected
    with pytest.raises(InputError, match=r"undirected graph.*left_vertices"):
        enumerate_bicliques(undirected)
    with pytest.raises(InputError, match="edges with both ends or neither"):
        enumerate_bicliques(undirected, left_vertices=edges["u"].unique().iloc[:3])


def test_weighted_graph_of_cugraph() -> None:
    edges = cudf.DataFrame({"u": [0, 0, 1, 1], "v": [2, 3, 2, 3], "w": [1.0, 2.0, 3.0, 4.0]})
    graph = cugraph.Graph(directed=True)
    graph.from_cudf_edgelist(edges, source="u", destination="v", edge_attr="w")
    assert edges_of_graph(graph).columns.tolist() == ["left", "right"]
    assert groups(enumerate_bicliques(graph)) == {((0, 1), (2, 3))}


def test_invalid_edges_are_refused() -> None:
    with pytest.raises(InputError, match="memory:cudf, row 2, column 'v': no value"):
        enumerate_bicliques(cudf.DataFrame({"u": [1, 2], "v": ["x", None]}))
    with pytest.raises(InputError, match="no column 'account'"):
        enumerate_bicliques(cudf.DataFrame({"u": [1], "v": [2]}), "account")
    with pytest.raises(InputError, match="no left vertex 9"):
        enumerate_bicliques(cudf.DataFrame({"u": [1], "v": [2]}), containing_left=(9,))


def test_the_document_shows_what_its_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "how-to" / "on-a-gpu.md").read_text(encoding="utf-8")
    (program, output), *others = re.findall(r"^```py\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert not others
    exec(program, {})
    assert capsys.readouterr().out == output


def test_the_example_ranks_accounts(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "rapids_purchases.py"), run_name="__main__")
    printed = capsys.readouterr().out
    ranking = [line.split() for line in printed.splitlines()[2:]]
    assert sorted(account for account, *_ in ranking) == [f"ring-{i}" for i in range(6)]
    assert {(groups, items) for _, groups, items, _ in ranking} == {("1", "12")}


def test_the_example_of_groups_finds_the_ring(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "rapids_groups.py"), run_name="__main__")
    first = capsys.readouterr().out.splitlines()[1].split()
    assert first[:3] == ["1", "6", "72"]
