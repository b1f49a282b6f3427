"""Several sources as one table: files, patterns, directories of text files, and standard input."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from mbe_stage import pipeline
from mbe_stage.engines import choose_engine
from mbe_stage.pipeline import ConfigError, InputError
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.execution.ingest import ingest
from tests.pipeline import input_support, small_rapids
from tests.pipeline.small_rapids import SmallRapids
from tests.pipeline.test_ingest import pairs

HEADER = "user,item\n"
FIRST, SECOND = "ann,7\nbob,7\n", "ann,8\ncid,9\n"
EDGES = [("ann", 7), ("ann", 8), ("bob", 7), ("cid", 9)]
MTX = "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1\n2 2\n"


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two CSV files of one table and by-products of writers; its parent is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    for name, rows in {"a.csv": FIRST, "b.csv": SECOND}.items():
        (tmp_path / "parts" / name).write_text(HEADER + rows)
    (tmp_path / "parts" / "_SUCCESS").touch()
    (tmp_path / "parts" / ".a.csv.crc").write_bytes(b"\1\2")
    return tmp_path / "parts"


def refusal(source: object, **settings: object) -> str:
    with pytest.raises(InputError) as error:
        ingest(InputConfig(**settings), source)
    assert "\n" not in str(error.value)
    return str(error.value)


def mbe(*arguments: object, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments], input=stdin)


def answer(*arguments: object, stdin: bytes | str | None = None) -> dict:
    result = mbe(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


# --- Files, patterns and directories ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [("parts/a.csv", "parts/b.csv"), "parts/*.csv", "parts/[ab].csv", "**/?.csv", "parts", "par*", "parts/"],
    ids=str,
)
def test_several_files_are_one_table(parts: Path, path: str | tuple[str, ...]) -> None:
    edges = ingest(InputConfig(path=path))
    assert pairs(edges) == EDGES
    assert edges.facts.source == (", ".join(path) if isinstance(path, tuple) else path)
    assert (edges.facts.rows_read, edges.facts.n_columns) == (4, 2)
    one = parts.parent / "one.csv"
    one.write_text(HEADER + FIRST + SECOND)
    assert ingest(InputConfig(path=str(one))).facts.fingerprint == edges.facts.fingerprint


def test_the_library_takes_lists_of_paths(parts: Path) -> None:
    files = [parts / "a.csv", parts / "b.csv"]
    for source in (files, tuple(files), list(map(str, files)), [files[0], files[1].as_uri()]):
        assert pairs(ingest(InputConfig(), source)) == EDGES
    assert pairs(ingest(InputConfig(), [parts / "a.csv"])) == [("ann", 7), ("bob", 7)]
    # Lists in a tuple are two columns.
    assert pairs(ingest(InputConfig(), (["a.csv"], ["b.csv"]))) == [("a.csv", "b.csv")]


def test_a_configuration_has_a_list(parts: Path) -> None:
    file = parts.parent / "c.yaml"
    file.write_text("input:\n  path: [parts/a.csv, file:%s]\n" % (parts / "b.csv"))
    assert pipeline.load_config(file).input.path == ("parts/a.csv", str(parts / "b.csv"))
    assert pipeline.count(pipeline.load_config(file)).input.n_edges == 4
    assert pipeline.load_config(None, ["input.path=[a.csv]"]).input.path == "a.csv"
    for wrong in ("[]", "[a, '']", "[1]"):
        with pytest.raises(ConfigError, match=r"input\.path"):
            pipeline.load_config(None, [f"input.path={wrong}"])


@pytest.mark.parametrize("command", ["enumerate", "groups", "count-pq", "cliques", "inspect"])
def test_commands_take_several(parts: Path, command: str) -> None:
    more = ("--engine", "reference", "--trial", 0) if command == "inspect" else ("--out", parts.parent / "out")
    facts = answer(command, parts / "a.csv", *more, parts / "b.csv")["input"]
    assert (facts["rows_read"], facts["format"]) == (4, "csv")
    assert facts["source"] == f"{parts / 'a.csv'}, {parts / 'b.csv'}"


def test_a_run_of_several_is_verified_and_grouped(parts: Path) -> None:
    out = parts.parent / "out"
    facts = answer("enumerate", "parts/a.csv", "parts/b.csv", "--out", out)
    assert facts["bicliques"] == 3
    assert answer("verify", out)["checked_against_input"] == 3
    assert answer("verify", out, "--input", "parts")["verified"]
    assert answer("groups", out, "--out", parts.parent / "groups")["input"]["n_edges"] == 4
    (parts / "b.csv").unlink()
    assert "parts/a.csv, parts/b.csv, which no longer exists" in mbe("groups", out).stderr
    assert answer("verify", out)["checked_against_input"] == 0


def test_all_compressions_and_suffixes_of_one_format(parts: Path) -> None:
    (parts / "b.csv").unlink()
    (parts / "b.tsv.gz").write_bytes(gzip.compress((HEADER + SECOND).replace(",", "\t").encode()))
    assert pairs(ingest(InputConfig(path="parts"))) == EDGES


def test_parquet_files_of_several_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"u": pa.array([1], pa.int8()), "v": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"u": pa.array([300], pa.int64()), "v": ["b"]}), tmp_path / "b.parquet")
    assert pairs(ingest(InputConfig(path=str(tmp_path / "*.parquet")))) == [(1, "a"), (300, "b")]
    pq.write_table(pa.table({"u": ["x"], "v": ["b"]}), tmp_path / "c.parquet")
    message = refusal(str(tmp_path / "*.parquet"))
    assert message.startswith(f"{tmp_path / 'c.parquet'}: columns of other types (")
    assert message.endswith(f"; expected those of {tmp_path / 'a.parquet'}; correct the file, or leave it out")
    # Numbers are never rounded on the way.
    pq.write_table(pa.table({"u": [0.5], "v": ["b"]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"u": [2**53 + 1], "v": ["b"]}), tmp_path / "b.parquet")
    assert "c.parquet: columns of other types" in refusal(str(tmp_path / "*.parquet"))


def test_an_error_names_the_file_and_its_line(parts: Path) -> None:
    (parts / "b.csv").write_text(HEADER + "ann,8\ncid,\n")
    assert refusal("parts").startswith("parts/b.csv, line 3, column 'item': no value (1 of 4")
    (parts / "c.csv").write_text(HEADER + "ann,8,9\n")
    assert refusal("parts", nulls="drop").startswith("parts/c.csv, line 2: 3 fields")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("c.csv", "item,user\n7,ann\n", "columns 0 'item', 1 'user'; expected columns 0 'user', 1 'item', as in"),
        ("c.csv", "user,item,day\nann,7,8\n", "columns 0 'user', 1 'item', 2 'day'; expected columns 0 'user'"),
        ("c.csv", "ann,7\nbob,8\n", "2 columns without names; expected columns 0 'user', 1 'item', as in"),
        ("c.dat", "1 2 3\n4\n", "the format fimi, while parts/a.csv is csv; expected one format in all files"),
        ("c.mtx", MTX, "the format matrix_market, while parts/a.csv is csv"),
    ],
)
def test_files_of_other_tables_are_refused_by_name(parts: Path, name: str, text: str, says: str) -> None:
    (parts / name).write_text(text)
    assert refusal("parts").startswith(f"parts/{name}: {says}")


def test_numbers_of_columns_without_names_agree(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2\n1 3\n")
    (tmp_path / "b.txt").write_text("2 2 5\n")
    assert f"{tmp_path / 'b.txt'}: 3 columns without names; expected 2 columns without" in refusal(str(tmp_path))
    (tmp_path / "b.txt").write_text("2 2\n")
    assert ingest(InputConfig(path=str(tmp_path))).facts.n_edges == 3


def test_keys_that_are_numbers_of_rows_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.fimi").write_text("1 2 3\n3 4\n")
        (tmp_path / f"{name}.mtx").write_text(MTX)
        (tmp_path / f"{name}.npz").write_bytes(input_support.to_sparse_npz(np.array([1, 2]), np.array([1, 2])))
    for suffix in ("fimi", "mtx", "npz"):
        assert "keys are row numbers; expected one file" in refusal(f"*.{suffix}")
    # The remedy in the refusal.
    assert "cat FILES | mbe enumerate --format fimi -" in refusal("*.fimi")
    joined = "".join(path.read_text() for path in sorted(tmp_path.glob("*.fimi")))
    assert answer("enumerate", "--format", "fimi", "-", "--count-only", stdin=joined)["input"]["n_left"] == 4
    # Named arrays hold keys.
    for name in "ab":
        (tmp_path / f"{name}.npz").write_bytes(input_support.to_npz(np.array([1, 2]), np.array([1, ord(name)])))
    assert ingest(InputConfig(path="*.npz")).facts.n_edges == 3


def test_a_pattern_without_files_is_one_error(parts: Path) -> None:
    assert refusal("parts/x*.csv") == (
        "parts/x*.csv: no file that matches this pattern; expected at least one; correct input.path"
    )
    assert mbe("enumerate", "parts/x*.csv").stderr.splitlines()[-1].endswith("at least one; correct INPUT")
    # A file of exactly this name is read.
    (parts / "[x].csv").write_text(HEADER + "dan,1\n")
    assert pairs(ingest(InputConfig(path="parts/[x].csv"))) == [("dan", 1)]


def test_subdirectories_are_not_overlooked(parts: Path) -> None:
    (parts / "more").mkdir()
    (parts / "more" / "c.csv").write_text(HEADER + "dan,1\n")
    assert "a directory of 'a.csv', 'b.csv', 'more'" in refusal("parts").replace("'.a.csv.crc', '_SUCCESS', ", "")
    assert ingest(InputConfig(path="parts/**/*.csv")).facts.n_edges == 5


# --- Standard input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        (HEADER + FIRST + SECOND).encode(),
        gzip.compress((HEADER + FIRST + SECOND).encode()),
        input_support.to_parquet(np.array([1, 1, 2, 3]), np.array([7, 8, 7, 9])),
    ],
    ids=["csv", "gzip", "parquet"],
)
def test_standard_input_is_read_like_a_file(tmp_path: Path, content: bytes) -> None:
    facts = answer("enumerate", "-", "--out", tmp_path / "out", stdin=content)
    assert (facts["bicliques"], facts["input"]["source"]) == (3, "standard input")
    assert answer("enumerate", "-", "--out", tmp_path / "out", "--key-type", "string", stdin=content)["bicliques"] == 3
    again = mbe("enumerate", "-", "--out", tmp_path / "out", "--key-type", "string", "--if-changed", stdin=content)
    assert again.exit_code == 5
    # The paths of the temporary copy are not recorded.
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"mbe-input-" not in everything


def test_a_configuration_and_other_files_with_standard_input(parts: Path) -> None:
    (parts.parent / "c.yaml").write_text("input: {path: '-'}\n")
    assert answer("run", "c.yaml", "--count-only", stdin=HEADER + FIRST)["input"]["n_edges"] == 2
    facts = answer("enumerate", "-", "parts/b.csv", "--count-only", stdin=HEADER + FIRST)["input"]
    assert (facts["n_edges"], facts["source"]) == (4, "standard input, parts/b.csv")
    # A file of this name needs a path.
    Path("-").write_text(HEADER + SECOND)
    assert answer("enumerate", "./-", "--count-only", stdin=HEADER + FIRST)["input"]["n_left"] == 2
    assert pairs(ingest(InputConfig(), Path("./-"))) == [("ann", 8), ("cid", 9)]


def test_errors_in_standard_input_name_it() -> None:
    for stdin, says in {
        HEADER + "ann,\nbob,1\n": "error: standard input, line 2, column 'item': no value",
        HEADER + "ann,7,8\n": "error: standard input, line 2: 3 fields in the line",
        "": "error: standard input: an empty file; expected edges",
    }.items():
        result = mbe("enumerate", "-", "--format", "csv" if stdin else "auto", "--count-only", stdin=stdin)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith(says)


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal("-") == "standard input: closed; expected edges; correct input.path"


def test_standard_input_is_not_read_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer("enumerate", "-", "--out", out, stdin=HEADER + FIRST)
    checked = mbe("verify", out, "--json", stdin=HEADER + SECOND)
    assert "standard input cannot be read again: checking without the input" in checked.stderr
    assert json.loads(checked.stdout)["verified"]
    assert answer("verify", out, "--input", "-", stdin=HEADER + FIRST)["checked_against_input"] == 1
    assert "a run of standard input, which no longer exists" in mbe("groups", out, stdin=HEADER + FIRST).stderr


def test_a_fallback_tier_reads_standard_input_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rapids: SmallRapids = small_rapids.install(monkeypatch, "enumerate")
    stdin = io.TextIOWrapper(io.BytesIO((HEADER + FIRST + SECOND).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    found = pipeline.run(Config.from_mapping({"input": {"path": "-"}, "output": {"directory": str(tmp_path)}}))
    assert (rapids.n_refused, found.manifest.counts.bicliques) == (1, 3)
    assert found.manifest.engine == choose_engine("bicliques")[0]


def test_a_flow_has_no_standard_input(tmp_path: Path) -> None:
    configure = pytest.importorskip("mbe_stage.flows.enumerate").configure
    for given in ("-", None):
        with pytest.raises(ConfigError, match=r"^input.path: standard input cannot be read again"):
            configure(None, given, str(tmp_path), ["input.path=[a, '-']"])
    assert configure(None, "a-b.csv").input.path == "a-b.csv"
