"""The cuDF backend cleans as Arrow does under the shared rules; without a GPU, see `on_arrow`."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mbe_stage.pipeline.backends.backend import HostNeeded
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.ingest import ingest
from tests.pipeline.test_time_units import UNITS, column
from tests.rapids.agreement import assert_agree, outcome
from tests.rapids.on_arrow import PACKAGE, cudf_backend

DAY = datetime.datetime(2024, 1, 31)


@pytest.fixture(scope="module", params=["at once", "in parts", "pairs"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cudf_backend() as found:
        yield found if request.param == "at once" else in_parts(found, 3, as_pairs=request.param == "pairs")


def in_parts(backend: Any, most_rows: int, *, as_pairs: bool) -> Any:
    """Return a backend that reads rows in parts, and as distinct pairs where only these count."""

    class InParts(type(backend)):  # type: ignore[misc]
        at_once = backend
        n_held = 0

        def readers(self, config: InputConfig, source: object) -> Any:
            read, read_on_host = backend.readers(config, source)

            def read_parts() -> Any:
                rows = read()

                def part(first: int) -> dict[str, Any]:
                    columns = {
                        role: all_rows.iloc[first : first + most_rows] for role, all_rows in rows.columns.items()
                    }
                    return {role: replace(rows, columns=columns).column(role, config.key_type) for role in columns}

                if rows.n <= most_rows:
                    return rows
                only_pairs = as_pairs and encoded.are_only_pairs(rows.roles, config)
                parts = map(part, range(0, rows.n, most_rows))
                columns = encoded.joined_columns(parts, only_pairs=only_pairs)
                InParts.n_held = next(iter(columns.values())).present.size
                return replace(rows, columns=columns)

            return read_parts, read_on_host

    encoded = importlib.import_module(f"{PACKAGE}.encoded")
    return InParts()


def edges_of(backend: Any, config: InputConfig, source: object = None) -> Any:
    return ingest(config, source, backend)


def agreed(backend: Any, config: InputConfig, source: object = None) -> object:
    """Return the common outcome of both backends; of a refusal, the message. Rows in parts have the same warnings."""
    found = assert_agree(lambda *given: edges_of(backend, *given), config, source)
    if hasattr(backend, "at_once") and isinstance(found, dict):
        both = (edges_of(each, config, source).facts.warnings for each in (backend, backend.at_once))
        assert next(both) == next(both)
    return found


def table(**columns: object) -> pa.Table:
    return pa.table(columns)


KEYS = {
    "integers": pa.array([5, -3, 5, 2**62, -3], pa.int64()),
    "small integers": pa.array([5, 3, 5, 1, 3], pa.uint8()),
    "whole floats": pa.array([5.0, -3.0, 5.0, 0.0, -3.0]),
    "text": pa.array(["b", "ä", "b", "a", "ä"]),
    "text of integers": pa.array(["5", "-3", "5", "007", "-3"]),
    "dictionary": pa.array(["b", "a", "b", "c", "a"]).dictionary_encode(),
}


@pytest.mark.parametrize("right", KEYS)
@pytest.mark.parametrize("left", KEYS)
def test_keys_of_every_kind(backend: Any, left: str, right: str) -> None:
    source = table(left=KEYS[left], right=KEYS[right])
    assert isinstance(agreed(backend, InputConfig(), source), dict)
    assert edges_of(backend, InputConfig(), source).facts.warnings == ()


@pytest.mark.parametrize("key_type", ["auto", "integer", "string"])
@pytest.mark.parametrize("name", ["text of integers", "integers", "whole floats"])
def test_requested_key_types(backend: Any, key_type: str, name: str) -> None:
    config = InputConfig(key_type=key_type)  # type: ignore[arg-type]
    assert isinstance(agreed(backend, config, table(left=KEYS[name], right=[1, 2, 3, 4, 5])), dict)


@pytest.mark.parametrize("seed", range(6))
def test_random_pairs(backend: Any, request: pytest.FixtureRequest, seed: int) -> None:
    chance, n = np.random.default_rng(seed), 200
    source = table(left=chance.integers(-3, 3, n), right=chance.choice(["a", "b", "ü", "10", "9"], n))
    plain = InputConfig(left="left", right="right")
    assert isinstance(agreed(backend, plain, source), dict)
    if hasattr(backend, "n_held"):
        assert backend.n_held < 60 if request.node.callspec.params["backend"] == "pairs" else backend.n_held == n
    for all_rows in (plain.keeping_rows(), InputConfig(left="left", right="right", nulls="drop"), plain.of_one_set()):
        agreed(backend, all_rows, source)
        assert not hasattr(backend, "n_held") or backend.n_held == n
    with_null = source.set_column(1, "right", pa.array(source["right"].to_pylist(), mask=np.arange(n) == 30 * seed))
    assert "no value" in str(agreed(backend, plain, with_null))


@pytest.mark.parametrize("seed", range(6))
def test_random_rows_with_nulls_weights_and_times(backend: Any, seed: int) -> None:
    chance = np.random.default_rng(seed)
    n = 200

    def with_nulls(values: object, share: float) -> pa.Array:
        return pa.array(values, mask=chance.random(n) < share)

    source = table(
        left=with_nulls(chance.choice(["a", "b", "", "ü", "10", "9"], n), 0.05),
        right=with_nulls(chance.integers(0, 8, n), 0.05),
        weight=with_nulls(np.where(chance.random(n) < 0.1, np.nan, chance.random(n)), 0.05),
        time=with_nulls(chance.integers(0, 100, n), 0.05),
    )
    columns = {"left": "left", "right": "right", "weight": "weight", "timestamp": "time"}
    config = InputConfig(**columns, nulls="drop", min_weight=0.3, time_from=20, time_until="80")  # type: ignore[arg-type]
    found = agreed(backend, config, source)
    assert isinstance(found, dict)
    for rule in ("null", "weight", "time"):
        assert found[f"rows_dropped_{rule}"] > 0
    assert found["duplicate_edges"] > 0
    assert edges_of(backend, config, source).facts.warnings == ()
    kept = agreed(backend, config.keeping_events(), source)
    assert isinstance(kept, dict)
    assert len(kept["events"][0]) == found["n_edges"] + found["duplicate_edges"]
    # Without filters nulls stay, and nothing is logged.
    anything = InputConfig(left="left", right="right", weight="weight", timestamp="time", nulls="drop")
    unfiltered = agreed(backend, anything.keeping_events(), source)
    assert isinstance(unfiltered, dict)
    assert "nan" in unfiltered["events"][2]
    # Numbers below 100 are not seconds since 1970.
    assert unfiltered["events"][3] is None


@pytest.mark.parametrize("names", [["b", "a", "c", "", "d"], [3, 1, 2, 9, 7]], ids=["text", "integers"])
def test_undirected_edges(backend: Any, names: list[object]) -> None:
    chance = np.random.default_rng(1)
    ends = [pa.array(names).take(pa.array(chance.integers(0, 5, 60))) for _ in range(2)]
    config = InputConfig(nulls="drop").of_one_set()
    assert isinstance(agreed(backend, config, table(left=ends[0], right=ends[1])), dict)
    mixed = table(left=pa.array(["1", "2", "3", "4"]), right=[1, 2, 3, 5])
    assert isinstance(agreed(backend, config, mixed), dict)


@pytest.mark.parametrize("kind", ["numbers", "floats", "text", "moments"])
def test_kept_times(backend: Any, kind: str) -> None:
    seconds = [1_704_067_200, None, 1_704_067_201]
    columns = {
        "numbers": pa.array(seconds),
        "floats": pa.array(seconds, pa.float64()),
        "text": pa.array(["2024-01-01T00:00:00", "", "2024-01-01T00:00:01Z"]),
        "moments": pa.array(seconds, pa.timestamp("s")),
    }
    config = InputConfig(left="left", right="right", timestamp="time").keeping_events()
    found = agreed(backend, config, table(left=[1, 2, 3], right=[1, 2, 3], time=columns[kind]))
    assert isinstance(found, dict)
    assert found["events"][3] == ["1704067200000000", str(-(2**63)), "1704067201000000"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments(backend: Any, unit: str) -> None:
    times = pa.array([DAY, DAY + datetime.timedelta(days=1), None, DAY - datetime.timedelta(days=40_000)])
    config = InputConfig(timestamp="time", nulls="drop", time_from="2024-01-31", time_until="2024-02-01")
    found = agreed(backend, config, table(left=[1, 2, 3, 4], right=[1, 2, 3, 4], time=times.cast(pa.timestamp(unit))))
    assert isinstance(found, dict)
    assert (found["rows_dropped_null"], found["rows_dropped_time"], found["left_keys"]) == (1, 2, [1])


@pytest.mark.parametrize(
    "asked",
    [
        {"time_from": "2023-12-31", "time_until": "2024-01-02"},
        {"time_from": 20231231},
        {"time_from": 1_704_000_000},
        {"time_from": 1_704_000_000_000_000_000},
        {"time_bucket": "1d"},
    ],
    ids=str,
)
@pytest.mark.parametrize("unit", UNITS)
def test_numeric_times(backend: Any, unit: str, asked: dict[str, object]) -> None:
    config = InputConfig(timestamp="time", **asked)  # type: ignore[arg-type]
    found = agreed(backend, config, table(left=[1, 2, 3, 4, 5], right=[1, 1, 1, 1, 1], time=column(unit)))
    plain = unit == "seconds" and asked.get("time_from") in (None, "2023-12-31", 1_704_000_000)
    assert isinstance(found, dict) or not plain


def test_weights_in_text(backend: Any) -> None:
    source = table(left=[1, 2, 3, 4], right=[1, 1, 1, 1], weight=["1e2", "  7", "", "0.5"])
    config = InputConfig(weight="weight", min_weight=1, nulls="drop")
    found = agreed(backend, config, source)
    assert isinstance(found, dict)
    assert found["left_keys"] == [1, 2]


@pytest.mark.parametrize("texts", [["1", "2", "3", "0.5", "1.5", "9"], ["0.5", "", "2", "", None, ""]])
def test_weights_in_text_with_fractions_in_some_rows(backend: Any, texts: list[str | None]) -> None:
    source = table(left=range(6), right=[1] * 6, weight=texts)
    config = InputConfig(left="left", right="right", weight="weight", min_weight=1, nulls="drop").keeping_events()
    found = agreed(backend, config, source)
    assert isinstance(found, dict)
    assert found["events"][2] == [str(float(text)) for text in texts if text and float(text) >= 1]


def test_days_in_some_rows_and_none_in_others(backend: Any) -> None:
    source = table(left=range(6), right=[1] * 6, time=["", None, "", "2024-01-02", "", "2024-01-01"])
    config = InputConfig(timestamp="time", nulls="drop", time_from="2024-01-02")
    assert isinstance(agreed(backend, config, source), dict)


def test_numbers_in_some_rows_and_days_in_others(backend: Any) -> None:
    source = table(left=range(6), right=[1] * 6, time=["1704067200"] * 3 + ["2024-01-01"] * 3)
    refused = assert_agree(lambda *given: edges_of(backend, *given), InputConfig(timestamp="time", time_from=5), source)
    assert isinstance(refused, str)


def test_text_of_a_format_whose_ids_are_integers(backend: Any, tmp_path: Path) -> None:
    """Read by the host, then copied; "07" and "7" are one vertex."""
    path = tmp_path / "edges.txt"
    path.write_text("# FromNodeId ToNodeId\n1 2\n07 2\n7 2\n7 3\n")
    config = InputConfig(path=str(path), format="snap")
    found = agreed(backend, config)
    assert isinstance(found, dict)
    assert (found["left_keys"], found["duplicate_edges"]) == ([1, 7], 1)


REFUSED = {
    "a null": table(left=[1, None, 3], right=[1, 2, 3]),
    "the earlier of two": table(left=[1, 2, None], right=[1, None, 3]),
    "a side of nulls": table(left=pa.array(["", "", None]), right=[1, 2, 3]),
    "a fraction": table(left=[1.0, 1.5, 2.0], right=[1, 2, 3]),
    "beyond int64": table(left=pa.array([1, 2**64 - 1, 3], pa.uint64()), right=[1, 2, 3]),
    "booleans": table(left=[True, False, True], right=[1, 2, 3]),
    "no rows": table(left=pa.array([], pa.int64()), right=pa.array([], pa.int64())),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_equal_the_host_s(backend: Any, case: str) -> None:
    assert isinstance(agreed(backend, InputConfig(), REFUSED[case]), str)


def test_an_input_without_valid_rows(backend: Any) -> None:
    config = InputConfig(weight="weight", min_weight=9, nulls="drop")
    message = agreed(backend, config, table(left=[1, 2], right=[1, None], weight=[1.0, 2.0]))
    assert "all 2 rows were dropped: 1 by null (input.nulls is drop), 1 by weight" in str(message)


@pytest.mark.parametrize("key", ["x7", "9223372036854775808"])
def test_a_key_that_has_to_be_an_integer(backend: Any, key: str) -> None:
    source = table(left=["1", key, "3"], right=[1, 2, 3])
    assert key in str(agreed(backend, InputConfig(key_type="integer"), source))


def test_input_for_the_host_only_is_read_with_a_warning(backend: Any) -> None:
    source = table(left=pa.array([1, 2, 1], pa.decimal128(30, 0)), right=[1, 2, 1])
    assert isinstance(agreed(backend, InputConfig(), source), dict)
    (warning,) = edges_of(backend, InputConfig(), source).facts.warnings
    assert warning.startswith("read and cleaned on the host, because of column 'left' of type decimal128")


def reason_of_the_device(backend: Any, config: InputConfig, source: object) -> str:
    """Return the device's reason for leaving the rows to the host."""
    with pytest.raises(HostNeeded) as reason:
        clean(backend.readers(config, source)[0](), config, backend)
    return str(reason.value)


