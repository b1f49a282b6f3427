"""Output cannot act on the terminal, whatever keys, paths and column names contain."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from mbe_stage.pipeline.cli import app, console, tables
from mbe_stage.pipeline.cli.terminal import json_line, say, shortened, visible
from mbe_stage.pipeline.demo.groups import group_table
from mbe_stage.pipeline.views.top import Biclique
from tests.commands import Commands
from tests.pipeline.output_support import edge_data, publish, settings

# A title, a colour, a cleared screen, a C1 sequence, DEL, a line of its own, an override, a fake line of ours.
EVIL = "a\x1b]0;gotcha\x07\x1b[31m\x1b[2J\x9b31m\x7f\r\n\u202egnp.exe\u2028verified   out\t"
_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def mbe(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def assert_safe(text: str) -> None:
    found = _ACTS.search(text)
    assert found is None, ascii(text[max(0, found.start() - 40) : found.end() + 40])


@pytest.fixture
def evil_run(tmp_path: Path) -> Path:
    """A run whose keys, output directory and input contain escape sequences."""
    pairs = [(EVIL, "x"), (EVIL, f"{EVIL}2"), ("m" * 1_000_000, "x"), *((f"p{i}", "x") for i in range(1000))]
    return publish(edge_data(pairs), settings(tmp_path / f"out{EVIL[:20]}")).parent.parent


def test_every_character_that_acts_is_an_escape_and_the_rest_stays() -> None:
    acting = [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
    for code in [*acting, 0xD800, 0xDFFF]:
        shown = visible(f"<{chr(code)}>")
        assert shown.isascii()
        assert shown.isprintable()
        assert len(shown) > 3
    plain = "C:\\new é 漢字 \U0001f469\u200d\U0001f4bb [bold] 'x'"
    assert visible(plain) == plain
    assert visible(visible(EVIL)) == visible(EVIL)


def test_long_text_says_how_long_it_is() -> None:
    assert shortened("b" * 64, 64) == "b" * 64
    cut = shortened("a" + "b" * 999_998 + "c", 64)
    assert len(cut) < 110
    assert "1,000,000 characters" in cut
    assert (cut[0], cut[-1]) == ("a", "c")
    out = io.StringIO()
    say("k" * 5_000_000, out)
    assert len(out.getvalue()) < 10_000


def test_json_is_exact_and_safe() -> None:
    values = {EVIL: [EVIL, "\ud800", "é 漢 \U0001f469", 1, None]}
    line = json_line(values)
    assert_safe(line)
    assert line.isprintable()
    assert json.loads(line) == values


@pytest.mark.parametrize("asked", [[], ["--vertex", EVIL], ["--by", "left"], ["--min-left", "2000"]], ids=repr)
def test_top_prints_nothing_that_acts(evil_run: Path, asked: list[str]) -> None:
    result = mbe("top", evil_run, *asked)
    assert result.exit_code == 0, result.stderr
    assert_safe(result.stdout)
    assert len(result.stdout) < 50_000


def test_top_cuts_long_keys_and_says_how_many_members_more(evil_run: Path) -> None:
    stdout = mbe("top", evil_run, "--by", "left").stdout
    text = re.sub(r"[\s│]+", " ", stdout)
    assert "994 more" in text
    # The table wraps its cells, so check how a long key is cut before that.
    cell = str(tables.table(["key"], [["m" * 1_000_000]]).columns[0]._cells[0])
    assert "1,000,000 characters" in cell
    assert len(cell) < 1_100


def test_top_as_json_stays_exact(evil_run: Path) -> None:
    result = mbe("top", evil_run, "--json", "--limit", 50)
    line = result.stdout.removesuffix("\n")
    assert line.isprintable()
    keys = {key for biclique in json.loads(line)["bicliques"] for key in biclique["left"]}
    assert {EVIL, "m" * 1_000_000} <= keys


def test_errors_that_quote_keys_paths_and_columns_are_safe(tmp_path: Path, evil_run: Path) -> None:
    path = tmp_path / f"{EVIL[:20]}.csv"
    path.write_text("l,r\n1,2\n", encoding="utf-8")
    for arguments in (
        ("top", evil_run, "--vertex", f"{EVIL} not there"),
        ("top", tmp_path / EVIL),
        ("enumerate", tmp_path / EVIL),
        ("enumerate", path, "--left", EVIL),
        ("enumerate", path, "--containing-left", EVIL, "--engine", "reference", "--out", tmp_path / "o"),
        ("verify", tmp_path / EVIL),
        ("run", tmp_path / EVIL),
        (f"no{EVIL}command",),
        ("top", evil_run, EVIL),
        ("top", evil_run, "--by", EVIL),
    ):
        result = mbe(*arguments)
        assert result.exit_code in (2, 3), (arguments, result.stderr)
        assert_safe(result.stderr)
        assert result.stdout == ""
    assert len(mbe("top", evil_run, "--vertex", "n" * 1_000_000).stderr) < 10_000


def test_a_defect_prints_its_traceback_safely(evil_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(EVIL)

    monkeypatch.setattr("mbe_stage.pipeline.publish.run_store.resolve_run", fail)
    result = mbe("top", evil_run)
    assert result.exit_code == app.INTERNAL_ERROR
    assert_safe(result.stderr)
    assert "\n  File " in result.stderr


def test_results_that_name_paths_are_safe(tmp_path: Path) -> None:
    path = tmp_path / f"{EVIL[:20]}.csv"
    path.write_text("l,r\n1,2\n1,3\n", encoding="utf-8")
    out = tmp_path / f"out{EVIL[:20]}"
    for arguments in (
        ("enumerate", path, "--engine", "reference", "--out", out),
        ("inspect", path, "--trial", 0),
    ):
        result = mbe(*arguments)
        assert result.exit_code == 0, result.stderr
        assert_safe(result.stdout)
        assert_safe(result.stderr)


@pytest.mark.parametrize("terminal", [True, False])
def test_log_lines_and_progress_are_safe(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    if terminal:
        monkeypatch.setattr(
            console, "Console", lambda **_: Console(file=stderr, force_terminal=True, color_system=None)
        )
    shown = console.set_up_logging(quiet=False)
    log = logging.getLogger("mbe_stage.pipeline.test_terminal")
    log.warning("read %s", EVIL)
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("failed")
    assert "verified" in stderr.getvalue()
    assert_safe(stderr.getvalue())
    display = console.ProgressDisplay(shown, False, f"measuring {EVIL}")
    if display._bar is not None:
        assert_safe(str(display._bar.tasks[0].fields["what"]))


def test_tables_of_the_demo_and_of_others_are_safe() -> None:
    group = Biclique(1, (EVIL, "m" * 1_000_000), (EVIL,), 2)
    for made in (group_table("title", "left", "right", [group]), tables.table([EVIL], [[EVIL]], title=EVIL)):
        out = io.StringIO()
        Console(file=out, width=200).print(made)
        assert_safe(out.getvalue())
        assert len(out.getvalue()) < 5_000


def test_a_message_of_the_flow_is_safe() -> None:
    pytest.importorskip("prefect")
    from mbe_stage.flows import command

    out = io.StringIO()
    with contextlib.redirect_stderr(out):
        result = CliRunner().invoke(command.app_of("enumerate"), ["--set", f"input.{EVIL}=1"])
    assert result.exit_code == 2
    assert_safe(result.stderr + out.getvalue())


def test_a_file_of_hostile_parquet_keys_through_the_whole_command(tmp_path: Path, commands: Commands) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"l": [EVIL, EVIL, "b"], "r": np.array([1, 2, 1])}), path)
    for asked in (["enumerate", path, "--engine", "reference", "--out", tmp_path / "out"], ["top", tmp_path / "out"]):
        done = commands.mbe(*asked)
        assert done.returncode == 0, done.stderr
        assert_safe(done.stdout + done.stderr)


def test_nothing_is_printed_but_through_these_functions() -> None:
    """A bare `print` of a path or a key is unsafe; `say`, `print_json` and `table` are there instead."""
    root = Path(__file__).parents[2]
    allowed = {
        "terminal.py": {"say", "print_json"},
        "bench.py": {"_main"},
        "entry.py": {"main"},
        "app.py": {"_version"},
    }
    paths = [*(root / "pipeline").rglob("*.py"), *(root / "flows").rglob("*.py")]
    assert len(paths) > 100
    for path in paths:
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and function.name not in allowed.get(path.name, ()):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) in (
                        "print",
                        "typer.echo",
                        "sys.stdout.write",
                    ):
                        assert "visible" in ast.unparse(call), f"{path.name}: {ast.unparse(call)}"
