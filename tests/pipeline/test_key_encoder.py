"""Columns of keys as dictionaries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage.pipeline.backends.arrow.key_encoder import KeyEncoder, encoded
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io import parquet

texts = st.lists(
    st.lists(st.one_of(st.none(), st.text(max_size=4), st.integers(-20, 20).map(str)), max_size=8), max_size=5
)


@given(texts, st.booleans())
@settings(max_examples=300, deadline=None)
def test_batches_become_one_column(batches: list[list[str | None]], finds_integers: bool) -> None:
    encoder = KeyEncoder(finds_integers=finds_integers)
    for batch in batches:
        encoder.add(pa.array(batch, pa.string()))
    column = encoder.finish()
    values = [value for batch in batches for value in batch]
    present = [value for value in values if value is not None]
    if finds_integers and all(value.lstrip("-").isdecimal() and str(int(value)) == value for value in present):
        assert column.to_pylist() == [None if value is None else int(value) for value in values]
        assert column.dictionary.to_pylist() == sorted({int(value) for value in present})
    else:
        assert column.to_pylist() == values
        assert column.dictionary.to_pylist() == sorted(set(present), key=str.encode)


@given(st.text("a\0é", max_size=9), st.lists(st.text("ab\0é", max_size=12), max_size=30))
@settings(max_examples=200, deadline=None)
def test_texts_are_ordered_by_bytes_however_much_they_share(shared: str, ends: list[str]) -> None:
    encoder = KeyEncoder()
    values = [shared + end for end in ends]
    encoder.add(pa.array(values, pa.string()))
    column = encoder.finish()
    assert column.to_pylist() == values
    assert column.dictionary.to_pylist() == sorted(set(values), key=str.encode)


@given(st.lists(st.lists(st.one_of(st.none(), st.sampled_from("cba")), min_size=1, max_size=6), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_dictionaries_that_differ_become_one(batches: list[list[str | None]]) -> None:
    column = pa.chunked_array([pa.array(batch, pa.string()).dictionary_encode() for batch in batches])
    found = encoded(column)
    assert found.to_pylist() == column.to_pylist()
    assert found.dictionary.to_pylist() == sorted({value for value in column.to_pylist() if value is not None})


def test_a_key_that_a_dictionary_has_twice_is_one_vertex() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["b", "a", "b"]))
    edges = ingest(InputConfig(), source=pa.table({"u": keys, "v": ["x", "x", "x"]}))
    assert edges.left_keys.to_pylist() == ["a", "b"]
    assert edges.facts.duplicate_edges == 1


def test_keys_of_dropped_rows_are_no_vertices(tmp_path: Path) -> None:
    table = pa.table({"u": ["c", "b", "a", "b"], "v": pa.array([7, None, 5, 7]), "w": [9.0, 9.0, 1.0, 9.0]})
    pq.write_table(table, tmp_path / "e.parquet")
    config = InputConfig(path=str(tmp_path / "e.parquet"), left="u", right="v", weight="w", min_weight=2, nulls="drop")
    edges = ingest(config)
    assert (edges.left_keys.to_pylist(), edges.right_keys.to_pylist()) == (["b", "c"], [7])
    assert (edges.facts.rows_dropped_null, edges.facts.rows_dropped_weight) == (1, 1)


def test_several_files_may_have_integers_or_text(tmp_path: Path) -> None:
    for name, rows in {"a": "10,x\n9,y\n", "b": "007,x\n9,z\n", "c": "9,4\n"}.items():
        (tmp_path / f"{name}.csv").write_text(f"u,v\n{rows}")
    edges = ingest(InputConfig(), source=[str(tmp_path / f"{name}.csv") for name in "abc"])
    assert edges.left_keys.to_pylist() == ["007", "10", "9"]
    assert edges.right_keys.to_pylist() == ["4", "x", "y", "z"]
    assert edges.facts.n_edges == 5


def test_rows_of_a_refusal_are_counted_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 2)
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"u": ["a", "b", "c", "", "e"], "v": [1, 2, 3, 4, 5]}), path)
    with pytest.raises(InputError, match="row 4, column 'u': no value"):
        ingest(InputConfig(path=str(path)))
    pq.write_table(pa.table({"u": ["1", "2", "3", "4", "x"], "v": [1, 2, 3, 4, 5]}), path)
    with pytest.raises(InputError, match="row 5, column 'u': the key 'x'"):
        ingest(InputConfig(path=str(path), key_type="integer"))
