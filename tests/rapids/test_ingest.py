"""Device ingest equals host ingest: edges, keys, facts and refusals."""

from __future__ import annotations

import datetime
import io
import logging
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

pytest.importorskip("cudf", reason="needs RAPIDS: pip install 'mbe-stage[rapids-cu13]'")

import cudf

from mbe_stage.pipeline.backends.cudf import read
from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
from mbe_stage.pipeline.config.model import InputConfig, QueryConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest as host_ingest
from mbe_stage.pipeline.problems.query import to_query
from mbe_stage.pipeline.rapids.ingest import ingest
from tests.pipeline.input_support import COMPRESSIONS, FORMATS, LEFT, RIGHT
from tests.pipeline.test_bad_input import TEXTS
from tests.rapids.agreement import assert_agree, described

pytestmark = pytest.mark.gpu

AWKWARD = [
    "007",
    "7",
    " a",
    "a",
    "a ",
    "A",
    "ä",
    "a\u0308",
    "é",
    "Z",
    "🦉",
    "长",
    "\u00a0",
    "-0",
    "0",
    "+7",
    "7.0",
    "NA",
]


def written(tmp_path: Path, table: pa.Table | dict[str, object], name: str = "e.parquet", **settings: object) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **settings)
    return path


def config_of(path: Path, **settings: object) -> InputConfig:
    return InputConfig(path=str(path), **settings)


def reader_of(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("mbe_stage.pipeline.execution.ingest", "mbe_stage.pipeline.clean"))
    )


