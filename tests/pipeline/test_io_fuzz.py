"""Malformed input of every kind gives edges or a refusal, never another exception."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io import FORMATS as FORMAT_NAMES
from tests.pipeline.input_support import COMPRESSIONS, FORMATS, LEFT, RIGHT, tar, to_konect

VALID = {case: write(LEFT, RIGHT) for case, (_, _, write) in FORMATS.items()}
VALID["tar"] = tar({"g/README": b"x", "g/out.g": to_konect(LEFT, RIGHT)})
NAMES = {case: name for case, (name, _, _) in FORMATS.items()} | {"tar": "g.tar"}
# The tokens that damage text formats most.
TOKENS = (b"\n", b"\r", b'"', b",", b" ", b"\t", b"%", b"#", b"-", b"1e9", b"99999999999999999999", b"\x00", b"\xff")

fuzz = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check_outcome(path: Path, **options: object) -> None:
    """Assert consistent edges, or a one-line refusal that names the file."""
    try:
        edges = ingest(InputConfig(path=str(path), **options))
    except InputError as error:
        message = str(error)
        assert str(path) in message
        assert "\n" not in message
        message.encode()
        return
    check_sound(edges)


def check_sound(edges: EdgeData) -> None:
    facts = edges.facts
    dropped = facts.rows_dropped_null + facts.rows_dropped_weight + facts.rows_dropped_time
    assert facts.n_edges == len(edges.left_ids) == len(edges.right_ids) > 0
    assert facts.n_edges == facts.rows_read - dropped - facts.duplicate_edges
    for ids, keys in ((edges.left_ids, edges.left_keys), (edges.right_ids, edges.right_keys)):
        assert np.array_equal(np.unique(ids), np.arange(len(keys)))
        plain = keys.to_pylist()
        assert all(a < b for a, b in itertools.pairwise(plain))
    codes = edges.left_ids.astype(np.int64) * facts.n_right + edges.right_ids
    assert np.all(np.diff(codes) > 0)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Damage a valid file by a few cuts, insertions and overwritten bytes."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 12))
        piece = draw(st.sampled_from(TOKENS) | st.binary(max_size=8))
        data = data[:at] + piece + data[at + size :]
    return data[: draw(st.integers(1, max(1, len(data))))] if draw(st.booleans()) else data


@pytest.mark.parametrize("case", VALID)
@fuzz
@given(data=st.data())
def test_damaged_files(tmp_path: Path, case: str, data: st.DataObject) -> None:
    path = tmp_path / NAMES[case]
    path.write_bytes(data.draw(damaged(VALID[case])))
    check_outcome(path, key_type=data.draw(st.sampled_from(["auto", "integer", "string"])), nulls="drop")


@pytest.mark.parametrize("compression", [name for name in COMPRESSIONS if name])
@fuzz
@given(data=st.data())
def test_damaged_compression(tmp_path: Path, compression: str, data: st.DataObject) -> None:
    path = tmp_path / ("out.g" + compression)
    path.write_bytes(data.draw(damaged(COMPRESSIONS[compression](VALID["konect"]))))
    check_outcome(path)


@pytest.mark.parametrize("format_name", ["auto", *FORMAT_NAMES])
@fuzz
@given(content=st.binary(max_size=400))
def test_random_bytes(tmp_path: Path, format_name: str, content: bytes) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    check_outcome(path, format=format_name)


@pytest.mark.parametrize("format_name", ["auto", "csv", "konect", "snap", "fimi", "matrix_market"])
@fuzz
@given(content=st.text(alphabet='01 \n\r\t,;"%#-.aé', max_size=80), header=st.sampled_from([None, True, False]))
def test_random_text(tmp_path: Path, format_name: str, content: str, header: bool | None) -> None:
    path = tmp_path / "data"
    path.write_bytes(content.encode())
    check_outcome(path, format=format_name, header=header, nulls="drop")
    check_outcome(path, format=format_name, header=header, weight=1, min_weight=0, timestamp=1, time_from="2020-01-01")


@fuzz
@given(
    rows=st.lists(st.tuples(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12)), min_size=1),
)
def test_any_text_keys_survive_csv_quoting(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    path = tmp_path / "keys.csv"
    text = "left,right\n" + "".join(f"{quoted(u)},{quoted(v)}\n" for u, v in rows)
    path.write_bytes(text.encode())
    edges = ingest(InputConfig(path=str(path), left="left", right="right", key_type="string"))
    left, right = edges.left_keys.to_pylist(), edges.right_keys.to_pylist()
    found = {(left[u], right[v]) for u, v in zip(edges.left_ids, edges.right_ids, strict=True)}
    assert found == set(rows)
    assert left == sorted({u for u, _ in rows}, key=str.encode)
