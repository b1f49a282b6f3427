"""A column of graphs (`input.by`): one run with the bicliques of each graph separately."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.arrow.keys import graphs_of
from mbe_stage.pipeline.errors import ConfigError, InputError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import config_fingerprint
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.bicliques import check_graphs
from tests.pipeline.output_support import assert_sound
from tests.pipeline.resume_support import ended_after, whatever_they_cost

__all__ = ["whatever_they_cost"]

Found = Counter[tuple[str, frozenset[str], frozenset[str]]]
COLUMNS = {"left": "account", "right": "item", "by": "merchant"}


def purchases(n_graphs: int = 120, seed: int = 1) -> pa.Table:
    """Purchases of the same items by the same accounts at shops with odd names, with some duplicates."""
    dice = np.random.default_rng(seed)
    n = n_graphs * 12
    shops = [f'shop "{number}",\\é' if number % 2 else str(number) for number in range(n_graphs)]
    return pa.table(
        {
            "merchant": [shops[number] for number in dice.integers(0, n_graphs, n)],
            "account": dice.integers(0, 6, n),
            "item": [f"i{number}" for number in dice.integers(0, 6, n)],
        }
    )


def config(out: Path, **sections: dict) -> Config:
    values = {"input": COLUMNS, "execution": {"engine": "cpu"}, "output": {"directory": str(out), "report": False}}
    return Config.from_mapping({**values, **{name: {**values.get(name, {}), **own} for name, own in sections.items()}})


def published(run_dir: Path) -> Found:
    keys = {side: pq.read_table(run_dir / f"{side}_vertices.parquet")["key"].to_pylist() for side in ("left", "right")}
    found: Found = Counter()
    for row in pq.read_table(run_dir / "bicliques").to_pylist():
        sides = [[json.loads(keys[side][member]) for member in row[side]] for side in ("left", "right")]
        assert {graph for side in sides for graph, _ in side} == {row["graph"]}
        found[row["graph"], *(frozenset(str(key) for _, key in side) for side in sides)] += 1
    return found


def one_by_one(table: pa.Table) -> Found:
    """Return the bicliques of each graph by the specification."""
    edges: dict[str, set[tuple[int, int]]] = {}
    for shop, account, item in zip(*(column.to_pylist() for column in table.columns), strict=True):
        edges.setdefault(shop, set()).add((account, int(item[1:])))
    return Counter(
        (shop, frozenset(map(str, left)), frozenset(f"i{each}" for each in right))
        for shop, pairs in edges.items()
        for left, right in maximal_bicliques(BipartiteCSR.from_edges(*zip(*pairs, strict=True)))
    )


def test_each_graph_has_the_bicliques_that_it_has_by_itself(tmp_path: Path) -> None:
    table = purchases(300)
    result = run(config(tmp_path, output={"report": True}), table)
    assert published(result.run_dir) == one_by_one(table)
    assert_sound(result.run_dir)
    assert "a graph of its own for each value of" in (result.run_dir / "report.html").read_text()


@pytest.mark.parametrize("output", [{"sort": True, "members": True}, {"compression": "none"}])
def test_a_run_is_verified_and_a_wrong_graph_found(tmp_path: Path, output: dict) -> None:
    table = purchases()
    settings = config(tmp_path, output=output)
    run_dir = run(settings, table).run_dir
    report = verify_run(run_dir, ingest(settings.input, table))
    assert "graphs" in {check.name for check in report.checks}
    (part,) = (run_dir / "bicliques").iterdir()
    rows = pq.read_table(part)
    graphs = rows["graph"].to_pylist()
    graphs[5] = "another"
    pq.write_table(rows.set_column(rows.num_columns - 1, rows.schema.field("graph"), pa.array(graphs)), part)
    keys = tuple(pq.read_table(run_dir / f"{side}_vertices.parquet")["key"] for side in ("left", "right"))
    with pytest.raises(VerificationError, match="row 5: graph is 'another'; a left member is of"):
        check_graphs([part], keys)
    for other in ("u1", 7, "{}", "[]"):
        with pytest.raises(VerificationError, match="a key is no JSON array that begins with"):
            check_graphs([part], (keys[0], pa.chunked_array([[other]])))


def test_the_column_is_part_of_the_fingerprint() -> None:
    # Keys that are JSON texts themselves make the same edges.
    with_column, without = (config_fingerprint(Config(input=section)) for section in (COLUMNS, {}))
    assert with_column != without


def test_names_are_held_once() -> None:
    names = ["n" * 5000, "m" * 5000]
    found = graphs_of(pa.array([f'["{name}",{number}]' for name in names for number in range(100)]))
    assert found.to_pylist() == [name for name in names for _ in range(100)]
    assert found.nbytes < 20_000


@pytest.mark.parametrize("columns", [{"right": ["item", "shop"]}, {"right": "item", "by": "shop"}])
def test_integers_make_keys_of_text(tmp_path: Path, columns: dict) -> None:
    table = pa.table({"account": [1, 2], "item": [1, 2], "shop": [7, 7]})
    reading = {"by": None, "key_type": "integer", **columns}
    result = run(config(tmp_path, input=reading, execution={"engine": "reference"}), table)
    assert pq.read_table(result.run_dir / "right_vertices.parquet")["key"][0].as_py() in {"[1,7]", "[7,1]"}
    verify_run(result.run_dir)


@pytest.mark.parametrize("sort", [False, True])
def test_a_run_is_resumed(tmp_path: Path, sort: bool) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(purchases(1500), path)
    output = {"sort": sort, "checkpoint_seconds": 0.003}
    settings = config(tmp_path, input={"path": str(path)}, output=output, execution={"threads": 2, "block_bytes": 2000})
    ended_after(1, settings)
    resumed = run(settings, resume=True)
    assert any("resumed" in warning for warning in resumed.manifest.warnings)
    assert published(resumed.run_dir) == published(run(settings).run_dir)
    assert_sound(resumed.run_dir)


def test_nulls_and_settings_that_do_not_go_with_it(tmp_path: Path) -> None:
    table = pa.table({"merchant": ["a", None], "account": [1, 2], "item": [1, 2]})
    with pytest.raises(InputError, match="row 2, column 'merchant': no value"):
        run(config(tmp_path), table)
    assert sum(published(run(config(tmp_path, input={"nulls": "drop"}), table).run_dir).values()) == 1
    for sections, name in (
        ({"groups": {}}, "groups"),
        ({"problem": "cliques"}, "problem cliques"),
        ({"execution": {"engine": "rapids"}}, "execution.engine rapids"),
    ):
        with pytest.raises(ConfigError, match=f"input.by lists the bicliques of each graph by itself, which {name}"):
            reading_of(Config.from_mapping({"input": COLUMNS, **sections}))
    for wrong, message in (("item", "input.by and another key are both"), ("shop", "no column 'shop' for input.by")):
        with pytest.raises(InputError, match=message):
            run(config(tmp_path, input={"by": wrong}), table)
