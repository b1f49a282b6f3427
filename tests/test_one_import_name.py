"""Everything is imported from `mbe_stage`; old names forward in a checkout. Installations: `test_installed.py`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import completed
from tools.old_names import moved, new_places

ROOT = Path(__file__).parent.parent
# Public names of the previous version, by module: never changed, and removed with the old names.
PUBLIC = {
    line.split()[0]: line.split()[1:]
    for line in (ROOT / "tests/public_names.txt").read_text(encoding="utf-8").splitlines()
}
OLD_MODULES = sorted(old for old in {*moved(), *PUBLIC} if ":" not in old and new_places(old) != [old])
# Modules that need a missing package cannot be imported by their new name either.
OPTIONAL = ("cupy", "cudf", "pylibcudf", "rmm", "prefect")
IMPORT_ALL = f"""
import importlib, json, sys
wanted, failed, skipped = json.loads(sys.argv[1]), [], []
for old, (places, names) in wanted.items():
    try:
        new = [importlib.import_module(place) for place in places]
    except ModuleNotFoundError as error:
        (skipped if str(error.name).partition(".")[0] in {OPTIONAL} else failed).append(f"{{old}}: {{error}}")
        continue
    try:
        module = importlib.import_module(old)
    except ImportError as error:
        failed.append(f"{{old}}: {{error}}")
        continue
    failed += [f"{{old}}: no {{name}}" for name in names if not hasattr(module, name)]
    kept = [(name, value) for name, value in vars(new[0]).items() if name[0] != "_" and type(value) is not type(sys)]
    failed += [f"{{old}}.{{name}} is another" for name, value in kept if getattr(module, name, None) is not value]
print(json.dumps([failed, skipped]))
"""


def in_a_new_process(code: str, path: Path, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return completed([sys.executable, "-W", "always", "-c", code], cwd=cwd, env=environment, check=True)


def test_old_names_forward_in_a_checkout() -> None:
    wanted = {old: (new_places(old), PUBLIC.get(old, [])) for old in sorted({*OLD_MODULES, *PUBLIC})}
    assert len(wanted) > 300
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, json.dumps(wanted)]
    failed, skipped = json.loads(completed(command, cwd=ROOT, check=True).stdout)
    assert failed == []
    assert len(skipped) < len(wanted) / 4, skipped


def test_an_old_name_warns_where_it_is_imported() -> None:
    code = "import pipeline.publication\nfrom pipeline.publication import Told\nfrom mbe_stage.jit import compiled\n"
    expected = [
        ("pipeline", "'mbe_stage.pipeline'", 1),
        ("pipeline.publication", "'mbe_stage.pipeline.problems.base'", 1),
        ("mbe_stage.jit", "'mbe_stage.runtime.jit'", 3),
    ]
    assert in_a_new_process(code, ROOT, ROOT).stderr.splitlines() == [
        f"<string>:{line}: DeprecationWarning: '{old}' is renamed to {new}; the old name is removed in 0.2"
        for old, new, line in expected
    ]


def test_an_old_import_leaves_new_packages_as_they_are() -> None:
    code = (
        "import pipeline.config, mbe_stage.pipeline.config.section, mbe_stage.pipeline as new\n"
        "assert new.config.__name__ == 'mbe_stage.pipeline.config', new.config\n"
        "assert pipeline.config.Config is new.Config\n"
    )
    in_a_new_process(code, ROOT, ROOT)


@pytest.mark.slow
def test_an_old_name_runs_as_a_program_in_a_checkout() -> None:
    pytest.importorskip("prefect")
    done = completed([sys.executable, "-m", "flows.enumerate", "--help"], cwd=ROOT, check=True)
    assert "python -m mbe_stage.flows.enumerate --input edges.csv" in " ".join(done.stdout.split())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("old", ["pipeline.nothing", "mbe_stage.nothing", "pipeline.cli.nothing", "pipeline.top.x"])
def test_an_unknown_old_name_is_not_found(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(old)):
        __import__(old)
