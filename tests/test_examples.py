"""The examples run as they are shown, and say what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    "compare_runs.py": [
        "new: ann, bob, cid at shop 1, shop 2",
        "new: cid at shop 1, shop 2, shop 3",
        "new: cid, dee at shop 3",
    ],
}


def test_every_example_is_tested() -> None:
    # Those of the GPU are run by tests/rapids.
    on_host = {path.name for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("rapids_")}
    assert on_host == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(tmp_path: Path, name: str) -> None:
    arguments = [] if name == "arrays.py" else [str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, f"examples/{name}", *arguments],
        cwd=ROOT,
        # So that a checkout which is not installed works too.
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(EXPECTED[name])] == EXPECTED[name]
