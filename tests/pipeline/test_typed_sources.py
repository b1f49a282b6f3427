"""Columns with types: reading gives the file's graph, however its writer stored keys and values."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import bicliques
from tests.pipeline.test_bad_input import refusal

Pairs = set[tuple[object, object]]


def pairs(source: object, **settings: object) -> Pairs:
    """Return the edges of a path or an object, by key."""
    config = InputConfig(path=str(source), **settings) if isinstance(source, Path) else InputConfig(**settings)
    edges = ingest(config, source=None if isinstance(source, Path) else source)
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    return {(left[u], right[v]) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)}


def partitioned(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).mkdir(parents=True)
        pq.write_table(pa.table({"item": ["x", "y"]}), directory / name / "part.parquet")
    return directory


def lefts(found: Pairs) -> set[object]:
    return {left for left, _ in found}


@pytest.mark.parametrize(
    ("names", "settings", "expected"),
    [
        (("acct=007", "acct=7", "acct=08"), {"key_type": "string"}, {"007", "7", "08"}),
        (("acct=007", "acct=7", "acct=08"), {}, {"007", "7", "08"}),
        (("acct=7", "acct=-8"), {}, {7, -8}),
        (("acct=7", "acct=-8"), {"key_type": "string"}, {"7", "-8"}),
        (("acct=7", f"acct={2**63}"), {}, {"7", str(2**63)}),
        (("acct=1.0", "acct=1"), {}, {"1.0", "1"}),
        (("acct=true", "acct=True"), {}, {"true", "True"}),
        (("acct=2024-01-01", "acct=2024-1-1"), {}, {"2024-01-01", "2024-1-1"}),
        (("acct=a%2Fb%20c", "acct=%41"), {}, {"a/b c", "A"}),
        (("acct=7", "acct=__HIVE_DEFAULT_PARTITION__"), {"nulls": "drop"}, {7}),
        (("acct=7/day=1", "acct=8/day=2", "acct=8/day=02"), {}, {7, 8}),
    ],
)
def test_partitions_come_from_directory_names(
    tmp_path: Path, names: tuple[str, ...], settings: dict[str, object], expected: set[object]
) -> None:
    source = partitioned(tmp_path, *names)
    assert pairs(source, left="acct", right="item", **settings) == {(key, item) for key in expected for item in "xy"}


def test_partitions_that_must_be_integers_may_be_one(tmp_path: Path) -> None:
    for name in ("acct=007", "acct=7", "acct=08"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"item": [1]}), tmp_path / name / "part.parquet")
    assert pairs(tmp_path, left="acct", right="item", key_type="integer") == {(7, 1), (8, 1)}
    assert pairs(tmp_path, left="acct", right="item") == {("007", 1), ("7", 1), ("08", 1)}


def test_two_partitions_are_both_sides(tmp_path: Path) -> None:
    source = partitioned(tmp_path, "acct=7/day=1", "acct=8/day=2", "acct=8/day=02")
    assert pairs(source, left="acct", right="day") == {(7, "1"), (8, "2"), (8, "02")}


def test_a_file_outside_the_partitions_has_no_value(tmp_path: Path) -> None:
    source = partitioned(tmp_path, "acct=7")
    pq.write_table(pa.table({"item": ["z"]}), tmp_path / "more.parquet")
    assert f"{tmp_path / 'more.parquet'}, row 1, column 'acct'" in refusal(source, left="acct", right="item")


def test_a_column_in_files_and_directories_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "acct=007").mkdir()
    pq.write_table(pa.table({"acct": [7], "item": ["x"]}), tmp_path / "acct=007" / "part.parquet")
    assert "2 columns are named 'acct'" in refusal(tmp_path, left="acct", right="item")
    assert pairs(tmp_path, left=0, right="item") == {(7, "x")}
    assert pairs(tmp_path, left=2, right="item") == {("007", "x")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array(["b"]).dictionary_encode(), pa.array(["a"])),
        (pa.array(["b"]), pa.array(["a"]).dictionary_encode()),
        (pa.array(["b"]).dictionary_encode(), pa.array(["a"], pa.large_string()).dictionary_encode()),
        (pa.array(["b"], pa.large_string()), pa.array(["a"], pa.string())),
        (pa.array(["b"], pa.string_view()), pa.array(["a"], pa.string())),
        (pa.array([b"b"]), pa.array(["a"]).dictionary_encode()),
        (pa.array([2], pa.int32()), pa.array([1], pa.int64())),
        (pa.array([2], pa.uint8()).dictionary_encode(), pa.array([1], pa.int64())),
        (pa.array([None], pa.null()), pa.array(["a"]).dictionary_encode()),
    ],
    ids=str,
)
def test_files_of_one_column_in_several_encodings(tmp_path: Path, first: pa.Array, second: pa.Array) -> None:
    # Columns that are not read may have any type.
    pq.write_table(pa.table({"u": first, "v": ["x"], "note": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"note": ["text"], "v": ["y"], "u": second}), tmp_path / "2.parquet")
    keys = [as_plain(pa.chunked_array([each]))[0].as_py() for each in (first, second)]
    keys = [key.decode() if isinstance(key, bytes) else key for key in keys]
    expected = {(key, item) for key, item in zip(keys, "xy", strict=True) if key is not None}
    assert pairs(tmp_path, left="u", right="v", nulls="drop") == expected


def test_columns_of_one_name_are_chosen_by_position(tmp_path: Path) -> None:
    def table(*values: str) -> pa.Table:
        return pa.Table.from_arrays([pa.array([value]) for value in values], names=["user", "item", "user"])

    path = tmp_path / "1.parquet"
    pq.write_table(table("a", "x", "b"), path)
    assert pairs(path, left=0, right=1) == {("a", "x")}
    assert pairs(path, left=2, right=1) == {("b", "x")}
    assert pairs(path, left=0, right=2) == {("a", "b")}
    with pytest.raises(InputError, match="2 columns are named 'user'") as caught:
        pairs(path, left="user", right="item")
    assert [pairs(path, left=each["input.left"], right="item") for each in caught.value.settings] == [
        {("a", "x")},
        {("b", "x")},
    ]
    pq.write_table(table("c", "y", "d"), tmp_path / "2.parquet")
    assert pairs(tmp_path, left=2, right=1) == {("b", "x"), ("d", "y")}
    pq.write_table(pa.table({"user": ["e"], "item": ["z"]}), tmp_path / "3.parquet")
    assert "1 columns named 'user'" in refusal(tmp_path, left=0, right=1)


IDS = [uuid.UUID(int=2**127 + 5), uuid.UUID(int=1)]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([each.bytes for each in IDS], pa.uuid()), {str(each) for each in IDS}),
        (pa.array([each.bytes for each in IDS], pa.binary(16)), {each.hex for each in IDS}),
        (pa.array([b"ab\x00", b"\xff\xfe\x00"], pa.binary(3)), {"616200", "fffe00"}),
        (pa.array([b"no", b"\xff\xfe", b"ab"], pa.binary(2)).slice(1), {"fffe", "6162"}),
        (pa.array([b"ab", b"c"]), {"ab", "c"}),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_keys_of_a_fixed_number_of_bytes(tmp_path: Path, column: pa.Array, expected: set[str]) -> None:
    table = pa.table({"u": column, "v": [5, 5]})
    pq.write_table(table, tmp_path / "e.parquet")
    assert lefts(pairs(table)) == expected
    assert lefts(pairs(tmp_path / "e.parquet")) == expected


def test_null_uuids_are_nulls() -> None:
    table = pa.table({"u": pa.array([None, IDS[0].bytes], pa.uuid()), "v": [5, 6]})
    assert "row 1, column 'u'" in refusal(source=table)
    assert pairs(table, nulls="drop") == {(str(IDS[0]), 6)}


def dictionary(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.uint32()), values)


@pytest.mark.parametrize(
    "column",
    [
        dictionary(pa.array(["a", "b"], pa.string_view())),
        dictionary(pa.array([b"a", b"b"], pa.binary_view())),
        dictionary(pa.array(["a", "b"], pa.large_string())),
        dictionary(pa.array(["z", "a", "b"], pa.string_view()).slice(1)),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), pa.array(["b", "a", "b"])),
        pa.array(["b", "a", "b"], pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_text_behind_views_and_dictionaries(column: pa.Array) -> None:
    assert pairs(pa.table({"u": column, "v": [1, 2, 3]})) == {("b", 1), ("a", 2), ("b", 3)}
    if pa.types.is_dictionary(column.type):
        plain = pa.array(["b", "a", "b"])
        assert key_hashes(column, "left").tolist() == key_hashes(plain, "left").tolist()


def test_types_without_a_meaning_as_keys_are_refused() -> None:
    months = pd.DataFrame({"u": pd.period_range("2024-01", periods=2, freq="M"), "v": [1, 2]})
    assert "pandas.period" in refusal(source=months)
    assert "pandas.interval" in refusal(source=pd.DataFrame({"u": pd.cut(pd.Series([1, 9]), 2), "v": [1, 2]}))
    assert "pandas.period" in refusal(source=months.assign(w=1), left="v", right="w", timestamp="u", time_from=0)


WIDE = 2**70
FRAMES = {
    "categorical": (pl.Series(["b", "a", "b"], dtype=pl.Categorical), {}, ["b", "a", "b"]),
    "enum": (pl.Series(["b", "a", "b"], dtype=pl.Enum(["b", "a"])), {}, ["b", "a", "b"]),
    "int128": (pl.Series([5, -(2**63), 2**63 - 1], dtype=pl.Int128), {}, [5, -(2**63), 2**63 - 1]),
    "wide int128": (pl.Series([5, WIDE, -WIDE], dtype=pl.Int128), {"key_type": "string"}, ["5", str(WIDE), f"-{WIDE}"]),
    "text": (pl.Series(["b", "a", "b"]), {}, ["b", "a", "b"]),
    "binary": (pl.Series([b"b", b"a", b"b"]), {}, ["b", "a", "b"]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_polars_frames(tmp_path: Path, name: str) -> None:
    column, settings, keys = FRAMES[name]
    frame = pl.DataFrame({"u": column, "other": [object()] * 3, "v": ["x", "y", "z"]})
    expected = set(zip(keys, "xyz", strict=True))
    assert pairs(frame, left="u", right="v", **settings) == expected
    assert pairs(frame.lazy().filter(pl.col("v") != "w"), left=0, right=2, **settings) == expected
    path = tmp_path / "e.parquet"
    frame.drop("other").write_parquet(path)
    if "int128" not in name:
        assert pairs(path) == expected
        return
    message = refusal(path)
    assert "128-bit integers" in message
    line = message.partition("write them as text: ")[2].replace("'edges.parquet'", repr(str(tmp_path / "text.parquet")))
    exec(line, {"polars": pl})
    assert pairs(tmp_path / "text.parquet") == {(str(key), item) for key, item in expected}


def test_polars_types_that_cannot_be_converted_are_refused() -> None:
    frame = pl.DataFrame({"u": [1], "^v$": [2], "o": [object()]})
    assert pairs(frame) == {(1, 2)}
    assert "column 'o' holds Python objects" in refusal(source=frame, left=0, right="o")
    assert "beyond int64" in refusal(source=pl.DataFrame({"u": pl.Series([WIDE], dtype=pl.Int128), "v": [1]}))
    assert "polars.String" in refusal(source=pl.DataFrame({"u": pl.Series([2**127 - 1], dtype=pl.Int128), "v": [1]}))
    assert "/no/such.csv" in refusal(source=pl.scan_csv("/no/such.csv"))


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pd.Series(["b", "a", "b"], dtype="category"), ["b", "a", "b"]),
        (pd.Series([2, 1, 2], dtype="category"), [2, 1, 2]),
        (pd.Series(["b", "a", "b"], dtype=pd.CategoricalDtype(["unused", "b", "a"], ordered=True)), ["b", "a", "b"]),
        (pd.Series(["b", "a", "b"], dtype=pd.ArrowDtype(pa.string_view())), ["b", "a", "b"]),
        (pd.Series([IDS[0], IDS[1], IDS[0]]), [str(IDS[0]), str(IDS[1]), str(IDS[0])]),
    ],
)
def test_pandas_columns(tmp_path: Path, column: pd.Series, keys: list[object]) -> None:
    frame = pd.DataFrame({"u": column, "v": ["x", "y", "z"]})
    expected = set(zip(keys, "xyz", strict=True))
    assert pairs(frame) == expected
    frame.to_parquet(tmp_path / "e.parquet")
    assert pairs(tmp_path / "e.parquet") == expected


@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
@pytest.mark.parametrize("width", [3, 4])
def test_arrays_of_two_rows_may_be_either(width: int, kind: type) -> None:
    array = np.arange(1, 2 * width + 1).reshape(2, width).astype(kind)
    message = refusal(source=array)
    assert f"shape (2, {width})" in message
    assert "array.T" in message
    assert "(u, v)" in message
    assert len(pairs(array.T)) == width
    assert pairs((array[0], array[1])) == pairs(array.T)
    assert pairs(tuple(array.T)) == {(1, 2), (width + 1, width + 2)}
    assert pairs(array[:, :2]) == {(1, 2), (width + 1, width + 2)}


VALUES = {
    # field: values of entries (1, 1), (2, 1) and so on, and the numbers of those that are not zero
    "integer": (["9223372036854775808", "0", "-99999999999999999999", "0.5", "1e-9", "-0"], [1, 3, 4, 5]),
    "unsigned-integer": (["18446744073709551616", "0", "1"], [1, 3]),
    "real": (["1e-400", "0", "-0.0", "0e7", "0x10", "0,5", ".0", "1D5", "0d5", "+3", "nan"], [1, 5, 6, 8, 10, 11]),
    "complex": (["1e-400 0", "0 0", "0 1e-400", "0.0 -0", "1 0"], [1, 3, 5]),
    "pattern": (["", ""], [1, 2]),
}


@pytest.mark.parametrize("layout", ["coordinate", "array"])
@pytest.mark.parametrize("field", VALUES)
def test_matrix_market_values_are_zero_or_not(tmp_path: Path, field: str, layout: str) -> None:
    values, there = VALUES[field]
    n = len(values)
    if layout == "array" and field == "pattern":
        return
    entries = values if layout == "array" else [f"{i + 1} 1 {value}" for i, value in enumerate(values)]
    size = f"{n} 1" if layout == "array" else f"{n} 1 {n}"
    path = tmp_path / "e.mtx"
    path.write_text(f"%%MatrixMarket matrix {layout} {field} general\n% a note\n{size}\n" + "\n".join(entries) + "\n")
    assert pairs(path) == {(i, 1) for i in there}
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert pairs(path) == {(i, 1) for i in there}


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        ("integer symmetric", "99999999999999999999", {(2, 1), (1, 2)}),
        ("integer skew-symmetric", "99999999999999999999", {(2, 1), (1, 2)}),
        ("Real Symmetric", "1e-400", {(2, 1), (1, 2)}),
        ("complex hermitian", "0 1e-400", {(2, 1), (1, 2)}),
        ("pattern symmetric", "", {(2, 1), (1, 2)}),
        ("integer general", "99999999999999999999", {(2, 1)}),
    ],
)
def test_matrix_market_symmetry_stays(tmp_path: Path, words: str, value: str, expected: Pairs) -> None:
    path = tmp_path / "e.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {words}\n2 2 1\n2 1 {value}\n")
    assert pairs(path) == expected


@pytest.mark.parametrize("value", ["0.5", "1e3", "0x1", "99999999999999999999"])
def test_matrix_market_weights_are_what_the_file_says(tmp_path: Path, value: str) -> None:
    path = tmp_path / "e.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate integer general\n2 1 2\n1 1 1\n2 1 {value}\n")
    message = refusal(path, weight="weight", min_weight=0.1)
    assert "line 4" in message
    assert value in message
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 1 2\n1 1 1e-3\n2 1 .5e0\n")
    assert pairs(path, weight="weight", min_weight=0.1) == {(2, 1)}
    path.write_text("%%MatrixMarket matrix coordinate foo general\n2 1 1\n1 1 0.5\n")
    assert "foo" in refusal(path)


def test_npz_reads_only_requested_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "e.npz"
    np.savez(path, u=[1, 2], v=[3, 4], huge=np.zeros(10), things=np.array([{}, {}], object), cube=np.zeros((2, 2, 2)))
    read = []
    get = np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda file, name: read.append(name) or get(file, name))
    assert pairs(path) == {(1, 3), (2, 4)}
    assert sorted(set(read)) == ["u", "v"]
    assert "10 entries" in refusal(path, left="u", right="huge")
    assert "not a readable NumPy archive" in refusal(path, left="u", right="things")


def test_members_are_checked_whatever_dictionary_they_have(tmp_path: Path) -> None:
    sums = bicliques.MemberSums()
    sums.add(np.array([5, 5]), np.array([0, 1]), np.array([0, 0]))
    (tmp_path / "members").mkdir()
    rows = {"biclique_key": [5, 5], "vertex": np.array([0, 0], np.int32)}
    for kind in (pa.string(), pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        side = pa.array(["left", "right"]).dictionary_encode().cast(kind) if "dict" in str(kind) else None
        column = pa.array(["left", "right"], kind) if side is None else side
        pq.write_table(pa.table({**rows, "side": column}), tmp_path / "members" / "part-0.parquet")
        assert bicliques.check_members(tmp_path, sums) == "2 rows"
