"""Right keys of several columns, compared with Python's JSON and sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import ConfigError, InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.views.diff import diff_runs

CSV = "user,item,rating,day\nann,x,5,1\nbob,x,5,1\nann,y,4,1\nbob,y,4,2\ncyd,x,1,2\nann,x,5,3\n"
TWO = {"left": "user", "right": ["item", "rating"]}
PARTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4))


def pairs(edges: EdgeData) -> set[tuple[object, object]]:
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    return {(left[u], right[v]) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)}


def written(*parts: object) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def table(rows: list[tuple[object, ...]], *kinds: pa.DataType) -> pa.Table:
    names = ["u", "a", "b", "c"][: len(kinds)]
    columns = [[row[i] for row in rows] for i in range(len(kinds))]
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)})


@given(st.lists(st.tuples(st.integers(0, 4), PARTS, st.integers(-3, 12), PARTS), min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("right", ["abc", "acb"])
def test_keys_are_json_in_the_order_of_their_bytes(right: str, rows: list[tuple[object, ...]]) -> None:
    """Integers in the middle or at the end: a comma sorts before digits, a bracket after them."""
    present = [row for row in rows if row[1] and row[3]]
    source = table(rows, pa.int64(), pa.string(), pa.int64(), pa.string())
    config = InputConfig(left="u", right=tuple(right), nulls="drop")
    if not present:
        with pytest.raises(InputError, match=r"all .* rows were dropped"):
            ingest(config, source)
        return
    edges = ingest(config, source)
    wanted = {(row[0], written(*(row["uabc".index(name)] for name in right))) for row in present}
    assert pairs(edges) == wanted
    assert edges.right_keys.to_pylist() == sorted({key for _, key in wanted}, key=str.encode)
    assert edges.facts.rows_dropped_null == len(rows) - len(present)
    assert edges.facts.duplicate_edges == len(present) - len(pairs(edges))


def test_many_parts_of_many_values_stay_distinct() -> None:
    """The product of their counts is far beyond int64."""
    chance = np.random.default_rng(1)
    columns = {f"c{i}": chance.permutation(2000) for i in range(8)}
    edges = ingest(InputConfig(left="u", right=tuple(columns)), pa.table({"u": np.zeros(2000, int), **columns}))
    assert set(edges.right_keys.to_pylist()) == {written(*map(int, row)) for row in zip(*columns.values(), strict=True)}


def test_parts_do_not_run_into_each_other() -> None:
    rows = [(0, "a,b", "c"), (0, "a", "b,c"), (0, 'a","b', "c"), (0, "[", "]")]
    edges = ingest(InputConfig(left="u", right=("a", "b")), table(rows, pa.int64(), pa.string(), pa.string()))
    assert edges.facts.n_right == len(rows)
    assert {tuple(json.loads(key)) for key in edges.right_keys.to_pylist()} == {row[1:] for row in rows}


def test_each_part_has_the_type_that_it_would_have_alone(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("u,a,b\n1,7,007\n2,8,x\n")
    assert ingest(InputConfig(path=str(path), right=(1, 2))).right_keys.to_pylist() == ['[7,"007"]', '[8,"x"]']
    as_text = InputConfig(path=str(path), right=(1, 2), key_type="string")
    assert ingest(as_text).right_keys.to_pylist() == ['["7","007"]', '["8","x"]']


def test_one_column_in_a_list_is_that_column() -> None:
    assert InputConfig(right=["item"]) == InputConfig(right="item")


def formats(tmp_path: Path) -> dict[str, InputConfig]:
    frame = pd.DataFrame({"user": ["a", "b", "a"], "item": [1, 1, 2], "rating": ["p", "q", "p"]})
    frame.to_csv(tmp_path / "e.csv", index=False)
    frame.to_csv(tmp_path / "e.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "e.parquet")
    np.savez(tmp_path / "e.npz", **{name: frame[name].to_numpy(str if name != "item" else int) for name in frame})
    (tmp_path / "parts").mkdir()
    for rating, part in frame.groupby("rating"):
        (tmp_path / "parts" / f"rating={rating}").mkdir()
        part.drop(columns="rating").to_parquet(tmp_path / "parts" / f"rating={rating}" / "e.parquet")
    wanted = {"left": "user", "right": ["item", "rating"]}
    return {
        name: InputConfig(path=str(tmp_path / name), **wanted)
        for name in ("e.csv", "e.tsv", "e.parquet", "e.npz", "parts")
    }


def test_every_format_with_columns(tmp_path: Path) -> None:
    for name, config in formats(tmp_path).items():
        edges = ingest(config)
        assert pairs(edges) == {("a", '[1,"p"]'), ("b", '[1,"q"]'), ("a", '[2,"p"]')}, name


def test_objects_in_memory() -> None:
    edges = ingest(InputConfig(right=("right", "weight")), (["a", "b"], [1, 2], [5, 6]))
    assert edges.right_keys.to_pylist() == ["[1,5]", "[2,6]"]
    frame = pd.DataFrame({"u": [1, 2], "v": ["x", "y"], "w": [3.0, 4.0]})
    assert ingest(InputConfig(left="u", right=("v", "w")), frame).right_keys.to_pylist() == ['["x",3]', '["y",4]']


def test_edge_attributes_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(["a", "b"], bipartite=0)
    graph.add_edge("a", "x", stars=5)
    graph.add_edge("b", "x", stars=4)
    graph.nodes["x"]["bipartite"] = 1
    edges = ingest(InputConfig(right=("right", "stars")), graph)
    assert pairs(edges) == {("a", '["x",5]'), ("b", '["x",4]')}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("m.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 5\n2 2 4\n", "one row and one column"),
        ("b.fimi", "1 2\n3\n", "transactions of items"),
    ],
)
def test_formats_without_columns_refuse(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=f"{says}.*expected one right column; write the edges as a table"):
        ingest(InputConfig(path=str(tmp_path / name), right=(1, 2)))


@pytest.mark.parametrize(
    ("right", "says"),
    [
        (("item", "item"), "input.right repeats column 'item'; expected each column once"),
        (("item", 1), "input.right repeats column 1"),
        (("item", "user"), "input.left and input.right are both column 'user'"),
        (("item", "stars"), "no column 'stars' for input.right; expected one of 0 'user'"),
    ],
)
def test_columns_that_make_no_key(tmp_path: Path, right: tuple[object, ...], says: str) -> None:
    (tmp_path / "e.csv").write_text(CSV)
    with pytest.raises(InputError, match=says):
        ingest(InputConfig(path=str(tmp_path / "e.csv"), left="user", right=right))


def test_a_null_in_any_part_is_refused_with_its_line_or_dropped(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("user,item,rating\nann,x,5\nbob,x,\n")
    with pytest.raises(InputError, match=r"line 3.*column 'rating'.*no value \(1 of 2"):
        ingest(InputConfig(path=str(path), **TWO))
    edges = ingest(InputConfig(path=str(path), nulls="drop", **TWO))
    assert (edges.facts.n_edges, edges.facts.rows_dropped_null) == (1, 1)


def test_parts_of_unsupported_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"u": [1, 2], "v": [1, 2], "w": [0.5, 2.0]}), path)
    with pytest.raises(InputError, match=r"row 1.*column 'w'.*0\.5.*integers or text"):
        ingest(InputConfig(path=str(path), right=(1, 2)))


@pytest.mark.parametrize("right", [[], {}, [True], [1.5], [["item", "rating"]]])
def test_invalid_lists_of_columns_are_refused(right: object) -> None:
    with pytest.raises(ConfigError, match=r"configuration: input\.right"):
        Config.from_mapping({"input": {"right": right}})


def config_of(tmp_path: Path, **changed: object) -> Config:
    (tmp_path / "e.csv").write_text(CSV)
    asked = {"path": str(tmp_path / "e.csv"), **TWO, **changed}
    return Config.from_mapping({"input": asked, "output": {"directory": str(tmp_path / "out")}})


def test_a_run_and_its_checks(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    run_dir = run(config).run_dir
    keys = pq.read_table(run_dir / "right_vertices.parquet")["key"].to_pylist()
    assert keys == ['["x",1]', '["x",5]', '["y",4]']
    assert "right (<bdi>item</bdi>, <bdi>rating</bdi>)" in (run_dir / "report.html").read_text()
    names = [check.name for check in verify_run(run_dir, ingest(config.input)).checks]
    assert {"input", "reading"} <= set(names)


def test_other_columns_are_another_query(tmp_path: Path) -> None:
    one, two = run(config_of(tmp_path, right="item")).run_dir, run(config_of(tmp_path)).run_dir
    said = diff_runs(one, two).comparability
    assert not said.knows_gone
    found = "was 'item' (column 1, 'item') and is ['item', 'rating'] (column 1, 'item'; column 2, 'rating')"
    assert f"the columns differ: input.right {found}" in said.remarks


def test_the_command_line_takes_a_column_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(CSV)
    count = ["enumerate", str(tmp_path / "e.csv"), "--left", "user", "--right", "item", "--right", "rating"]
    count += ["--count-only", "--quiet", "--json"]
    found = CliRunner().invoke(app, count)
    assert json.loads(found.stdout)["input"]["n_right"] == 3
    one = CliRunner().invoke(app, [*count, "--containing-right", '["x",1]'])
    assert json.loads(one.stdout)["bicliques"] == 1
    wrong = CliRunner().invoke(app, [*count, "--containing-right", "x"])
    assert wrong.exit_code == 2
    together = CliRunner().invoke(app, [*count[:4], "--right", "item,rating", "--count-only"])
    assert together.exit_code == 2
    assert "no column 'item,rating' for --right" in together.stderr
    assert "for a key of several columns give --right once for each" in together.stderr