@pytest.mark.parametrize("case", ["a null", "the earlier of two", "a side of nulls"])
def test_reasons_for_using_the_host_are_short(backend: Any, case: str) -> None:
    assert reason_of_the_device(backend, InputConfig(), REFUSED[case]) == "nulls"
    nothing_left = table(left=[1, 2], right=[1, None])
    assert reason_of_the_device(backend, InputConfig(nulls="drop"), nothing_left.slice(1)) == "no row that is left"


def test_edges_passed_between_tasks(backend: Any, tmp_path: Path) -> None:
    source = table(left=["b", "a", "b"], right=[3, 3, 1], weight=[1.0, None, 2.0])
    edges = edges_of(backend, InputConfig(left="left", right="right", weight="weight").keeping_events(), source)
    assert edges.events.weights[2] == 2.0
    save_edges(edges.to_host(), tmp_path / "scratch")
    again = backend.from_host(load_edges(tmp_path / "scratch"))
    assert again.facts == edges.facts
    assert [hashes.tolist() for hashes in again.key_hashes()] == [hashes.tolist() for hashes in edges.key_hashes()]
    assert outcome(lambda *_: again, InputConfig()) == outcome(lambda *_: edges, InputConfig())


@pytest.mark.parametrize("seed", range(6))
def test_random_keys_of_several_columns(backend: Any, seed: int) -> None:
    chance = np.random.default_rng(seed)
    n = 120
    source = table(
        u=chance.integers(0, 9, n),
        a=chance.choice(["x", 'say "x"', "back\\slash", "ü", "10", "9"], n),
        b=chance.integers(-3, 12, n),
        c=pa.array(chance.choice([1.0, 20.0], n), mask=chance.random(n) < 0.1),
    )
    for right in (("a", "b"), ("b", "a", "c")):
        config = InputConfig(left="u", right=right, nulls="drop")
        assert isinstance(agreed(backend, config, source), dict)
        assert edges_of(backend, config, source).facts.warnings == ()


