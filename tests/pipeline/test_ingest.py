"""Keys, nulls, filters, duplicates, dense ids and fingerprints."""

from __future__ import annotations

import datetime
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage.bicliques.keys import hash_text, vertex_hashes
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.clean.keys import number_keys
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest


def pairs(edges: EdgeData) -> list[tuple[object, object]]:
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    return [(left[u], right[v]) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)]


def read_csv(tmp_path: Path, text: str, **settings: object) -> EdgeData:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    return ingest(InputConfig(path=str(path), **settings))


# Keys


def test_ids_are_ranks_of_keys() -> None:
    edges = ingest(InputConfig(), source=(["b", "a", "é", "Z", "b"], [10, -3, 9, 10, 2**62]))
    assert edges.left_keys.to_pylist() == ["Z", "a", "b", "é"]
    assert edges.right_keys.to_pylist() == [-3, 9, 10, 2**62]
    assert edges.left_keys.type == pa.string()
    assert edges.right_keys.type == pa.int64()
    assert edges.left_ids.dtype == edges.right_ids.dtype == np.int32
    assert list(zip(edges.left_ids.tolist(), edges.right_ids.tolist(), strict=True)) == [
        (0, 2),
        (1, 0),
        (2, 2),
        (2, 3),
        (3, 1),
    ]


def test_text_keys_are_integers_only_if_all_look_like_integers(tmp_path: Path) -> None:
    assert pairs(read_csv(tmp_path, "7,1\n-8,0\n")) == [(-8, 0), (7, 1)]
    mixed = read_csv(tmp_path, "u,v\n007,1\n7,x\n")
    assert pairs(mixed) == [("007", "1"), ("7", "x")]
    assert read_csv(tmp_path, "u,v\n+7,1\n").left_keys.to_pylist() == ["+7"]
    assert read_csv(tmp_path, "u,v\n0x10,1\n").left_keys.to_pylist() == ["0x10"]
    assert read_csv(tmp_path, "u,v\n 7,1\n7 ,1\n", trim=False).left_keys.to_pylist() == [" 7", "7 "]
    assert read_csv(tmp_path, "u,v\n1.0,1\n", header=True).left_keys.to_pylist() == ["1.0"]
    assert read_csv(tmp_path, "u,v\nNA,1\nnull,1\n").left_keys.to_pylist() == ["NA", "null"]


def test_key_type_decides(tmp_path: Path) -> None:
    text = "u,v\n007,1\n7,1\n8,01\n"
    as_integers = read_csv(tmp_path, text, key_type="integer")
    assert pairs(as_integers) == [(7, 1), (8, 1)]
    assert as_integers.facts.duplicate_edges == 1
    assert pairs(read_csv(tmp_path, text, key_type="string")) == [("007", "1"), ("7", "1"), ("8", "01")]
    with pytest.raises(InputError, match="line 2, column 'u': the key '0x10'"):
        read_csv(tmp_path, "u,v\n0x10,1\n", key_type="integer")


def test_typed_columns_keep_their_type() -> None:
    table = pa.table({"u": ["7", "10"], "v": pa.array([7, 10], pa.uint8())})
    assert pairs(ingest(InputConfig(), source=table)) == [("10", 10), ("7", 7)]
    assert pairs(ingest(InputConfig(key_type="integer"), source=table)) == [(7, 7), (10, 10)]
    assert pairs(ingest(InputConfig(key_type="string"), source=table)) == [("10", "10"), ("7", "7")]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, 1], pa.int8()),
        pa.array([3, 1], pa.uint64()),
        pa.array([3.0, 1.0], pa.float32()),
        pa.array([3, 1], pa.float16()),
        pa.array([3, 1], pa.decimal128(30, 0)),
        pa.array([3, 1]).dictionary_encode(),
        pa.chunked_array([[3], [], [1]]),
        pa.chunked_array([pa.array([3]).dictionary_encode(), pa.array([1]).dictionary_encode()]),
    ],
    ids=lambda column: str(column.type).partition("<")[0],
)
def test_columns_of_integers(column: pa.Array) -> None:
    edges = ingest(InputConfig(), source=pa.table({"u": column, "v": [5, 5]}))
    assert edges.left_keys.to_pylist() == [1, 3]
    assert edges.left_ids.tolist() == [0, 1]
    texts = ingest(InputConfig(key_type="string"), source=pa.table({"u": column, "v": [5, 5]}))
    assert texts.left_keys.to_pylist() == ["1", "3"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a"], pa.large_string()),
        pa.array(["b", "a"], pa.string_view()),
        pa.array([b"b", b"a"]),
        pa.array([b"b", b"a"], pa.large_binary()),
        pa.array([b"b", b"a"], pa.binary_view()),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.array(["x", "b", "a", "y"]).slice(1, 2),
        pa.array(["x", "b", "a"]).dictionary_encode().slice(1, 2),
    ],
    ids=lambda column: str(column.type).partition("<")[0],
)
def test_columns_of_text(column: pa.Array) -> None:
    edges = ingest(InputConfig(), source=pa.table({"u": column, "v": [5, 5]}))
    assert edges.left_keys.to_pylist() == ["a", "b"]
    assert edges.left_keys.type == pa.string()


