"""The examples run as shown and print the expected output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.patience import completed
from tests.pipeline.diff_support import group, make_run

ROOT = Path(__file__).parent.parent

EXPECTED = {
    "arrays.py": [
        "Ada, Ben, Cleo share graphs, logic",
        "4 maximal bicliques of any size",
    ],
    "whole_job.py": [
        "3 groups, 1 duplicate edge merged",
        "ann, bob all bought milk, oats, tea",
        "ann, bob, cid all bought oats, tea",
        "milk is in 2 groups",
    ],
    "groups_of_purchases.py": [
        " rank  accounts  purchases  amount",
        "    1         6         72 4385.44",
        "the same in DuckDB",
    ],
    "compare_runs.py": [
        "new: cid at shop 1, shop 2, shop 3",
        "grown: ann, bob, cid at shop 1, shop 2 (before: ann, bob)",
        "grown: cid, dee at shop 3 (before: cid)",
    ],
}


def test_every_example_is_tested() -> None:
    # tests/rapids runs those for GPUs.
    on_host = {path.name for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("rapids_")}
    assert on_host == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(tmp_path: Path, name: str, commands: Commands) -> None:
    # The first takes no arguments; the last, an output directory with runs.
    arguments = [] if name in ("arrays.py", "compare_runs.py") else [str(tmp_path / "out")]
    # The first runs as a user starts it.
    done = example(name, *arguments, commands=None if name == "arrays.py" else commands)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(EXPECTED[name])] == EXPECTED[name]


def test_comparing_runs_does_not_change_them(tmp_path: Path, commands: Commands) -> None:
    make_run(tmp_path / "runs" / "1", [group("ab", "x")])
    make_run(tmp_path / "runs" / "2", [group("abc", "x")])
    (tmp_path / "latest").symlink_to("runs/2")
    before = sorted(tmp_path.rglob("*"))
    done = example("compare_runs.py", str(tmp_path), commands=commands)
    assert done.stdout == "grown: a, b, c at x (before: a, b)\n"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_without_two_runs_is_refused_and_nothing_is_written(tmp_path: Path, commands: Commands) -> None:
    done = example("compare_runs.py", str(tmp_path / "out"), commands=commands)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (1, "", [])
    assert "expected two at least" in done.stderr


def example(name: str, *arguments: str, commands: Commands | None) -> subprocess.CompletedProcess[str]:
    """Run it in a new process, or in a forked one."""
    # So that a checkout without an installation works too.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if commands is None:
        return completed([sys.executable, f"examples/{name}", *arguments], cwd=ROOT, env=environment)
    file = ROOT / "examples" / name
    return commands.python(file.read_text(encoding="utf-8"), ROOT, environment, *arguments, file=str(file))
