"""Run test modules as scripts, because they replace whole libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.patience import completed

__all__ = ["run_module"]

_ROOT = Path(__file__).parents[2]


def run_module(name: str, *arguments: str) -> str:
    """Return the output of a test module run as a script in a new process."""
    done = completed(
        [sys.executable, "-m", name if "." in name else f"tests.mbe_stage.{name}", *arguments],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