@pytest.fixture(params=[None, 2], ids=["at once", "in parts"])
def most_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read Parquet at once, and in parts of two rows."""
    if request.param is not None:
        monkeypatch.setattr(read, "_MOST_ROWS_AT_ONCE", request.param)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


# Formats


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("case", FORMATS)
def test_every_format(tmp_path: Path, case: str, compression: str, caplog: pytest.LogCaptureFixture) -> None:
    name, _, write = FORMATS[case]
    path = tmp_path / (name + compression)
    path.write_bytes(COMPRESSIONS[compression](write(LEFT, RIGHT)))
    found = assert_agree(ingest, config_of(path))
    assert isinstance(found, dict)
    by = {"parquet": "cudf.read_parquet", "csv": "cudf.read_csv"}.get(found["format"], "the host's reader")
    assert f"by {by}" in reader_of(caplog)


@pytest.mark.parametrize("case", TEXTS)
def test_every_refusal(tmp_path: Path, case: str) -> None:
    name, content, given_settings, _ = TEXTS[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert isinstance(assert_agree(ingest, config_of(path, **given_settings)), str)


@pytest.mark.usefixtures("most_rows")
def test_paths_with_special_names(tmp_path: Path) -> None:
    for name in ("a*.parquet", "a[1].parquet", "x::y.parquet", "file:e.parquet", "with blank.parquet", "é.parquet"):
        found = assert_agree(ingest, config_of(written(tmp_path, {"u": LEFT, "v": RIGHT}, name)))
        assert isinstance(found, dict)
    path = tmp_path / "b[1]*.csv"
    path.write_text("1,2\n")
    assert isinstance(assert_agree(ingest, config_of(path)), dict)


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"u": LEFT, "v": RIGHT})
    monkeypatch.chdir(tmp_path)
    assert assert_agree(ingest, InputConfig(path="e.parquet"))["source"] == "e.parquet"  # type: ignore[index]


# Parquet

TYPES = {
    "int8": pa.array([3, 1, 3], pa.int8()),
    "uint8": pa.array([3, 255, 3], pa.uint8()),
    "uint32": pa.array([3, 2**32 - 1, 3], pa.uint32()),
    "int64": pa.array([2**62, -(2**63), 2**63 - 1], pa.int64()),
    "uint64": pa.array([3, 2**63 - 1, 3], pa.uint64()),
    "uint64 beyond": pa.array([3, 2**64 - 1, 3], pa.uint64()),
    "float32": pa.array([3.0, 1.0, 3.0], pa.float32()),
    "float64": pa.array([3.0, -1.0, 2.0**53], pa.float64()),
    "fractions": pa.array([3.0, 1.5, 3.0]),
    "too large floats": pa.array([3.0, 2.0**60, 3.0]),
    "infinite": pa.array([3.0, float("inf"), 3.0]),
    "nan": pa.array([3.0, float("nan"), 3.0]),
    "bool": pa.array([True, False, True]),
    "decimal": pa.array([3, 1, 3], pa.decimal128(30, 0)),
    "date": pa.array([datetime.date(2024, 1, 1)] * 3),
    "string": pa.array(["b", "a", "b"]),
    "large_string": pa.array(["b", "a", "b"], pa.large_string()),
    "string_view": pa.array(["b", "a", "b"], pa.string_view()),
    "binary": pa.array([b"b", b"a", b"b"]),
    "not utf-8": pa.array([b"b", b"\xff", b"b"]),
    "dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
    "dictionary of integers": pa.array([7, 5, 7]).dictionary_encode(),
    "list": pa.array([[1], [2], [1]]),
    "nulls": pa.array([3, None, 3]),
    "null texts": pa.array(["b", None, ""]),
    "all null": pa.array([None, None, None], pa.int64()),
    "null type": pa.array([None, None, None]),
    "numbers as text": pa.array(["7", "10", "007"]),
}


@pytest.mark.usefixtures("most_rows")
@pytest.mark.parametrize("nulls", ["error", "drop"])
@pytest.mark.parametrize("key_type", ["auto", "integer", "string"])
@pytest.mark.parametrize("case", TYPES)
def test_types_of_parquet_columns(tmp_path: Path, case: str, key_type: str, nulls: str) -> None:
    path = written(tmp_path, {"u": TYPES[case], "v": [5, 6, 5]})
    assert_agree(ingest, config_of(path, key_type=key_type, nulls=nulls))
    assert_agree(ingest, config_of(path, key_type=key_type, nulls=nulls, left="v", right="u"))


@pytest.mark.parametrize("key_type", ["auto", "string"])
def test_texts_that_look_alike(tmp_path: Path, key_type: str, caplog: pytest.LogCaptureFixture) -> None:
    texts = [*AWKWARD, "x" * 100_000, "x" * 99_999 + "y"]
    path = written(tmp_path, {"u": texts, "v": texts[::-1]})
    found = assert_agree(ingest, config_of(path, key_type=key_type))
    assert found["left_keys"] == sorted(texts, key=str.encode)  # type: ignore[index]
    assert "by cudf.read_parquet" in reader_of(caplog)


@pytest.mark.parametrize("most_rows", [None, 1500], ids=["at once", "in parts"], indirect=True)
@pytest.mark.usefixtures("most_rows")
def test_row_groups_pages_and_encodings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"u": rng.integers(-(2**62), 2**62, 20_000), "v": rng.integers(0, 50, 20_000).astype(str)})
    for i, options in enumerate(
        [
            {"row_group_size": 777},
            {"compression": "zstd", "use_dictionary": False},
            {"compression": "gzip", "data_page_version": "2.0", "data_page_size": 1000},
            {"compression": "none", "use_dictionary": False, "column_encoding": {"u": "DELTA_BINARY_PACKED"}},
            {"compression": "lz4", "use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}},
        ]
    ):
        assert isinstance(assert_agree(ingest, config_of(written(tmp_path, table, f"{i}.parquet", **options))), dict)


def test_a_damaged_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"u": rng.integers(0, 10**6, 50_000), "v": rng.integers(0, 10**6, 50_000)})
    path = written(tmp_path, table, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = len(content) // 5
    content[start : start + 2000] = bytes(2000)
    path.write_bytes(content)
    assert "not readable as Parquet" in str(assert_agree(ingest, config_of(path)))
    # The device is still usable.
    assert isinstance(assert_agree(ingest, config_of(written(tmp_path, {"u": [1], "v": [2]}))), dict)


@pytest.mark.parametrize("checksums", [False, True])
def test_unverified_page_checksums(tmp_path: Path, checksums: bool) -> None:
    table = {"u": [1, 2], "v": [3, 4]}
    config = config_of(written(tmp_path, table, write_page_checksum=checksums))
    warnings = ingest(config).facts.warnings
    assert len(warnings) == checksums
    assert all("page checksums were not verified" in warning for warning in warnings)
    assert host_ingest(config).facts.warnings == ()


@pytest.mark.parametrize("most_rows", [None, 300], ids=["at once", "in parts"], indirect=True)
@pytest.mark.usefixtures("most_rows")
def test_values_that_contradict_the_footer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    numbers = list(range(1000, 2000))
    path = written(tmp_path, {"u": numbers, "v": numbers}, compression="none", use_dictionary=False)
    content = path.read_bytes()
    old = (1500).to_bytes(8, "little")
    assert content.count(old) == 2
    path.write_bytes(content.replace(old, (99_999).to_bytes(8, "little"), 1))
    assert_agree(ingest, config_of(path))
    assert "which cuDF reads as 1000 to 99999 with 0 nulls, and which is 1000 to 1999" in reader_of(caplog)


def test_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(read, "_MOST_ROWS_AT_ONCE", 1500)
    rng = np.random.default_rng(0)
    numbers, texts = rng.integers(-(2**62), 2**62, 300)[rng.integers(0, 300, 20_000)], rng.integers(0, 50, 20_000)
    of_right = pa.array(texts.astype(str), mask=rng.random(20_000) < 0.1)
    table = pa.table({"u": numbers, "v": of_right, "w": texts / 7, "x": texts[::-1].astype(str)})
    days = [f"2024-01-{1 + day % 31:02}" for day in texts.tolist()]
    # Parts without a key, without a weight and without a day.
    lacks = np.arange(20_000) // 3000 == 2
    written_weights = np.where(texts % 2 == 0, (texts // 4).astype(str), (texts / 4).astype(str))
    for name, values in (("y", texts.astype(str)), ("day", days), ("written", written_weights)):
        table = table.append_column(name, pa.array(values, mask=lacks))
    path = written(tmp_path, table, row_group_size=777)
    config = config_of(path, left="u", right="v", weight="w", nulls="drop", min_weight=2)
    in_text = config_of(
        path, left="u", right="y", weight="written", timestamp="day", time_from="2024-01-09", nulls="drop"
    )
    undirected = config_of(path, left="v", right="x", nulls="drop").of_one_set()
    for asked in (config, config.keeping_events(), in_text, undirected):
        caplog.clear()
        assert isinstance(assert_agree(ingest, asked), dict)
        assert "by cudf.read_parquet" in reader_of(caplog)
    assert "no value" in str(assert_agree(ingest, config_of(path, left="u", right="v")))
    # Further columns are read at once.
    further = config_of(path, left="u", right="x").trying_keys()
    assert isinstance(assert_agree(ingest, further), dict)
    assert ingest(further).facts.warnings == host_ingest(further).facts.warnings


@pytest.mark.parametrize("joined_bytes", [0, 1 << 60], ids=["fits", "too large"])
def test_repeated_pairs_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, joined_bytes: int
) -> None:
    monkeypatch.setattr(read, "_MOST_ROWS_AT_ONCE", 1000)
    monkeypatch.setattr(read, "_JOINED_BYTES", joined_bytes)
    joined, sizes = read.joined_columns, []

    def noted(*parts: object, **how: object) -> object:
        columns = joined(*parts, **how)
        sizes.append(columns["left"].present.size)
        return columns

    monkeypatch.setattr(read, "joined_columns", noted)
    rng = np.random.default_rng(0)
    of_left, of_right = rng.integers(-40, 40, 20_500), rng.integers(0, 30, 20_500).astype(str)
    few = pa.table({"u": of_left, "v": of_right, "d": [f"2024-01-{1 + i % 31:02}" for i in range(20_500)]})
    path = written(tmp_path, few, row_group_size=777)
    for asked in (config_of(path, left="u", right="v"), config_of(path, left="v", right="u")):
        found = assert_agree(ingest, asked)
        assert isinstance(found, dict)
        assert "by cudf.read_parquet" in reader_of(caplog)
    assert len(sizes) == 2
    # 80 x 30 pairs, and the rows of the last parts.
    assert all(size < 2400 + 2000 for size in sizes) if joined_bytes else sizes == [20_500] * 2
    # All rows count here.
    for asked in (
        config_of(path, left="u", right="v").keeping_rows(),
        config_of(path, left="v", right="d").of_one_set(),
        config_of(path, left="u", right="v", timestamp="d", time_bucket="1d"),
        config_of(path, left="u", right="v", nulls="drop"),
    ):
        assert isinstance(assert_agree(ingest, asked), dict)
    assert {*sizes[2:]} == {20_500}
    with_nulls = few.set_column(1, "v", pa.array(of_right, mask=np.arange(20_500) == 19_000))
    assert "no value" in str(
        assert_agree(ingest, config_of(written(tmp_path, with_nulls, "n.parquet"), left="u", right="v"))
    )


@pytest.mark.usefixtures("most_rows")
def test_directories_of_parquet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for i in range(3):
        written(tmp_path, {"u": LEFT + i, "v": RIGHT}, f"d/part-{i}.parquet")
    assert_agree(ingest, config_of(tmp_path / "d"))
    assert "by cudf.read_parquet" in reader_of(caplog)
    for day in ("2024-01-01", "2024-01-02"):
        written(tmp_path, {"u": LEFT, "v": RIGHT}, f"p/day={day}/part.parquet")
    assert_agree(ingest, config_of(tmp_path / "p"))
    assert_agree(ingest, config_of(tmp_path / "p", right="day"))
    assert "directory names" in reader_of(caplog)
    written(tmp_path, {"u": pa.array([1], pa.int32()), "v": [1]}, "d/part-9.parquet")
    assert_agree(ingest, config_of(tmp_path / "d"))
    assert "same type in all files" in reader_of(caplog)
    written(tmp_path, {"u": [1], "w": [1]}, "d/part-8.parquet")
    assert "no column" in str(assert_agree(ingest, config_of(tmp_path / "d", left="u", right="v")))


def test_columns_by_odd_names(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.b": LEFT, "a": RIGHT, "index": LEFT})
    assert_agree(ingest, config_of(path))
    assert_agree(ingest, config_of(path, left="a", right="index"))
    frame = pa.Table.from_pandas(cudf.DataFrame({"u": LEFT, "v": RIGHT}).to_pandas().set_index("u"))
    assert_agree(ingest, config_of(written(tmp_path, frame, "indexed.parquet"), left="v", right="u"))


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "u,v\n007,1\n7,x\n",
        "u,v\n 7,1\n7 ,1\n",
        "u,v\n+7,1\n-0,2\n",
        "u,v\nNA,1\nnull,1\nnan,2\n,3\n",
        "u,v\n-5,1\n9223372036854775807,-9223372036854775808\n",
        "u,v\n9223372036854775808,1\n",
        "u,v\n1e5,1\n0x10,2\n",
        'u,v\n"a,b",1\n"c""d",2\n"",3\n"é",4\n',
        'u,v\n"a\nb",1\n',
        'u,v\na"b,1\n',
        "u,v\r\n1,2\r\n\r\n3,4",
        "\n\nu,v\n\n1,2\n\n",
        "\ufeffu,v\n1,2\n",
        "u;v;w\n1;2;x\n3;4;y\n",
        "u v\n1 2\n3 4\n",
        "u\tv\n1\t a\n2\t\n",
        "u,v\n2024-01-01,true\n2024-01-02,false\n",
        "u,v\n12345678901234567890123,1\n",
        "u,v\n1,2\n1,2\n1,2\n",
        "u,u,v\n1,2,3\n",
        "u,v,u\n\t1,2,3\n",
    ],
)
@pytest.mark.parametrize("key_type", ["auto", "integer", "string"])
@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_csv(tmp_path: Path, text: str, key_type: str, nulls: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text, encoding="utf-8", newline="")
    for sides in ({}, {"left": 1, "right": 0}):
        assert_agree(ingest, config_of(path, key_type=key_type, nulls=nulls, header=True, **sides))


@settings(deadline=None, max_examples=150)
@given(
    rows=st.lists(st.tuples(st.text("ab 07-é🦉'", max_size=4), st.text("019-", max_size=20)), min_size=1, max_size=10),
    quoted=st.booleans(),
)
def test_any_csv(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], quoted: bool) -> None:
    path = tmp_path_factory.mktemp("any") / "e.csv"
    quote = '"' if quoted else ""
    text = "".join(f"{quote}{u}{quote},{quote}{v}{quote}\n" for u, v in rows)
    path.write_text(f"u,v\n{text}", encoding="utf-8")
    assert_agree(ingest, config_of(path, nulls="drop", header=True))


def test_long_fields_of_csv(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = "长" * 300_000
    path = tmp_path / "e.csv"
    path.write_text(f"user,item\n{long},Ünïcödé\n{long}x,🦉\n", encoding="utf-8")
    assert isinstance(assert_agree(ingest, config_of(path)), dict)
    assert "by cudf.read_csv" in reader_of(caplog)


def test_irregular_csv_is_read_on_the_host_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "e.csv"
    path.write_text('u,v\n"a\nb",1\n')
    assert isinstance(assert_agree(ingest, config_of(path)), dict)
    assert "read and cleaned on the host, because of a quote that is not closed on its line" in reader_of(caplog)
    (warning,) = ingest(config_of(path)).facts.warnings
    assert warning.startswith("read and cleaned on the host, because of a quote that is not closed")


# Filters

WEIGHTS = {
    "integers": [1, 2, 3, 4],
    "floats": [1.0, 2.0, 2.5, float("nan")],
    "bytes": np.array([1, 2, 3, 4], np.uint8),
    "text": ["1", "2.0", "+3e0", "4"],
    "integers as text": ["1", "2", "3", "4"],
    "text with gaps": ["1", "", " 3 ", None],
    "no numbers": ["1", "heavy", "3", "4"],
    "nulls": [1, None, 3, 4],
    "at the bound": ["0.1", "0.10000000000000001", "0.09999999999999999", "1e-1"],
    "decimals": [Decimal("0.1"), Decimal("2.5"), Decimal(3), None],
    "bool": [True, False, True, True],
}


@pytest.mark.usefixtures("most_rows")
@pytest.mark.parametrize("nulls", ["error", "drop"])
@pytest.mark.parametrize("minimum", [0.1, 2, 2.5, 1e300])
@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(tmp_path: Path, case: str, minimum: float, nulls: str) -> None:
    path = written(tmp_path, {"u": [1, 2, 3, 4], "v": [1, 1, 1, 1], "w": pa.array(WEIGHTS[case])})
    assert_agree(ingest, config_of(path, weight="w", min_weight=minimum, nulls=nulls))
    assert_agree(ingest, config_of(path, weight="w"))


DAYS = ["2023-12-31", "2024-01-01", "2024-01-02"]
MOMENTS = [datetime.datetime(2023, 12, 31), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
SECONDS = [1_703_980_800, 1_704_067_200, 1_704_153_600]
TIMES = {
    "days as text": pa.array(DAYS),
    "zoned text": pa.array([f"{day}T00:00:00Z" for day in DAYS]),
    "mixed zones": pa.array(["2023-12-31T01:00:00+01:00", "2024-01-01 00:00:00", "2024-01-01T19:00:00.000-05:00"]),
    "gaps": pa.array(["2023-12-31", "", None]),
    "no times": pa.array(["2023-12-31", "yesterday", "2024-01-02"]),
    "seconds": pa.array(MOMENTS, pa.timestamp("s")),
    "milliseconds": pa.array(MOMENTS, pa.timestamp("ms")),
    "zoned": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
    "nanoseconds": pa.array(MOMENTS, pa.timestamp("ns")),
    "before 1970": pa.array([-1, 0, 1], pa.timestamp("ns")),
    "far away": pa.array([2**62, 0, 1], pa.timestamp("ms")),
    "dates": pa.array([moment.date() for moment in MOMENTS], pa.date32()),
    "dates with nulls": pa.array([MOMENTS[0].date(), None, MOMENTS[2].date()], pa.date32()),
    "long dates": pa.array([moment.date() for moment in MOMENTS], pa.date64()),
    "numbers": pa.array(SECONDS),
    "float numbers": pa.array([float(value) for value in SECONDS]),
    "numbers as text": pa.array([str(value) for value in SECONDS]),
    "milliseconds as numbers": pa.array([1000 * value for value in SECONDS]),
    "small": pa.array([5, 6, 7], pa.int8()),
    "exact": pa.array([2**62, 2**62 + 1, 2**62 + 2]),
    "exact text": pa.array([str(2**62), str(2**62 + 1), str(2**62 + 2)]),
}
BOUNDS = [
    {"time_from": "2024-01-01"},
    {"time_until": "2024-01-01"},
    {"time_from": "2024-01-01T01:00:00+02:00", "time_until": "2024-01-02"},
    {"time_from": "2024-01-01T00:00:00.000001"},
    {"time_from": "1970-01-01"},
    {"time_from": 6, "time_until": 7.5},
    {"time_from": "6"},
    {"time_from": 2**62 + 1, "time_until": 2**62 + 2},
    {"time_until": 2**70},
    {"time_until": "nan"},
    {"time_from": "soon"},
]


@pytest.mark.usefixtures("most_rows")
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("case", TIMES)
def test_times(tmp_path: Path, case: str, bounds: dict[str, object]) -> None:
    path = written(tmp_path, {"u": [1, 2, 3], "v": [1, 1, 1], "t": TIMES[case]})
    assert_agree(ingest, config_of(path, timestamp="t", nulls="drop", **bounds))


def test_filters_of_csv(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{u},{v},{w:.3f},{t}" for u, v, w, t in rng.integers(0, 40, (500, 4)) / np.array([1, 1, 7, 1])]
    path = tmp_path / "e.csv"
    path.write_text("u,v,w,t\n" + "\n".join(row.replace(".0,", ",").removesuffix(".0") for row in rows))
    facts = assert_agree(ingest, config_of(path, weight="w", min_weight=2.5, timestamp="t", time_from=5, time_until=30))
    assert facts["rows_dropped_weight"] > 0 < facts["rows_dropped_time"]  # type: ignore[index, operator]
    assert "by cudf.read_csv" in reader_of(caplog)


# In memory


def test_frames_stay_on_the_device(caplog: pytest.LogCaptureFixture) -> None:
    frame = cudf.DataFrame({"u": ["b", "a", "b"], "v": [2**40, 5, 2**40]}, index=[7, 5, 7])
    found = described(ingest(InputConfig(), frame).to_host())
    assert "by cuDF" in reader_of(caplog)
    assert found == described(host_ingest(InputConfig(), frame))
    assert (found["left_keys"], found["right_keys"], found["duplicate_edges"]) == (["a", "b"], [5, 2**40], 1)
    assert found["source"] == "memory:cudf"


@pytest.mark.parametrize(
    "column",
    [
        cudf.Series(["b", "a", "b"], dtype="category"),
        cudf.Series([1, None, 3]),
        cudf.Series([1.0, np.nan, 3.0], nan_as_null=False),
        cudf.Series(["x", None, ""]),
        cudf.Series([True, False, True]),
        cudf.Series(MOMENTS),
        cudf.Series([[1], [2], [1]]),
        cudf.Series(["a", "b", "c", "d"])[1:],
        cudf.Series(np.array([1, 2**64 - 1, 3], np.uint64)),
        cudf.Series([None, None, None], dtype="str"),
    ],
    ids=lambda column: str(column.dtype),
)
@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_frames_of_every_kind(column: cudf.Series, nulls: str) -> None:
    frame = cudf.DataFrame({"u": column.reset_index(drop=True), "v": [1, 2, 3]})
    assert_agree(ingest, InputConfig(nulls=nulls), frame)
    assert_agree(ingest, InputConfig(nulls=nulls, key_type="string"), frame)
    assert_agree(ingest, InputConfig(nulls=nulls, left="v", right="u"), frame)
    assert "no column 'w'" in str(assert_agree(ingest, InputConfig(left="w"), frame))


def test_slices_of_frames() -> None:
    frame = cudf.DataFrame({"u": [f"k{i % 7}" for i in range(100)], "v": list(range(100))}).iloc[13:57]
    assert isinstance(assert_agree(ingest, InputConfig(), frame), dict)


def test_objects_of_the_host(caplog: pytest.LogCaptureFixture) -> None:
    assert_agree(ingest, InputConfig(), (["ann", "bob", "ann"], [7, 7, 7]))
    assert_agree(ingest, InputConfig(), pa.table({"u": ["a"], "v": [1]}))
    assert_agree(ingest, InputConfig(), pa.table({"u": [True], "v": [1]}))
    assert_agree(ingest, InputConfig(), object())
    assert "the host's reader, then copied" in reader_of(caplog)
    # A stream can be read only once, even if the host has to clean.
    batches = pa.table({"u": pa.array([1, 2], pa.decimal128(5, 0)), "v": [1, 1]}).to_reader()
    assert ingest(InputConfig(), batches).facts.n_edges == 2


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(-4, 4), st.sampled_from(AWKWARD)), min_size=1, max_size=20))
def test_fingerprint_and_order(rows: list[tuple[int, str]]) -> None:
    table = pa.table({"u": [u for u, _ in rows], "v": [v for _, v in rows]})
    assert_agree(ingest, InputConfig(), cudf.DataFrame.from_arrow(table), cudf.DataFrame.from_arrow(table))
    found, expected = ingest(InputConfig(), table), host_ingest(InputConfig(), table)
    assert described(found.to_host()) == described(expected)


# Real graphs, and afterwards


@pytest.mark.parametrize("name", ["southern_women", "moreno_crime", "ucforum", "mushroom", "youtube", "bookcrossing"])
def test_real_graphs(data_dir: Path, tmp_path: Path, name: str) -> None:
    with np.load(data_dir / f"{name}.npz") as archive:
        table = pa.table({"u": archive["u"], "v": archive["v"]})
    expected = host_ingest(InputConfig(), table)
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    text = shuffled.cast(pa.schema([("u", pa.string()), ("v", pa.string())]))
    for i, (case, suffix) in enumerate([(shuffled, "parquet"), (shuffled, "csv"), (text, "parquet")]):
        path = tmp_path / f"{i}.{suffix}"
        pq.write_table(case, path) if suffix == "parquet" else pa.csv.write_csv(case, path)
        found = ingest(config_of(path))
        assert found.facts.fingerprint == expected.facts.fingerprint
        assert (found.facts.n_left, found.facts.n_right, found.facts.n_edges) == (
            expected.facts.n_left,
            expected.facts.n_right,
            expected.facts.n_edges,
        )
        if case is shuffled:
            assert np.array_equal(found.to_host().left_ids, expected.left_ids)
            assert np.array_equal(found.to_host().right_ids, expected.right_ids)
    graph, host_graph = found.graph(), host_ingest(config_of(path)).graph()
    for part in ("left_offsets", "left_members", "right_offsets", "right_members"):
        assert np.array_equal(getattr(graph, part).get(), getattr(host_graph, part)), part


@pytest.mark.parametrize("keys", [["b", "a", "ü"], [3, -1, 2**40]])
def test_edges_passed_between_steps(tmp_path: Path, keys: list[object]) -> None:
    edges = ingest(InputConfig(), (keys, [1, 2, 1]))
    backend = CudfBackend()
    save_edges(edges.to_host(), tmp_path / "scratch")
    again = backend.from_host(load_edges(tmp_path / "scratch"))
    assert described(again.to_host()) == described(edges.to_host())
    assert again.facts == edges.facts
    assert again.left_ids.dtype == again.right_ids.dtype == np.int32


@pytest.mark.parametrize("keys", [["5", "07", "7"], [5, 7, -7]])
def test_wanted_keys_are_found_as_on_the_host(keys: list[object]) -> None:
    table = pa.table({"u": keys, "v": [1, 2, 1]})
    device, host = ingest(InputConfig(), table), host_ingest(InputConfig(), table)
    for wanted in ("5", 5, "07", 7, "-7", "x", "", str(2**70)):
        query, answers = QueryConfig(containing_left=(wanted,)), []
        for edges in (device, host):
            try:
                answers.append(to_query(query, edges))
            except InputError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]


def test_bytes_in_memory_are_no_path(tmp_path: Path) -> None:
    assert "object of type BytesIO" in str(assert_agree(ingest, InputConfig(), io.BytesIO(b"1,2\n")))
    assert "no such file" in str(assert_agree(ingest, InputConfig(), tmp_path / "nothing.parquet"))


@pytest.mark.usefixtures("most_rows")
@pytest.mark.parametrize(
    "times",
    [
        [0, 86_399, -1, 604_800],
        [0.5, 86_399.999999, -0.25, 1e9],
        ["1970-01-01", "2024-01-31T12:00:00+02:00", "1969-12-31", "0001-01-03"],
    ],
)
@pytest.mark.parametrize("name", ["e.parquet", "e.csv"])
def test_keys_of_several_columns_and_buckets_of_time(tmp_path: Path, name: str, times: list[object]) -> None:
    columns = {"u": [1, 2, 3, 4], "a": ["x", 'say "x"', "back\\slash", "ü"], "b": [10, 9, 9, 10], "t": times}
    path = tmp_path / name
    if name.endswith("csv"):
        pyarrow.csv.write_csv(pa.table(columns), path)
    else:
        written(tmp_path, columns, name)
    for asked in (
        {"right": ("a", "b")},
        {"right": ("b", "a"), "timestamp": "t", "time_bucket": "1d", "time_offset": "6h"},
    ):
        config = config_of(path, left="u", **asked)
        assert isinstance(assert_agree(ingest, config), dict)
        assert isinstance(assert_agree(ingest, config.keeping_events()), dict)
