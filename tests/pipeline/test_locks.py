"""Locks on open files: one holder, waiting is reported, and a file that could not be locked is closed."""

import fcntl
import threading
from pathlib import Path

import pytest

from mbe_stage.pipeline.publish.locks import is_locked, locked
from tests.patience import PATIENCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / ".lock"
    path.touch()
    return path


def test_a_lock_ends_when_the_file_is_closed(path: Path) -> None:
    assert not is_locked(path)
    with locked(path.open("ab")):
        assert is_locked(path)
        assert is_locked(path), "checking does not release it"
    assert not is_locked(path)


@pytest.mark.parametrize("mode", ["rb", "ab"])
def test_waiting_is_reported_and_the_waiter_is_next(path: Path, mode: str) -> None:
    waits, has = threading.Event(), threading.Event()

    def take() -> None:
        with locked(path.open(mode), waits.set):
            has.set()

    second = threading.Thread(target=take, daemon=True)
    with locked(path.open(mode)):
        second.start()
        assert waits.wait(PATIENCE)
        assert not has.is_set()
    assert has.wait(PATIENCE)
    second.join(PATIENCE)
    assert not is_locked(path)


def test_a_free_lock_reports_no_waiting(path: Path) -> None:
    told = threading.Event()
    with locked(path.open("ab"), told.set):
        assert is_locked(path)
    assert not told.is_set()


@pytest.mark.parametrize("tell", [None, lambda: None])
def test_a_file_that_cannot_be_locked_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch, tell) -> None:
    def refused(_file: object, _how: int) -> None:
        raise OSError(37, "No locks available")

    file = path.open("ab")
    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="No locks"):
        locked(file, tell)
    assert file.closed


def test_a_missing_file_is_not_locked(path: Path) -> None:
    path.unlink()
    assert not is_locked(path)
    assert not path.exists(), "checking does not create it"
