"""A disk that is full at any moment of a run: one error, what is kept is whole, and the run goes on elsewhere."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from pipeline import RunStore, run
from tests.patience import completed
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    assert_as_undisturbed,
    config_for,
    edges,
    is_sorted,
    output_of_run,
    undisturbed_as_found,
    values,
)

__all__ = ["edges", "undisturbed_as_found"]

ROOT = Path(__file__).parents[2]
# What is left at the end is copied before the disk goes with its namespace.
ON_A_SMALL_DISK = """
mount -t tmpfs -o size="$1" none "$2" || exit 99
echo | "$4" -m tests.pipeline.crash_child "$5" "$6" slow-blocks
code=$?
cp -a "$2/." "$3"
exit $code
"""


@cache
def may_mount() -> bool:
    try:
        asked = completed(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"])
    except FileNotFoundError:
        return False
    return asked.returncode == 0


def on_a_disk_of(n_bytes: int, disk: Path, left: Path, edges: Path, output: dict) -> tuple[int, str]:
    """A run in a process of its own that writes to such a disk; its exit code, and what it says last."""
    config = json.dumps(values(disk / "out", edges, output=output))
    given = [str(n_bytes), disk, left, sys.executable, config, edges]
    done = completed(
        ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, "sh", *given],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.mark.skipif(not may_mount(), reason="no disk can be mounted in a namespace here")
@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_a_disk_that_is_full_at_some_moment(rounds, tmp_path, edges, undisturbed) -> None:
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    output = output_of_run(undisturbed)
    needed = sum(path.stat().st_size for path in undisturbed.rglob("*") if path.is_file())
    for number in range(rounds):
        room = tmp_path / str(number)
        disk, left = room / "disk", room / "left"
        disk.mkdir(parents=True)
        left.mkdir()
        share = dice.uniform(0.05, 0.95)
        code, said = on_a_disk_of(int(share * needed), disk, left, edges, output)
        store, why = RunStore(left / "out"), f"round {number} of seed {seed}, {share:.2f} of what is needed"
        assert code == 3, why
        assert said.startswith("refused 3 "), why
        assert "No space left" in said, why
        assert store.runs() == [], why
        result = run(config_for(left / "out", edges, output=output), resume=True)
        assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
        assert_nothing_staged(left / "out")
        shutil.rmtree(room)
