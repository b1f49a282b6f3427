"""Everything is imported from `mbe_stage`; old names forward in a checkout. An installation: `test_installed.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.patience import completed
from tools.old_names import new_name

ROOT = Path(__file__).parent.parent
MOVED = re.findall(
    r"^\| `([\w.]+)` \| `([\w.]+)` \|$", (ROOT / "docs/decisions/moved.md").read_text(encoding="utf-8"), re.MULTILINE
)


def in_a_new_process(code: str, path: Path, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return completed([sys.executable, "-W", "always", "-c", code], cwd=cwd, env=environment, check=True)


def test_every_place_in_the_table_of_moves_exists() -> None:
    assert len(MOVED) > 100
    assert [new for _, new in MOVED if find_spec(new) is None] == []


def test_old_names_are_the_new_modules_in_a_checkout() -> None:
    public = {
        "pipeline": "run",
        "pipeline.config": "Config",
        "pipeline.errors": "InputError",
        "pipeline.publication": "Publication",
        "pipeline.diff": "diff_runs",
        "pipeline.publish": "RunStore",
        "pipeline.outputs.bicliques.publication": "PUBLICATION",
        "flows.enumerate": "enumerate_bicliques_flow",
    }
    code = "import importlib\n"
    for old, name in public.items():
        code += f"from {old} import {name} as old\nassert old is importlib.import_module({new_name(old)!r}).{name}\n"
    done = in_a_new_process(code, ROOT, ROOT)
    assert done.stderr.count("DeprecationWarning: import mbe_stage.pipeline: the name pipeline goes") == 1
    assert done.stderr.count("DeprecationWarning: import mbe_stage.flows: the name flows goes") == 1


def test_an_old_name_runs_as_a_program_in_a_checkout() -> None:
    pytest.importorskip("prefect")
    done = completed([sys.executable, "-m", "flows.enumerate", "--help"], cwd=ROOT, check=True)
    assert "python -m mbe_stage.flows.enumerate --input edges.csv" in " ".join(done.stdout.split())


def test_an_old_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pipeline\.nothing"):
        __import__("pipeline.nothing")
