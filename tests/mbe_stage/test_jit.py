"""Machine code is kept for later processes: found by matching ones, and by no others."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mbe_stage.runtime import code_cache, jit
from tests.patience import completed

ROOT = Path(__file__).resolve().parents[2]

CALLEE = "from numba import njit\n\n@njit(inline='always')\ndef figure():\n    return {}\n"
CALLER = """
from numba import float64, int64
from mbe_stage.runtime.jit import compiled
from toy.callee import figure

@compiled(variants={"whole": (int64,), "real": (float64,)})
def add(number):
    return number + figure()
"""
# Entries kept before, the result of `add`, and the number of Numba's compilations.
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from numba.core import event
from mbe_stage.runtime.jit import steps_of
from toy.caller import add
with event.install_recorder("numba:compile") as recorder:
    kept = [step.is_kept() for step in steps_of(add)]
    value = add(json.loads(sys.argv[2]))
print(json.dumps([kept, value, len(recorder.buffer) // 2]))
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return a package whose function calls one in another file."""
    package = tmp_path / "sources" / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "callee.py").write_text(CALLEE.format(1))
    (package / "caller.py").write_text(CALLER)
    return package


def added(package: Path, number: float, cache: Path | None, **variables: str) -> list[object]:
    """Run `PROGRAM` in a new process."""
    given = {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = completed(
        [sys.executable, "-c", PROGRAM, package.parent, json.dumps(number)],
        env={**kept, "PYTHONPATH": str(ROOT), **given, **variables},
        check=True,
    )
    return json.loads(done.stdout)


def test_code_is_found_by_its_types(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert added(toy, 1, cache) == [[False, False], 2, 1]
    assert added(toy, 1, cache) == [[True, False], 2, 0]
    assert added(toy, 0.5, cache) == [[True, False], 1.5, 1]
    assert added(toy, 0.5, cache) == [[True, True], 1.5, 0]


def test_a_changed_callee_is_recompiled_in_any_cache(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert added(toy, 1, cache)[1] == 2
    (toy / "callee.py").write_text(CALLEE.format(5))
    # Python recognises a changed file by its size and its second.
    os.utime(toy / "callee.py", (time.time() + 2,) * 2)
    assert added(toy, 1, cache) == [[False, False], 6, 1]


def test_processors_share_a_directory(toy: Path, tmp_path: Path) -> None:
    """Each finds its own code and never another's."""
    cache = tmp_path / "cache"
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert added(toy, 1, cache) == [[False, False], 2, 1]
    assert added(toy, 1, cache, **other) == [[False, False], 2, 1]
    assert added(toy, 1, cache) == [[True, False], 2, 0]
    assert added(toy, 1, cache, **other) == [[True, False], 2, 0]


def test_a_damaged_file_is_recompiled(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    added(toy, 1, cache)
    [file] = cache.rglob("*.code")
    file.write_bytes(file.read_bytes()[:-1])
    assert added(toy, 1, cache)[1:] == [2, 1]
    assert added(toy, 1, cache)[1:] == [2, 0]


def test_without_a_cache_it_works_and_warns(toy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("no directory")
    assert added(toy, 1, cache)[1:] == [2, 1]
    assert added(toy, 1, cache)[1:] == [2, 1]


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return two directories in place of those next to the sources and of the user."""
    two = tmp_path / "beside", tmp_path / "user"
    monkeypatch.setattr(code_cache, "_roots", lambda: two)
    return two


def test_read_only_directories_are_read_and_the_next_is_written(
    roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    code_cache.keep("one", b"made when the image was")
    replace = code_cache._replace

    def refuse(path: Path, content: bytes) -> None:
        if path.is_relative_to(roots[0]):
            raise PermissionError(13, "Permission denied")
        replace(path, content)

    monkeypatch.setattr(code_cache, "_replace", refuse)
    code_cache.keep("two", b"made later")
    assert [len(list(root.rglob("two"))) for root in roots] == [0, 1]
    assert code_cache.kept("one") == b"made when the image was"
    assert code_cache.kept("two") == b"made later"


def test_a_configured_directory_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    [directory] = code_cache.cache_directories()
    assert directory.is_relative_to(tmp_path)


def test_a_user_without_a_home_has_no_directory_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and no account of that number, as in containers."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    [directory] = code_cache.cache_directories()
    assert directory.is_relative_to(ROOT / "mbe_stage" / "__pycache__")


@pytest.mark.usefixtures("roots")
def test_few_directories_of_other_sources_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last used of twenty states of the sources stay."""
    # A checkout of that name, in the directory given as the cache.
    beside = code_cache.cache_directories()[0].parent / ".git"
    beside.mkdir(parents=True)
    for state in range(20):
        monkeypatch.setattr(code_cache, "_digest", lambda _sources, state=state: f"{state:020x}")
        code_cache.keep("code", b"")
        directory = code_cache.cache_directories()[0]
        os.utime(directory, (state, state))
    left = sorted(path.name for path in directory.parent.iterdir())
    assert left == [".git", *(f"{state:020x}" for state in range(4, 20))]
    assert len(code_cache.clear()) == 16
    assert list(directory.parent.iterdir()) == [beside]
    beside.rmdir()
    code_cache.keep("code", b"")
    assert code_cache.clear() == [directory]
    assert not directory.parent.exists()


@pytest.mark.usefixtures("roots")
def test_a_directory_in_use_counts_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (*range(16), 0):
        monkeypatch.setattr(code_cache, "_digest", lambda _sources, state=state: f"{state:020x}")
        if code_cache.kept("code") is None:
            code_cache.keep("code", b"")
            os.utime(code_cache.cache_directories()[0], (state, state))
    monkeypatch.setattr(code_cache, "_digest", lambda _sources: "f" * 20)
    code_cache.keep("code", b"")
    left = {path.name for path in code_cache.cache_directories()[0].parent.iterdir()}
    assert left == {*(f"{state:020x}" for state in (0, *range(2, 16))), "f" * 20}


def test_indices_are_not_checked_for_their_sign_without_allocation() -> None:
    def entry(numbers: np.ndarray, table: np.ndarray, k: int) -> int:
        numbers[k] = table[k, k]
        return numbers[numbers[k]]

    selections = []
    for nrt in (True, False):
        function = jit.compiled(nrt=nrt)(entry)
        function._cache.disable()
        assert function(np.array([0, 5, 7]), np.array([[0, 0], [0, 2]]), 1) == 7
        selections.append(function.inspect_llvm(function.signatures[0]).count(" select "))
    assert selections[0] > selections[1] == 0
