"""Runs of closed itemsets: published, shown, verified and resumed; supports as shares and as numbers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline import Config, count, load_config, run
from mbe_stage.pipeline.cases.graph_files import export_to
from mbe_stage.pipeline.cli.app import app
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import ConfigError, InputError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io.cxt import Context, read_cxt, write_cxt
from mbe_stage.pipeline.itemsets.closed import closed_itemset_lists
from mbe_stage.pipeline.itemsets.lattice import concept_lattice
from mbe_stage.pipeline.itemsets.rules import association_rules
from mbe_stage.pipeline.problems.itemsets.rows import top
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage.graphs import random_matrix


def config(tmp_path: Path, **asked: Any) -> Config:
    section = {"problem": "itemsets", "itemsets": asked, "output": {"directory": str(tmp_path / "out"), "sort": True}}
    return Config.from_mapping(section)


def edges(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return np.nonzero(random_matrix(seed, 40, 9, 0.5))  # type: ignore[return-value]


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(run_dir: Path) -> dict[tuple[int, ...], int]:
    table, keys = pq.read_table(run_dir / "itemsets"), pq.read_table(run_dir / "items.parquet")["key"].to_pylist()
    assert table["n_items"].to_pylist() == list(map(len, table["items"].to_pylist()))
    rows = zip(table["items"].to_pylist(), table["support"].to_pylist(), strict=True)
    return {tuple(keys[item] for item in items): support for items, support in rows}


@pytest.mark.parametrize(
    "asked",
    [
        {"min_support": 0.1},
        {"min_support": 0.3, "max_len": 2},
        {"min_count": 1},
        {"min_count": 4, "maximal": True},
    ],
)
def test_a_run_holds_the_sets_of_the_library(tmp_path: Path, asked: dict[str, Any]) -> None:
    support = asked.get("min_count", asked.get("min_support"))
    is_maximal, max_len = asked.get("maximal", False), asked.get("max_len")
    expected = dict(closed_itemset_lists(edges(), support, maximal=is_maximal, max_len=max_len))
    result = run(config(tmp_path, **asked), edges())
    assert rows_of(result.run_dir) == {tuple(sorted(items)): n for items, n in expected.items()}
    assert result.manifest.counts["itemsets"] == len(expected)
    if is_maximal:
        with pytest.raises(ConfigError, match=r"itemsets\.maximal: needs a published run"):
            count(config(tmp_path, **asked), edges())
    else:
        assert count(config(tmp_path, **asked), edges()).n_found == len(expected)
    report = verify_run(result.run_dir, ingest(result.manifest.config.input, edges()))
    assert report.n_found == report.n_against_input == len(expected)
    assert verify_run(result.run_dir).not_checked[0].startswith("closed, supports")
    shown = top(result.run_dir, 3, None)
    best = sorted((n for items, n in expected.items() if len(items) > 1), reverse=True)[:3]
    assert [row["support"] for row in shown.values] == best
    assert all(4 in row["items"] for row in top(result.run_dir, 3, "4").values)
    assert top(result.run_dir, 0, None).values == []


def test_rules_are_those_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = random_matrix(1, 40, 9, 0.5)
    # The first item implies the last.
    matrix[:, 8] |= matrix[:, 0]
    pairs = np.nonzero(matrix)
    result = run(config(tmp_path, min_count=3, min_confidence=0.5), pairs)
    path, table = result.run_dir / "rules.parquet", association_rules(pairs, 3, 0.5)
    found, keys = pq.read_table(path), pq.read_table(result.run_dir / "items.parquet")["key"].to_pylist()
    for side in ("antecedent", "consequent"):
        named = [[keys[item] for item in items] for items in found[side].to_pylist()]
        assert named == table[side].to_pylist()
    assert found.select(found.column_names[2:]).to_pydict() == table.select(found.column_names[2:]).to_pydict()
    assert result.manifest.counts["rules"] == found.num_rows > 100
    source = ingest(result.manifest.config.input, pairs)
    verify_run(result.run_dir, source)
    monkeypatch.setattr("mbe_stage.pipeline.verify.job.check_files", lambda *_: "")
    before, after = (found[name].to_pylist() for name in ("antecedent", "consequent"))
    row = next(row for row, items in enumerate(before) if len(items) > 1)
    wide = next(row for row, items in enumerate(after) if len(items) > 1)
    single = next(row for row, items in enumerate(before) if len(items) == 1 and found["confidence"][row].as_py() == 1)
    for changed, message in (
        (pa.concat_tables([found, found[:1]]), "more than once|counts."),
        (_with(found, "lift", 0, 9.0), "row 0: its items"),
        (_with(found, "consequent", wide, after[wide][::-1]), f"row {wide}: its items"),
        (_with(found, "antecedent", row, [*before[row], *after[row]]), f"row {row}: its items"),
        (_with(found, "consequent", row, [min({*range(9)} - {*before[row], *after[row]})]), f"row {row}: "),
        (pa.concat_tables([found[:single], found[single + 1 :]]), "is missing|counts."),
    ):
        pq.write_table(changed.cast(found.schema), path, compression="zstd")
        with pytest.raises(VerificationError, match=message):
            verify_run(result.run_dir, source)
    limited = config(tmp_path, min_count=3, min_confidence=0.5)
    limited = limited.model_copy(update={"execution": limited.execution.model_copy(update={"time_limit_seconds": 9.0})})
    with pytest.raises(ConfigError, match=r"rules are made of all closed itemsets.*leave one of the two out"):
        run(limited, pairs)


@pytest.mark.parametrize("max_len", [None, 3])
def test_a_lattice_is_that_of_the_library(tmp_path: Path, max_len: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = edges()
    result = run(config(tmp_path, min_count=1, max_len=max_len, lattice=True), pairs)
    path, table = result.run_dir / "lattice.parquet", pq.read_table(result.run_dir / "itemsets")
    items = dict(zip(table["itemset_key"].to_pylist(), map(tuple, table["items"].to_pylist()), strict=True))
    found = [(items[pair["lower"]], items[pair["upper"]]) for pair in pq.read_table(path).to_pylist()]
    lattice = concept_lattice(Context(tuple("o" * 40), tuple("a" * 9), _incidence(pairs)))
    intents = list(map(tuple, lattice.concepts["intent"].to_pylist()))
    expected = {(intents[pair["lower"]], intents[pair["upper"]]) for pair in lattice.covers.to_pylist()}
    assert set(found) == {(low, high) for low, high in expected if low in items.values() and high in items.values()}
    assert len(found) == len(set(found)) == result.manifest.counts["covers"] > 50
    source, shares = ingest(result.manifest.config.input, pairs), list[float]()
    with monkeypatch.context() as patch:
        # The rows are read twice, and progress must not go back.
        patch.setattr("mbe_stage.pipeline.verify.rows._ROWS_PER_BATCH", 50)
        verify_run(result.run_dir, source, 0 if max_len else None, on_progress=shares.append)
    assert shares == sorted(shares)
    assert len(set(shares)) > 5
    monkeypatch.setattr("mbe_stage.pipeline.verify.job.check_files", lambda *_: "")
    monkeypatch.setattr("mbe_stage.pipeline.verify.itemsets._Itemsets.check_sums", lambda _: None)
    covers = pq.read_table(path)
    for changed, message in (
        (covers[1:], "not the sets below"),
        (pa.concat_tables([covers, covers[:1]]), "listed twice"),
        (_with(covers, "upper", 0, 0), "a key that no itemset has"),
        (
            pa.concat_tables([covers, covers[:1].rename_columns(["upper", "lower"]).select([1, 0])]),
            "not the sets below",
        ),
    ):
        pq.write_table(changed.cast(covers.schema), path, compression="zstd")
        with pytest.raises(VerificationError, match=message):
            verify_run(result.run_dir, source)
    with pytest.raises(ConfigError, match="no maximal set is above another"):
        config(tmp_path, lattice=True, maximal=True)


def _incidence(pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    incidence = np.zeros((40, 9), np.bool_)
    incidence[pairs] = True
    return incidence


def _with(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    values = table[name].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("support", lambda values: [values[0] + 1, *values[1:]], "support is"),
        ("n_items", lambda values: [values[0] + 1, *values[1:]], "n_items is"),
        ("itemset_key", lambda values: [values[0] + 1, *values[1:]], "itemset_key is"),
        ("items", lambda values: [[*values[0][::-1], 8], *values[1:]], "items|ascending|n_items"),
        ("", lambda table: table.slice(1), "n_itemsets is"),
        ("", lambda table: pa.concat_tables([table, table.slice(0, 1)]), "more than once|out of order"),
    ],
)
def test_a_wrong_table_is_found(
    tmp_path: Path, column: str, change: Callable[[Any], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(config(tmp_path, min_count=3), edges())
    (part,) = (result.run_dir / "itemsets").iterdir()
    table = pq.read_table(part)
    if column:
        at, field = table.schema.get_field_index(column), table.schema.field(column)
        changed = table.set_column(at, field, pa.array(change(table[column].to_pylist()), field.type))
    else:
        changed = change(table)
    pq.write_table(changed, part, compression="zstd")
    monkeypatch.setattr("mbe_stage.pipeline.verify.job.check_files", lambda *_: "")
    with pytest.raises(VerificationError, match=message):
        verify_run(result.run_dir, ingest(result.manifest.config.input, edges()))


def test_a_missing_set_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of its counts and its fingerprint are bypassed."""
    result = run(config(tmp_path, min_count=3), edges())
    monkeypatch.setattr("mbe_stage.pipeline.verify.itemsets._Itemsets.check_sums", lambda _: None)
    monkeypatch.setattr("mbe_stage.pipeline.verify.job.check_files", lambda *_: "")
    (part,) = (result.run_dir / "itemsets").iterdir()
    table = pq.read_table(part)
    single = table["n_items"].to_pylist().index(1)
    pq.write_table(pa.concat_tables([table.slice(0, single), table.slice(single + 1)]), part)
    with pytest.raises(VerificationError, match="an itemset is missing"):
        verify_run(result.run_dir, ingest(result.manifest.config.input, edges()))


