"""Temporary directories that stand in for addresses: named by address, removed by their owner or by the next one."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mbe_stage.pipeline.errors import RunIsBeingWritten
from mbe_stage.pipeline.stores import local_copies as mirrors
from mbe_stage.pipeline.stores.address import Address
from mbe_stage.pipeline.stores.local_copies import (
    LocalCopies,
    address_of,
    adopt,
    local_path,
    remove_staging,
    unfinished_staging,
)
from tests.patience import completed

PLACE = Address("s3://bucket", "a/out")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_paths_within_are_called_by_the_address(temporary: Path) -> None:
    with LocalCopies(PLACE) as copies:
        run = copies.root / "runs" / "x"
        run.mkdir(parents=True)
        assert address_of(run) == "s3://bucket/a/out/runs/x"
        assert local_path("s3://bucket/a/out/runs/x") == run
        assert address_of(temporary) == str(temporary)
        error = copies.naming(ValueError(f"{run}/t.parquet: damaged"))  # type: ignore[arg-type]  # any error
        assert str(error) == "s3://bucket/a/out/runs/x/t.parquet: damaged"
    assert list(temporary.iterdir()) == []


def test_it_is_removed_with_its_owner(temporary: Path) -> None:
    copies = LocalCopies(PLACE)
    assert copies.root.is_dir()
    del copies
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_only_leftovers_of_killed_processes_are_removed(temporary: Path) -> None:
    code = (
        f"import os, tempfile; tempfile.tempdir = {str(temporary)!r}; "
        "from mbe_stage.pipeline.stores.address import Address; "
        "from mbe_stage.pipeline.stores.local_copies import LocalCopies; "
        "m = LocalCopies(Address('s3://b', '')); os._exit(9)"
    )
    assert completed([sys.executable, "-c", code]).returncode == 9
    (left,) = temporary.iterdir()
    (temporary / "mbe-store-file").write_text("no directory")
    with LocalCopies(PLACE) as alive:
        # The directory may be brand new, so it stays.
        assert left.exists()
        before = time.time() - 3600
        for root in (left, alive.root):
            os.utime(root / ".lock", (before, before))
        with LocalCopies(PLACE):
            assert not left.exists()
            assert alive.root.exists()
    assert [path.name for path in temporary.iterdir()] == ["mbe-store-file"]
    shutil.rmtree(temporary)


def test_leftovers_that_another_writer_removes_first(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots_of = mirrors._roots_of

    def found(address: Address) -> list[Path]:
        """Return a list of directories that is out of date."""
        roots = roots_of(address)
        other.close()
        return roots

    monkeypatch.setattr(mirrors, "_roots_of", found)
    with LocalCopies(PLACE) as copies:
        other = LocalCopies(PLACE)
        assert remove_staging(PLACE, 0.0) == []
        assert list(temporary.iterdir()) == [copies.root]


# --- foreign content ----------------------------------------------------------------------------------------------

ROOM = "20200101T000000Z-aaaaaa"


def made(root: Path) -> Path:
    """Make the leftovers of a process killed an hour ago, with an old staging directory."""
    (root / f".staging/{ROOM}/{ROOM}").mkdir(parents=True)
    (root / "runs").mkdir()
    (root / "thesis.tex").write_text("years of work")
    (root / ".address").write_text(str(PLACE))
    root.chmod(0o700)
    old = time.time() - 30 * 86_400
    for name in (".lock", f".staging/{ROOM}/journal"):
        (root / name).touch()
        os.utime(root / name, (old, old))
    return root


def everything(place: Path) -> list[Path]:
    return sorted(place.rglob("*"))


def use_all() -> None:
    """Call every function that looks at such directories."""
    with LocalCopies(PLACE):
        assert unfinished_staging(PLACE) == []
        assert remove_staging(PLACE, 0.0) == []


def test_our_leftovers_are_removed(temporary: Path) -> None:
    """Without this, the tests below would prove nothing."""
    made(temporary / "mbe-store-ours")
    with LocalCopies(PLACE) as copies:
        assert everything(temporary) == [copies.root, *everything(copies.root)]


def test_a_link_is_not_followed(temporary: Path) -> None:
    victim = made(temporary / "home")
    (temporary / "mbe-store-link").symlink_to(victim)
    before = everything(temporary)
    use_all()
    assert everything(temporary) == before


def test_the_directory_of_another_user_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(temporary / "mbe-store-theirs")
    before = everything(temporary)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert unfinished_staging(PLACE) == []
        assert remove_staging(PLACE, 0.0) == []
        mirrors._remove_leftovers(temporary)
    assert everything(temporary) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives directories away")
def test_root_leaves_the_directory_of_another_user_alone(temporary: Path) -> None:
    """Its lock and staging directory are links to root's files."""
    victim, theirs = made(temporary / "home"), temporary / "mbe-store-theirs"
    theirs.mkdir(mode=0o700)
    (theirs / ".lock").symlink_to(victim / ".lock")
    (theirs / ".staging").symlink_to(victim / ".staging")
    (theirs / ".address").symlink_to(victim / ".address")
    (theirs / "theirs").mkdir()
    os.chown(theirs, 65534, 65534)
    before = everything(temporary)
    use_all()
    assert everything(temporary) == before


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o1777])
def test_a_directory_in_which_others_may_write_is_left_alone(temporary: Path, mode: int) -> None:
    made(temporary / "mbe-store-open").chmod(mode)
    before = everything(temporary)
    use_all()
    assert everything(temporary) == before


