"""The disk fills up at any moment of a run: one error, saved results are intact, and the run resumes elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mbe_stage.pipeline import RunStore, run
from tests.patience import completed
from tests.pipeline.nursery_support import RunNursery
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    IN_ROUNDS,
    assert_as_undisturbed,
    config_for,
    edges,
    in_rounds,
    is_sorted,
    output_of_run,
    undisturbed,
    values,
)

__all__ = ["edges", "undisturbed"]

# Disks mounted in it are invisible elsewhere.
IN_A_NAMESPACE = ("unshare", "-rm")


@cache
def may_mount() -> bool:
    try:
        asked = completed([*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"])
    except FileNotFoundError:
        return False
    return asked.returncode == 0


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Iterator[RunNursery]:
    nursery = RunNursery(values(tmp_path_factory.mktemp("nobody"), edges), within=IN_A_NAMESPACE)
    yield nursery
    nursery.end()


def fill_and_resume(nursery: RunNursery, staging_dir: Path, edges: Path, undisturbed: Path, share: float) -> None:
    """One round: a run on a disk with room for a share of its output, resumed on another disk."""
    needed = sum(path.stat().st_size for path in undisturbed.rglob("*") if path.is_file())
    disk, left = staging_dir / "disk", staging_dir / "left"
    disk.mkdir(parents=True)
    output = output_of_run(undisturbed)
    settings = values(disk / "out", edges, output=output, execution={"block_bytes": 5_000})
    nursery.begin(settings, disk={"directory": str(disk), "n_bytes": int(share * needed), "copy": str(left)})
    said = nursery.wait_for("refused", "done")
    assert nursery.ended() == 3
    assert said.startswith("refused 3 ")
    assert "No space left" in said
    assert RunStore(left / "out").runs() == []
    result = run(config_for(left / "out", edges, output=output), resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(left / "out")
    shutil.rmtree(staging_dir)


def fill_and_resume_there(nursery: RunNursery, staging_dir: Path, edges: Path, undisturbed: Path, share: float) -> None:
    """One round: a run on such a disk, resumed on it while it is full, and again once it is larger."""
    needed = sum(path.stat().st_size for path in undisturbed.rglob("*") if path.is_file())
    disk, left = staging_dir / "disk", staging_dir / "left"
    disk.mkdir(parents=True)
    settings = values(disk / "out", edges, output=output_of_run(undisturbed), execution={"block_bytes": 5_000})
    sizes = {"n_bytes": int(share * needed), "more_bytes": 20 * needed}
    nursery.begin(settings, disk={"directory": str(disk), "copy": str(left), **sizes})
    for _ in ("at first", "while it is full"):
        said = nursery.wait_for("refused", "done", "ended")
        assert said.startswith("refused 3 "), said
        assert "No space left" in said
    assert nursery.wait_for("refused", "done").startswith("done")
    assert nursery.ended() == 0
    (run_dir,) = RunStore(left / "out").runs()
    assert_as_undisturbed(run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(left / "out")
    shutil.rmtree(staging_dir)


@pytest.mark.skipif(not may_mount(), reason="no disk can be mounted in a namespace here")
@pytest.mark.parametrize("resumed", [fill_and_resume, fill_and_resume_there])
@IN_ROUNDS
def test_a_disk_that_is_full_at_some_moment(nursery, rounds, tmp_path, edges, undisturbed, resumed) -> None:
    in_rounds(
        rounds,
        tmp_path,
        lambda staging_dir, dice: resumed(nursery, staging_dir, edges, undisturbed, dice.uniform(0.05, 0.9)),
    )
