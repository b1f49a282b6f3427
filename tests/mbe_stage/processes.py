"""Run test modules as scripts, because they replace whole libraries."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.commands import Commands
from tests.patience import completed

__all__ = ["run_module", "run_module_alone"]

_ROOT = Path(__file__).parents[2]
_MODULE = """
import runpy, sys
name, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""


@functools.cache
def _libraries() -> Commands:
    """Start the process that forks those of this process's tests."""
    directory = Path(tempfile.mkdtemp(prefix="mbe-modules-"))
    made = Commands(directory, "libraries")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(made.end)
    return made


def run_module(name: str, *arguments: str) -> str:
    """Return the output of a test module run as a script, in a fork of a process that has imported libraries only."""
    name = name if "." in name else f"tests.mbe_stage.{name}"
    done = _libraries().python(_MODULE, _ROOT, os.environ | {"PYTHONPATH": str(_ROOT)}, name, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_module_alone(name: str, *arguments: str) -> str:
    """Return the output of a test module run as a script in a new interpreter."""
    done = completed(
        [sys.executable, "-m", name if "." in name else f"tests.mbe_stage.{name}", *arguments],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