@pytest.mark.parametrize("name", [".staging", "runs", f".staging/{ROOM}", ".lock"])
def test_links_in_a_directory_of_ours_are_not_followed(temporary: Path, name: str) -> None:
    victim, ours = made(temporary / "home"), made(temporary / "mbe-store-ours")
    if (ours / name).is_dir():
        shutil.rmtree(ours / name)
    else:
        (ours / name).unlink()
    target = victim if name != ".lock" else victim / ".lock"
    (ours / name).symlink_to(target)
    before = everything(victim)
    old = time.time() - 3600
    os.utime(ours / name, (old, old), follow_symlinks=False)
    use_all()
    assert everything(victim) == before
    assert not ours.exists()


def test_a_directory_swapped_for_a_link_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapped between the check of its lock and its removal, as is possible if `TMPDIR` is not sticky."""
    victim, ours = made(temporary / "home"), made(temporary / "mbe-store-ours")
    before, real = everything(victim), mirrors.is_locked

    def swap(*given: object) -> bool:
        found = real(*given)  # type: ignore[arg-type]  # as it was called
        if not ours.is_symlink():
            ours.rename(temporary / "aside")
            ours.symlink_to(victim)
        return found

    monkeypatch.setattr(mirrors, "is_locked", swap)
    with LocalCopies(PLACE):
        pass
    assert everything(victim) == before
    assert not (temporary / "aside/thesis.tex").exists()


def test_leftovers_without_a_lock_are_removed(temporary: Path) -> None:
    young, old = temporary / "mbe-store-young", temporary / "mbe-store-old"
    for root in (young, old):
        root.mkdir(mode=0o700)
    os.utime(old, (time.time() - 3600,) * 2)
    with LocalCopies(PLACE):
        assert young.exists()
        assert not old.exists()


def test_a_staging_directory_taken_by_another_process(temporary: Path) -> None:
    staging_dir = temporary / f"mbe-store-gone/.staging/{ROOM}"
    with pytest.raises(RunIsBeingWritten):
        adopt(staging_dir, temporary / "place")
    made(staging_dir.parents[1])
    adopt(staging_dir, temporary / "new/place")
    assert (temporary / "new/place/journal").exists()
    assert not staging_dir.parents[1].exists()
