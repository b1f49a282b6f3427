"""Readers refuse damaged and forged runs in one line with an exit code, and new runs can be published beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.cli import app
from tests.pipeline.diff_support import group, make_run

GROUPS = [group("ab", "xy"), group("cd", "z"), group("efgh", "uvw")]
EDGES = pa.table({"l": ["a", "a", "b"], "r": ["x", "y", "x"]})


def half_a_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def noise(path: Path) -> None:
    """Corrupt the first list column of a file whose footer is intact."""
    content = bytearray(path.read_bytes())
    first = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    content[first : first + 60] = bytes(byte ^ 0xFF for byte in content[first : first + 60])
    path.write_bytes(content)


def too_few_vertices(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 1), path)


def with_column(path: Path, name: str, change: Callable[[pa.ChunkedArray], pa.Array]) -> None:
    table = pq.read_table(path)
    at = table.schema.get_field_index(name)
    values = change(table[name])
    pq.write_table(table.set_column(at, pa.field(name, values.type), values), path)


def far_away(path: Path) -> None:
    """Keep the number of members, but name vertices that do not exist."""
    with_column(path, "left", lambda lists: pa.array([[10**8 + id for id in ids] for ids in lists.to_pylist()], I32))


def below_zero(path: Path) -> None:
    with_column(path, "left", lambda lists: pa.array([[-(10**8) - id for id in ids] for ids in lists.to_pylist()], I32))


def other_sizes(path: Path) -> None:
    with_column(path, "n_left", lambda sizes: pa.array([size + 1 for size in sizes.to_pylist()], pa.int32()))


def no_sizes(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["n_left", "n_edges"]), path)


def wide_ids(path: Path) -> None:
    with_column(path, "left", lambda lists: lists.cast(pa.list_(pa.int64())))


def no_keys(path: Path) -> None:
    with_column(path, "key", lambda keys: pa.array([0.5] * len(keys)))


I32 = pa.list_(pa.int32())
PART, VERTICES = "bicliques/part-00001.parquet", "left_vertices.parquet"
DAMAGES = [
    (half_a_file, PART),
    (half_a_file, VERTICES),
    (noise, PART),
    (too_few_vertices, VERTICES),
    (far_away, PART),
    (below_zero, PART),
    (no_sizes, PART),
    (wide_ids, PART),
    (no_keys, VERTICES),
]


@pytest.fixture(params=DAMAGES, ids=lambda damage: f"{damage[0].__name__}-{damage[1].split('.')[0]}")
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = make_run(tmp_path / "out" / "runs" / "20261122T060000Z-000000", GROUPS)
    damage, name = request.param
    damage(path / name)
    return path


@pytest.mark.parametrize("order", ["old", "new"])
def test_diff(damaged: Path, tmp_path: Path, order: str) -> None:
    whole = make_run(tmp_path / "whole", [group("abc", "xy"), group("ef", "uvw")])
    pair = (damaged, whole) if order == "old" else (whole, damaged)
    for options in ([], ["--out", tmp_path / "d"]):
        _refused(damaged, "diff", *pair, *options, "--quiet")
    assert not (tmp_path / "d").exists()


def test_top(damaged: Path) -> None:
    _refused(damaged, "top", damaged)
    _refused(damaged, "top", damaged, "--csv")


def test_export(damaged: Path, tmp_path: Path) -> None:
    _refused(damaged, "export", damaged, "--csv", "--out", tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


def test_a_new_run_says_that_it_could_not_be_compared(damaged: Path) -> None:
    out = damaged.parent.parent
    made = run(Config.from_mapping({"execution": {"engine": "reference"}, "output": {"directory": str(out)}}), EDGES)
    assert made.manifest.comparison is not None
    assert made.manifest.comparison.run_id == damaged.name
    (remark,) = made.manifest.comparison.remarks
    assert remark.startswith("the two could not be compared: ")
    assert str(damaged) in remark


def test_sizes_that_are_not_those_of_the_lists(tmp_path: Path) -> None:
    forged, whole = make_run(tmp_path / "forged", GROUPS), make_run(tmp_path / "whole", [group("abc", "xy")])
    other_sizes(forged / PART)
    for arguments in (("diff", forged, whole), ("export", forged, "--csv")):
        assert "n_left is not the number of members in left" in _refused(forged, *arguments)


def _refused(damaged: Path, *arguments: object) -> str:
    result = CliRunner().invoke(app.app, [str(argument) for argument in arguments])
    assert result.exit_code == 3, result.output
    error = result.stderr.splitlines()[-1]
    assert error.startswith(f"error: {damaged}")
    assert "a defect of mbe" not in result.output
    return error
