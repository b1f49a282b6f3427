"""Temporary directories in the place of addresses: named by these, removed with their owner or by the next one."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pipeline.stores import mirror as mirrors
from pipeline.stores.address import Address
from pipeline.stores.mirror import Mirror, address_of, local_path, remove_rooms
from tests.patience import completed

PLACE = Address("s3://bucket", "a/out")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_paths_within_are_called_by_the_address(temporary: Path) -> None:
    with Mirror(PLACE) as mirror:
        run = mirror.root / "runs" / "x"
        run.mkdir(parents=True)
        assert address_of(run) == "s3://bucket/a/out/runs/x"
        assert local_path("s3://bucket/a/out/runs/x") == run
        assert address_of(temporary) == str(temporary)
        error = mirror.naming(ValueError(f"{run}/t.parquet: damaged"))  # type: ignore[arg-type]  # any error
        assert str(error) == "s3://bucket/a/out/runs/x/t.parquet: damaged"
    assert list(temporary.iterdir()) == []


def test_it_is_removed_with_its_owner(temporary: Path) -> None:
    mirror = Mirror(PLACE)
    assert mirror.root.is_dir()
    del mirror
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(temporary: Path) -> None:
    code = (
        f"import os, tempfile; tempfile.tempdir = {str(temporary)!r}; from pipeline.stores.address import Address; "
        "from pipeline.stores.mirror import Mirror; m = Mirror(Address('s3://b', '')); os._exit(9)"
    )
    assert completed([sys.executable, "-c", code]).returncode == 9
    (left,) = temporary.iterdir()
    (temporary / "mbe-store-file").write_text("no directory")
    with Mirror(PLACE) as alive:
        # It may only just have been made.
        assert left.exists()
        before = time.time() - 3600
        for root in (left, alive.root):
            os.utime(root / ".lock", (before, before))
        with Mirror(PLACE):
            assert not left.exists()
            assert alive.root.exists()
    assert [path.name for path in temporary.iterdir()] == ["mbe-store-file"]
    shutil.rmtree(temporary)


def test_what_another_writer_of_the_address_removes_meanwhile_is_no_error(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots_of = mirrors._roots_of

    def found(address: Address) -> list[Path]:
        """The directories that were there a moment ago."""
        roots = roots_of(address)
        other.close()
        return roots

    monkeypatch.setattr(mirrors, "_roots_of", found)
    with Mirror(PLACE) as mirror:
        other = Mirror(PLACE)
        assert remove_rooms(PLACE, 0.0) == []
        assert list(temporary.iterdir()) == [mirror.root]