def test_the_command_publishes_and_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("baskets.dat").write_text("tea milk\ntea\nmilk tea rice\n")
    asked = ("--key-type", "string", "--min-support", "0.6", "--json", "-q")
    summary = json.loads(said("itemsets", "baskets.dat", *asked).splitlines()[-1])
    assert summary["itemsets"] == 2
    assert "tea" in said("top", "out")
    said("verify", "out")
    said("export", "out", "--to", "cxt", "context", "-q")
    context = read_cxt("context/context.cxt")
    assert (context.objects, context.attributes) == (("1", "2", "3"), ("milk", "rice", "tea"))
    assert context.incidence.tolist() == [[True, False, True], [False, False, True], [True, True, True]]
    monkeypatch.setattr("mbe_stage.pipeline.cases.graph_files._MOST_CELLS", 8)
    run_dir = run(config(tmp_path), edges()).run_dir
    with pytest.raises(InvalidArgument, match="40 x 9 cells"):
        export_to(run_dir, "cxt", "other", source=edges())
    with pytest.raises(InputError, match="an input in memory"):
        export_to(run_dir, "cxt", "other")
    with pytest.raises(InputError, match="other rows"):
        export_to(run_dir, "cxt", "other", source=edges(2))
    assert not Path("other").exists()


def test_a_context_is_input(tmp_path: Path) -> None:
    matrix = random_matrix(4, 12, 6, 0.6)
    context = Context(tuple(f"o{i}" for i in range(12)), tuple(f"a{i}" for i in range(6)), matrix)
    write_cxt(context, tmp_path / "a.cxt")
    (tmp_path / "b.cxt.gz").write_bytes(gzip.compress((tmp_path / "a.cxt").read_bytes()))
    expected = {tuple(f"a{i}" for i in items): n for items, n in closed_itemset_lists(np.nonzero(matrix), 2)}
    for name in ("a.cxt", "b.cxt.gz"):
        found = run(config(tmp_path, min_count=2), str(tmp_path / name))
        assert rows_of(found.run_dir) == expected
        verify_run(found.run_dir, ingest(found.manifest.config.input, str(tmp_path / name)))
    (tmp_path / "c.cxt").write_text("B\n\n1\n1\nx\n")
    with pytest.raises(InputError, match="1 lines of names and rows"):
        run(config(tmp_path), str(tmp_path / "c.cxt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B\n\n2\n1\n\na\na\nc\nX\nX\n", r"2 objects named 'a'; expected distinct names; rename one"),
        ("B\n\n1\n2\n\na\nc\nc\nXX\n", r"2 attributes named 'c'"),
    ],
)
def test_repeated_names_of_a_context_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.cxt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        ingest(InputConfig(path=str(path)))
    read_cxt(path)


def test_contexts_in_other_encodings(tmp_path: Path) -> None:
    path, text = tmp_path / "a.cxt", "B\n\n1\n1\n\ngröße\nc\nX\n"
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le"):
        path.write_bytes(text.encode(encoding))
        edges = ingest(InputConfig(path=str(path)))
        assert (edges.facts.format, edges.left_keys.to_pylist()) == ("cxt", ["größe"])
        assert read_cxt(path).objects == ("größe",)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.cxt.*line 6.*bytes that are not UTF-8.*input\.encoding"):
        ingest(InputConfig(path=str(path)))
    assert ingest(InputConfig(path=str(path), encoding="latin-1")).left_keys.to_pylist() == ["größe"]


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    for asked in ({"min_support": 0}, {"min_support": 1.5}, {"min_count": 0}, {"max_len": 0}, {"least": 3}):
        with pytest.raises(ConfigError, match=next(iter(asked))):
            config(tmp_path, **asked)
    (tmp_path / "a.yaml").write_text("problem: itemsets\nquery: {min_left: 3}\n")
    with pytest.raises((ConfigError, InvalidArgument), match="min_left"):
        load_config(tmp_path / "a.yaml")
