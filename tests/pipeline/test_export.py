"""CSV of a run: every member with its key, safe in a spreadsheet, complete or absent, in bounded memory."""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.views import export
from mbe_stage.pipeline.views.export import csv_output, export_bicliques, export_run, harmless
from mbe_stage.pipeline.views.top import Biclique, largest_bicliques
from tests.patience import begun, completed, output_of
from tests.pipeline.output_support import crown_pairs, edge_data, publish, published_rows, random_pairs, settings

COLUMNS = ["biclique", "biclique_key", "side", "key", "n_left", "n_right", "n_edges"]
PROGRAM = [sys.executable, "-c", "from mbe_stage.pipeline.cli.app import main; main()"]


def mbe(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def rows(text: str) -> list[list[str]]:
    header, *rest = csv.reader(io.StringIO(text))
    assert header == COLUMNS
    return rest


def exported(run: Path, **asked: int) -> list[list[str]]:
    out = io.BytesIO()
    n = export_run(run, out, **asked)
    found = rows(out.getvalue().decode())
    assert n == len({row[0] for row in found})
    return found


def expected(run: Path, edges) -> list[list[str]]:
    found = []
    for number, row in enumerate(published_rows(run), start=1):
        for side, keys in (("left", edges.left_keys), ("right", edges.right_keys)):
            for vertex in row[side]:
                values = [number, row["biclique_key"], side, keys[vertex].as_py()]
                found.append([str(value) for value in (*values, row["n_left"], row["n_right"], row["n_edges"])])
    return found


@pytest.mark.parametrize("chunk", [1, 100, 1 << 24])
def test_every_member_with_its_key_in_the_table_s_order(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(export, "_KEY_BYTES", chunk)
    monkeypatch.setattr(export, "_MEMBERS", chunk)
    edges = edge_data(random_pairs(3))
    run = publish(edges, settings(tmp_path))
    assert exported(run) == expected(run, edges)
    frame = pd.read_csv(io.BytesIO(_bytes(run)))
    assert frame.groupby("biclique").agg({"n_edges": "first"}).n_edges.sum() == sum(
        row["n_edges"] for row in published_rows(run)
    )


def test_filters_and_the_limit(tmp_path):
    edges = edge_data(random_pairs(4))
    run = publish(edges, settings(tmp_path))
    everything = exported(run)
    large = [row for row in everything if int(row[4]) >= 2 and int(row[5]) >= 3]
    assert [row[1:] for row in exported(run, min_left=2, min_right=3)] == [row[1:] for row in large]
    assert exported(run, limit=4) == [row for row in everything if int(row[0]) <= 4]
    assert exported(run, limit=10**9) == everything
    assert exported(run, min_left=10**6) == []


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_begins_a_formula(tmp_path, begin):
    """Text keys that a spreadsheet would evaluate get an apostrophe in front; commas and quotes are quoted."""
    evil = [f"{begin}cmd|' /C calc'!A0", f'{begin}1+1,"x"\ny', begin, f"{begin}5"]
    run = publish(edge_data([(key, 'plain, "quoted"\r\nlines') for key in evil]), settings(tmp_path))
    out = io.BytesIO()
    export_bicliques(largest_bicliques(run, 10), out)
    for text in (_bytes(run).decode(), out.getvalue().decode()):
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert {f"'{key}" for key in evil} | {'plain, "quoted"\r\nlines'} <= set(cells)
        assert not any(
            cell.startswith(("=", "+", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")) for cell in cells
        )
        assert all(cell.lstrip("-").isdigit() for cell in cells if cell.startswith("-"))


def test_integer_keys_stay_numbers(tmp_path):
    assert harmless(pa.array([-5, 7])).to_pylist() == ["-5", "7"]
    assert harmless(pa.array(["-5", "a=b", "'x", ""])).to_pylist() == ["'-5", "a=b", "'x", ""]
    run = publish(edge_data([(-5, -7), (3, -7)]), settings(tmp_path))
    assert [row[3] for row in exported(run)] == ["-5", "3", "-7"]


def test_a_run_without_bicliques_has_a_header(tmp_path):
    run = publish(edge_data(random_pairs(0)), settings(tmp_path, query={"min_left": 500}))
    assert exported(run) == []


def test_the_command_writes_to_stdout_or_a_file(tmp_path):
    run = publish(edge_data(random_pairs(5)), settings(tmp_path / "out"))
    printed = mbe("export", tmp_path / "out", "--csv")
    assert printed.exit_code == 0
    assert printed.stdout_bytes == _bytes(run)
    path = tmp_path / "m.csv"
    path.write_text("before")
    written = mbe("export", run, "--csv", "--out", path, "--min-left", 2, "--limit", 3, "-q")
    assert (written.exit_code, written.stdout, written.stderr) == (0, "", "")
    assert rows(path.read_text()) == exported(run, min_left=2, limit=3)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.csv", "out"]
    assert mbe("export", run).exit_code == 2
    assert mbe("export", tmp_path / "nothing", "--csv").exit_code == 3


def test_top_as_csv(tmp_path):
    run = publish(edge_data(random_pairs(5)), settings(tmp_path / "out"))
    result = mbe("top", run, "--csv", "--limit", 3)
    out = io.BytesIO()
    export_bicliques(largest_bicliques(run, 3), out)
    assert result.stdout_bytes == out.getvalue()
    found = rows(result.stdout)
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    assert {row[0] for row in found} == {"1", "2", "3"}
    by_key = {tuple(row[1:]) for row in exported(run)}
    assert {tuple(row[1:]) for row in found} <= by_key
    assert mbe("top", run, "--csv", "--json").exit_code == 2
    assert rows(mbe("top", run, "--csv", "--min-left", 10**6).stdout) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_is_complete_or_absent(tmp_path, error):
    path = tmp_path / "m.csv"
    path.write_text("before")

    def write() -> None:
        with csv_output(path) as file:
            file.write(b"half")
            assert path.read_text() == "before"
            raise error

    with pytest.raises((PublishError, KeyboardInterrupt)):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_only_regular_files_are_replaced(tmp_path):
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(PublishError, match="is not a regular file"), csv_output(path):
            pass
    with pytest.raises(PublishError, match="no file was written"), csv_output(tmp_path / "no" / "m.csv"):
        pass
    (tmp_path / "link.csv").symlink_to("real.csv")
    with csv_output(tmp_path / "link.csv") as file:
        file.write(b"x")
    assert (tmp_path / "real.csv").read_bytes() == b"x"
    assert (tmp_path / "link.csv").is_symlink()


def test_long_keys_in_many_bicliques_do_not_fill_the_memory(tmp_path):
    """A key of 4 MB in 2**9 bicliques: 2 GB of text, written piece by piece."""
    long = "k" * 4_000_000
    names = {0: long}
    pairs = [(names.get(left, f"p{left}"), right) for left, right in crown_pairs(10)]
    run = publish(edge_data(pairs), settings(tmp_path))
    program = (
        "import resource, sys; from mbe_stage.pipeline.views.export import export_run; "
        "before = resource.getrusage(0).ru_maxrss;"
        "export_run(sys.argv[1], open('/dev/null', 'wb')); print(resource.getrusage(0).ru_maxrss - before)"
    )
    done = completed([sys.executable, "-c", program, run], check=True)
    assert int(done.stdout) < 400 * 1024


def test_a_closed_pipe_is_no_error(tmp_path):
    run = publish(edge_data(crown_pairs(14)), settings(tmp_path))
    writer = begun([*PROGRAM, "export", run, "--csv", "-q"])
    assert writer.stdout is not None
    assert writer.stdout.readline().startswith(b'"biclique"')
    writer.stdout.close()
    writer.stdout = None
    said = output_of(writer)[1].decode()
    assert "Traceback" not in said
    assert "defect" not in said


def test_keys_do_not_act_on_a_terminal():
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    export_bicliques([Biclique(1, ("a\x1b[31m",), (7,), 1)], out)
    assert b"\x1b" not in out.getvalue()
    assert b"a\\x1b[31m" in out.getvalue()


def _bytes(run: Path) -> bytes:
    out = io.BytesIO()
    export_run(run, out)
    return out.getvalue()


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("table", ["bicliques/part-00000.parquet", "left_vertices.parquet"])
def test_a_damaged_run_is_refused_and_nothing_is_written(tmp_path, table):
    run = publish(edge_data(random_pairs(5)), settings(tmp_path / "out"))
    data = (run / table).read_bytes()
    for content in (b"no table", data[: len(data) // 2], data[:4] + bytes(len(data) // 2) + data[4 + len(data) // 2 :]):
        (run / table).write_bytes(content)
        result = mbe("export", run, "--csv", "--out", tmp_path / "m.csv")
        assert result.exit_code == 3, result.stderr
        assert f"{run}: cannot be read" in result.stderr
        assert not (tmp_path / "m.csv").exists()