def test_control_characters_in_composite_keys_need_the_host(backend: Any) -> None:
    source = table(u=[1, 2], a=["tab\t", "x"], b=[1, 2])
    config = InputConfig(left="u", right=("a", "b"))
    assert isinstance(agreed(backend, config, source), dict)
    (warning,) = edges_of(backend, config, source).facts.warnings
    assert "control characters in keys of several columns" in warning


def test_a_null_in_a_part_of_a_key(backend: Any) -> None:
    source = table(u=[1, 2], a=["y", "x"], b=pa.array([1, None], pa.int64()))
    assert "no value (1 of 2" in str(agreed(backend, InputConfig(left="u", right=("a", "b")), source))


@pytest.mark.parametrize(
    "times",
    [
        pa.array([0, 86_399, -1, 604_800]),
        pa.array([0.5, 86_399.999999, -0.25, 1e9]),
        pa.array([0, 86_399, -1, 604_800], pa.timestamp("s")),
        pa.array(["1970-01-01", "1970-01-01T23:59:59.9", "1969-12-31", "2024-01-31T12:00:00+02:00"]),
        pa.array([0, 10**12, 1, 2]),
        pa.array([0, 2**62, 1, 2], pa.timestamp("us")),
    ],
)
def test_buckets_of_time(backend: Any, times: pa.Array) -> None:
    source = table(u=[1, 2, 3, 4], a=["x", "y", "x", "x"], b=[1, 1, 1, 2], t=times)
    for right in ("a", ("a", "b")):
        config = InputConfig(left="u", right=right, timestamp="t", time_bucket="1d", time_offset="6h")
        found = agreed(backend, config, source)
        assert isinstance(found, dict) or "input.time_bucket" in found
        # For outputs that need events, of both offsets.
        both = agreed(backend, config.keeping_events(), source)
        assert isinstance(both, str) or isinstance(both["half later"], dict)
