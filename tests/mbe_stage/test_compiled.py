"""Compiled kernels do not outlive the sources they were made from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mbe_stage.compiled as compiled_module
from mbe_stage.compiled import drop_stale_code

CALLEE = "from numba import njit\n\n@njit(inline='always')\ndef figure():\n    return {}\n"
CALLER = """from numba import njit
from toy.callee import figure

@njit(cache=True)
def answer():
    return figure()
"""
INIT = """from pathlib import Path
from mbe_stage.compiled import drop_stale_code
removed = drop_stale_code(Path(__file__).parent)
"""


def make(package: Path) -> None:
    package.mkdir()
    (package / "__init__.py").write_text(INIT)
    (package / "callee.py").write_text(CALLEE.format(1))
    (package / "caller.py").write_text(CALLER)


def answer(package: Path) -> list[int]:
    """Files removed, and what the compiled function gives, in a process of its own."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); import toy, toy.caller; "
    code += "print(toy.removed, toy.caller.answer())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def test_a_changed_callee_is_compiled_anew(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    make(package)
    assert answer(package) == [0, 1]
    # Kept as long as nothing changes.
    assert answer(package) == [0, 1]
    (package / "callee.py").write_text(CALLEE.format(2))
    removed, value = answer(package)
    assert removed >= 2
    assert value == 2


def test_nothing_is_touched_where_this_user_may_not_write(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "toy"
    make(package)
    (package / "__pycache__").mkdir()
    kept = package / "__pycache__" / "caller.answer-4.py311.nbi"
    kept.write_bytes(b"x")
    monkeypatch.setattr(compiled_module.os, "access", lambda *_: False)
    assert drop_stale_code(package) == 0
    assert [path.name for path in (package / "__pycache__").iterdir()] == [kept.name]