def test_integers_beyond_int64_as_strings(tmp_path: Path) -> None:
    large = 2**64 - 1
    edges = ingest(InputConfig(key_type="string"), source=(np.array([large, 5], np.uint64), [1, 1]))
    assert edges.left_keys.to_pylist() == [str(large), "5"]
    assert read_csv(tmp_path, f"{10**40},1\n", key_type="string").left_keys.to_pylist() == [str(10**40)]
    edge = read_csv(tmp_path, f"{2**63 - 1},{-(2**63)}\n")
    assert pairs(edge) == [(2**63 - 1, -(2**63))]


def test_floats_are_keys_only_if_whole() -> None:
    frame = pd.DataFrame({"u": [1.0, None, 3.0], "v": ["x", "y", "z"]})
    edges = ingest(InputConfig(nulls="drop"), source=frame)
    assert pairs(edges) == [(1, "x"), (3, "z")]
    with pytest.raises(InputError, match="at most 2\\*\\*53"):
        ingest(InputConfig(), source=([2.0**60], [1]))


def test_very_long_and_non_ascii_keys(tmp_path: Path) -> None:
    long = "长" * 300_000
    edges = read_csv(tmp_path, f"user,item\n{long},Ünïcödé\n{long}x,🦉\n")
    assert edges.left_keys.to_pylist() == [long, long + "x"]
    assert edges.right_keys.to_pylist() == ["Ünïcödé", "🦉"]


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1))
def test_numbering_keys(texts: list[str]) -> None:
    ids, keys = number_keys(pa.array(texts, pa.large_string()), "auto", "typed", None, ARROW)  # type: ignore[arg-type]
    assert keys.to_pylist() == sorted(set(texts), key=str.encode)
    assert [keys[int(i)].as_py() for i in ids] == texts


# Nulls, duplicates and fingerprints


def test_nulls_are_dropped_and_counted(tmp_path: Path) -> None:
    edges = read_csv(tmp_path, 'user,item\n1,2\n,3\n4,\n,\n5,""\n6,7\n', nulls="drop")
    assert pairs(edges) == [(1, 2), (6, 7)]
    assert (edges.facts.rows_read, edges.facts.rows_dropped_null, edges.facts.n_edges) == (6, 4, 2)
    frame = pd.DataFrame({"u": ["a", None, "", "b"], "v": [1, 2, 3, np.nan]})
    edges = ingest(InputConfig(nulls="drop"), source=frame)
    assert pairs(edges) == [("a", 1)]
    assert edges.facts.rows_dropped_null == 3


def test_nulls_of_a_filtered_column_count_too(tmp_path: Path) -> None:
    text = "u,v,w\n1,2,\n3,4,5\n6,7,nan\n"
    with pytest.raises(InputError, match="line 2, column 'w': no value"):
        read_csv(tmp_path, text, weight="w", min_weight=1)
    edges = read_csv(tmp_path, text, weight="w", min_weight=1, nulls="drop")
    assert edges.facts.rows_dropped_null == 2
    # Without a filter the column is not read.
    assert read_csv(tmp_path, text, weight="w").facts.n_edges == 3


def test_facts_add_up(tmp_path: Path) -> None:
    text = "u,v,w,t\n1,2,5,10\n1,2,6,10\n,2,5,10\n1,3,1,10\n1,4,5,99\n2,2,5,10\n1,2,5,11\n"
    facts = read_csv(
        tmp_path, text, weight="w", min_weight=5, timestamp="t", time_from=10, time_until=12, nulls="drop"
    ).facts
    assert facts.rows_read == 7
    assert (facts.rows_dropped_null, facts.rows_dropped_weight, facts.rows_dropped_time) == (1, 1, 1)
    assert (facts.duplicate_edges, facts.n_edges, facts.n_left, facts.n_right) == (2, 2, 2, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1), st.randoms())
def test_fingerprint_names_the_set_of_edges(rows: list[tuple[int, int]], random: object) -> None:
    left, right = [u for u, _ in rows], [v for _, v in rows]
    edges = ingest(InputConfig(), source=(left, right))
    assert pairs(edges) == sorted(set(rows))
    shuffled = rows + rows[:2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    texts = tuple([str(value) for value in column] for column in zip(*shuffled, strict=True))
    assert ingest(InputConfig(), source=texts).facts.fingerprint == edges.facts.fingerprint
    more = ingest(InputConfig(), source=([*left, 9], [*right, 9]))
    assert more.facts.fingerprint != edges.facts.fingerprint
    swapped = ingest(InputConfig(), source=(right, left))
    assert (swapped.facts.fingerprint == edges.facts.fingerprint) == (
        {(v, u) for u, v in rows} == set(rows) and swapped.facts.n_edges == edges.facts.n_edges
    )


def plain_hashes(texts: list[str], side: str) -> np.ndarray:
    """Compute `key_hashes` from Python's own bytes."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    return vertex_hashes(hash_text(offsets, np.frombuffer(b"".join(encoded), np.uint8)), side)


@pytest.mark.parametrize("side", ["left", "right"])
def test_key_hashes_of_every_layout(side: str) -> None:
    texts = ["", "a", "é", "007", "12", "-5", "x" * 1000]
    expected = plain_hashes(texts, side)
    array = pa.array(texts)
    padded = pa.array(["pad", *texts, "pad"])
    layouts = [
        array,
        array.cast(pa.large_string()),
        array.cast(pa.string_view()),
        array.dictionary_encode(),
        padded.slice(1, len(texts)),
        padded.cast(pa.large_string()).slice(1, len(texts)),
        padded.dictionary_encode().slice(1, len(texts)),
        pa.chunked_array([array.slice(0, 3), array.slice(3, 0), array.slice(3)]),
    ]
    for layout in layouts:
        assert np.array_equal(key_hashes(layout, side), expected)
    numbers = pa.array([9, 0, -5, 2**63 - 1, -(2**63), 12]).slice(1)
    assert np.array_equal(key_hashes(numbers, side), plain_hashes([str(value) for value in numbers.to_pylist()], side))
    assert np.array_equal(key_hashes(pa.array([5], pa.int16()), side), plain_hashes(["5"], side))
    for empty in (pa.array([], pa.string()), pa.array([], pa.int64()), pa.chunked_array([], pa.string())):
        assert key_hashes(empty, side).shape == (0,)
    assert not np.array_equal(expected, plain_hashes(texts, "right" if side == "left" else "left"))


# Filters


@pytest.mark.parametrize(
    "weights",
    [[1, 2, 3], [1.0, 2.0, 2.5], np.array([1, 2, 3], np.uint8), ["1", "2.0", "+3e0"], pd.array([1, 2, 3], "Int64")],
    ids=["integers", "floats", "bytes", "text", "nullable"],
)
def test_minimum_weight_includes_its_bound(weights: object) -> None:
    edges = ingest(InputConfig(weight=2, min_weight=2), source=([1, 2, 3], [1, 1, 1], weights))
    assert edges.left_keys.to_pylist() == [2, 3]
    assert edges.facts.rows_dropped_weight == 1


DAYS = ["2023-12-31", "2024-01-01", "2024-01-02"]
MOMENTS = [datetime.datetime(2023, 12, 31), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
SECONDS = [1_703_980_800, 1_704_067_200, 1_704_153_600]


@pytest.mark.parametrize(
    "times",
    [
        pa.array(DAYS),
        pa.array([f"{day}T00:00:00Z" for day in DAYS]),
        pa.array(["2023-12-31T01:00:00+01:00", "2024-01-01 00:00:00", "2024-01-01T19:00:00.000-05:00"]),
        pa.array(MOMENTS, pa.timestamp("s")),
        pa.array(MOMENTS, pa.timestamp("ms")),
        pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
        pa.array(MOMENTS, pa.timestamp("ns")),
        pa.array([moment.date() for moment in MOMENTS], pa.date32()),
        pa.array([moment.date() for moment in MOMENTS], pa.date64()),
        pa.array(SECONDS),
        pa.array([float(value) for value in SECONDS]),
        pa.array([str(value) for value in SECONDS]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"time_from": "2024-01-01"}, [2, 3]),
        ({"time_until": "2024-01-01"}, [1]),
        ({"time_from": "2024-01-01T00:00:00", "time_until": "2024-01-02T00:00:00Z"}, [2]),
        ({"time_from": "2024-01-01T01:00:00+02:00", "time_until": "2024-01-02"}, [2]),
        ({"time_from": "2024-01-01T00:00:00.000001"}, [3]),
    ],
)
def test_windows_of_time(times: pa.Array, bounds: dict[str, object], expected: list[int]) -> None:
    table = pa.table({"u": [1, 2, 3], "v": [1, 1, 1], "t": times})
    edges = ingest(InputConfig(timestamp="t", **bounds), source=table)
    assert edges.left_keys.to_pylist() == expected
    assert edges.facts.rows_dropped_time == 3 - len(expected)


@pytest.mark.parametrize("times", [[5, 6, 7], [5.0, 6.0, 7.5], ["5", "6", "7"]])
def test_windows_of_numbers(times: list[object]) -> None:
    config = InputConfig(timestamp=2, time_from=6, time_until=7)
    assert ingest(config, source=([1, 2, 3], [1, 1, 1], times)).left_keys.to_pylist() == [2]
    assert ingest(
        InputConfig(timestamp=2, time_from="6"), source=([1, 2, 3], [1, 1, 1], times)
    ).left_keys.to_pylist() == [2, 3]


def test_windows_are_exact_beyond_the_precision_of_floats() -> None:
    start = 2**62
    config = InputConfig(timestamp=2, time_from=start + 1, time_until=start + 2)
    times = [start, start + 1, start + 2]
    assert ingest(config, source=([1, 2, 3], [1, 1, 1], times)).left_keys.to_pylist() == [2]
    assert ingest(config, source=([1, 2, 3], [1, 1, 1], list(map(str, times)))).left_keys.to_pylist() == [2]


def test_nanoseconds_before_1970_stay_on_their_side() -> None:
    table = pa.table({"u": [1, 2], "v": [1, 1], "t": pa.array([-1, 0], pa.timestamp("ns"))})
    assert ingest(InputConfig(timestamp="t", time_from="1970-01-01"), source=table).left_keys.to_pylist() == [2]
    assert ingest(InputConfig(timestamp="t", time_until="1970-01-01"), source=table).left_keys.to_pylist() == [1]


def test_konect_weights_and_times(tmp_path: Path) -> None:
    path = tmp_path / "out.g"
    path.write_text("% bip weighted\n1 1 0.5 100\n1 2 2 200\n2 2 3 300\n")
    for weight, timestamp in ((2, 3), ("weight", "timestamp")):
        config = InputConfig(path=str(path), weight=weight, min_weight=1, timestamp=timestamp, time_until=300)
        assert pairs(ingest(config)) == [(1, 2)]


def test_unquoted_yaml_dates_are_bounds() -> None:
    config = Config.from_mapping({"input": {"timestamp": 2, "time_from": datetime.date(2024, 1, 1)}})
    assert config.input.time_from == "2024-01-01"
    assert pairs(ingest(config.input, source=([1, 2, 3], [1, 1, 1], DAYS))) == [(2, 1), (3, 1)]


# How the input was read


def test_how_an_input_was_read_is_one_line(tmp_path: Path) -> None:
    three = "account,day,amount\na1,x,5\na2,y,6\na1,y,7\n"
    taken = read_csv(tmp_path, three, left="account", weight="amount").facts.taken
    assert re.fullmatch(r"csv.*; left = 0 'account', right = 1 'day', weight = 2 'amount' of 3 columns", taken)
    named = read_csv(tmp_path, three).facts
    assert named.taken == "csv, comma, header; left = 0 'account', right = 1 'day' of 3 columns"
    assert named.as_json() == {**asdict(named), "taken": named.taken}
    several = read_csv(tmp_path, three, right=["day", "amount"], left=0).facts.taken
    assert several.endswith("; left = 0 'account', right = 1 'day', right = 2 'amount' of 3 columns")
    assert (
        read_csv(tmp_path, "7;1\n8;1\n8;2\n").facts.taken
        == "csv, semicolon, no header; left = 0, right = 1 of 2 columns"
    )
    long = read_csv(tmp_path, f"{'user' * 100},item\nann,1\nbob,2\n", header=True).facts.taken
    assert len(long) < 150
    frame = pd.DataFrame({"u": ["a", "b"], "v": [1, 2]})
    assert ingest(InputConfig(), frame).facts.taken == "memory; left = 0 'u', right = 1 'v' of 2 columns"
    assert ingest(InputConfig(), (["a"], [1])).facts.taken == "memory; left = 0, right = 1"
    undirected = ingest(InputConfig().of_one_set(), pa.table({"u": ["a", "b"], "v": ["b", "c"]})).facts
    assert undirected.taken == "memory; left = 0 'u', right = 1 'v' of 2 columns"


def test_every_place_says_how_an_input_was_read(tmp_path: Path) -> None:
    from tests.pipeline.test_cli import answer, mbe

    edges, out = tmp_path / "e.csv", tmp_path / "out"
    edges.write_text("account,day,amount\na1,2024-01-01,5\na2,2024-01-02,6\na1,2024-01-02,7\n")
    taken = ingest(InputConfig(path=str(edges))).facts.taken
    for command in ("enumerate", "cliques", "groups", "count-pq", "inspect"):
        more = ("--engine", "reference", "--trial", 0) if command == "inspect" else ("--out", out)
        shown = mbe(command, edges, *more)
        assert f"input      {taken}\n" in shown.stdout, command
        # Once on stdout and once in the log.
        assert shown.stdout.count("no column was named, and there are 3") == 1
        assert shown.stderr.count("no column was named, and there are 3") == 1
        assert f"read {edges} ({taken})" in shown.stderr
        facts = answer(mbe(command, edges, *more, "--json"))["input"]
        assert (facts["taken"], facts["n_columns"], len(facts["warnings"])) == (taken, 3, 1)
    manifest = json.loads((out / "latest" / "manifest.json").read_text())
    assert (manifest["input"]["n_columns"], manifest["input"]["columns"][1]["name"]) == (3, "day")
    assert manifest["warnings"] == manifest["input"]["warnings"] == facts["warnings"]
    assert html.escape("of 3 columns") in (out / "latest" / "report.html").read_text()


def doubts(rows: Iterable[Sequence[object]], config: InputConfig | None = None, **columns: str) -> str:
    """Return the warning about a frame with these rows; empty without one."""
    names = list(columns.values()) or ["u", "v", "w", "x"]
    frame = pd.DataFrame(list(rows))
    frame.columns = names[: frame.shape[1]]
    return "".join(ingest(config or InputConfig(), frame).facts.warnings)


MANY = [(f"user{i}", i % 37 + 100) for i in range(2000)]


def test_more_columns_than_were_asked_for_are_doubtful(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three = [(*row, "w") for row in MANY]
    found = doubts(three)
    assert found == (
        "memory:pandas: no column was named, and there are 3; taken: memory; left = 0 'u', right = 1 'v' of 3 columns; "
        "name the right ones: input.left and input.right"
    )
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [found]
    assert "no column was named" in doubts(three, InputConfig().of_one_set())
    for named in ({"left": "u"}, {"right": 1}, {"left": 0}, {"timestamp": "w"}, {"weight": "w"}):
        assert not doubts(three, InputConfig(**named)), named
    assert not doubts(MANY)
    assert not doubts(MANY, InputConfig().of_one_set())
    # If positions define the columns, there is no choice.
    left, right, weight = map(list, zip(*((1, i, 2) for i in range(5)), (2, 1, 2), strict=True))
    assert ingest(InputConfig(), (left, right, weight)).facts.warnings == ()
    konect = tmp_path / "out.x"
    konect.write_text("% bip\n" + "".join(f"{u} {v} {w}\n" for u, v, w in zip(left, right, weight, strict=True)))
    assert ingest(InputConfig(path=str(konect))).facts.warnings == ()
    snap = tmp_path / "x.txt"
    snap.write_text(konect.read_text().replace("% bip", "# snap"))
    assert "there are 3" in ingest(InputConfig(path=str(snap))).facts.warnings[0]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["0", "1"], "right = 1 'v' holds flags (0, 1)"),
        (["true", "false"], "right = 1 'v' holds flags (false, true)"),
        (["X"], "the right side has one vertex; right = 1 'v' holds flags (X)"),
        ([f"2024-01-{day:02}" for day in range(1, 29)], "right = 1 'v' holds dates (2024-01-01 to 2024-01-28)"),
        ([20240131, 20240229, 20231130], "right = 1 'v' holds dates (20231130 to 20240229)"),
        (["2024-01-31T10:00", "2024-01-31 11:00:00"], "right = 1 'v' holds dates"),
        (["T", "A", "C"], "right = 1 'v' holds 3 distinct values in 2,000 rows, like types of records"),
    ],
    ids=["digits", "words", "X", "days", "YYYYMMDD", "times", "types"],
)
def test_unlikely_keys_are_doubtful(values: list[object], says: str) -> None:
    rows = [(f"user{i}", values[i % len(values)]) for i in range(2000)]
    assert says in doubts(rows)
    assert says.replace("right = 1 'v'", "left = 0 'u'").replace("right", "left") in doubts(row[::-1] for row in rows)
    of_one_set = doubts(rows, InputConfig().of_one_set())
    assert says.removeprefix("the right side has one vertex; ") in of_one_set
    # A user who names the column means it.
    assert "holds" not in doubts(rows, InputConfig(right="v"))
    assert not doubts((user, f"item{i % 50}") for i, (user, _) in enumerate(rows))


def test_flags_are_recognised_in_few_rows() -> None:
    assert "holds flags (0, 1)" in doubts([("a", 0), ("b", 1), ("c", 1)])
    assert not doubts([("a", 0), ("b", 1), ("b", 0), ("c", 1)])
    assert not doubts([(0, 0), (1, 1)])
    # Numbers that are not days.
    assert not doubts([("a", 20240131), ("b", 20240132), ("c", 20240133)])


def test_one_vertex_on_a_side_is_doubtful_in_every_format() -> None:
    assert "the left side has one vertex" in doubts([("a", "x"), ("a", "y")], InputConfig(left="u"))
    assert not doubts([("a", "x")])
    (found,) = ingest(InputConfig(), (["a", "a"], ["x", "y"])).facts.warnings
    assert found.endswith("check the input and input.format")
    # In an undirected star, the hub is not a side.
    assert not doubts([("a", "x"), ("a", "y")], InputConfig().of_one_set())


def test_real_graphs_raise_no_doubts(data_dir: Path) -> None:
    # Larger graphs only take longer.
    paths = [path for path in data_dir.rglob("*.npz") if path.stat().st_size < 400_000]
    assert paths
    for path in paths:
        config = InputConfig().of_one_set() if path.name.startswith("uni_") else InputConfig()
        edges = ingest(config, path)
        left, right = edges.left_keys.take(pa.array(edges.left_ids)), edges.right_keys.take(pa.array(edges.right_ids))
        assert edges.facts.warnings == ingest(config, pa.table({"u": left, "v": right})).facts.warnings == (), path
