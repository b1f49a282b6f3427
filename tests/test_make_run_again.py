"""`make run` after `make test` removes nothing: our Makefile and tools/install.py with a small project, offline.

pip is the real one. The project and its requirements are tiny wheels written here.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.patience import completed
from tools.install import _LOADED

ROOT = Path(__file__).resolve().parents[1]

PYPROJECT = """
[project]
name = "mbe-stage"
version = "1"

[dependency-groups]
dev = ["tested"]
cuda-compile = ["compiled"]

[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """
import shutil
from pathlib import Path

def build_editable(directory, *_):
    (wheel,) = Path("project").glob("*.whl")
    return Path(shutil.copy(wheel, directory)).name
"""
PROJECT = """Provides-Extra: flows
Requires-Dist: needed
Requires-Dist: scheduled; extra == "flows"
"""


def write_wheel(folder: Path, name: str, files: dict[str, str], metadata: str = "") -> None:
    folder.mkdir(exist_ok=True)
    about = f"{name}-1.dist-info"
    files = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{about}/RECORD": ""}.items():
            wheel.writestr(path, text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the files that the Makefile, tools/install.py and pip read."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "backend.py").write_text(BACKEND)
    for name in ("needed", "scheduled", "tested", "compiled"):
        write_wheel(tmp_path / "wheels", name, {f"{name}.py": ""})
    modules = {f"{module.replace('.', '/')}.py": "" for module in _LOADED}
    mbe = {"mbe_stage-1.dist-info/entry_points.txt": "[console_scripts]\nmbe = called:main\n"}
    write_wheel(tmp_path / "project", "mbe_stage", {**modules, **mbe, "called.py": "def main(): pass\n"}, PROJECT)
    return tmp_path


def installed(project: Path) -> set[str]:
    return {path.name for path in project.glob(".venv/lib/*/site-packages/*.dist-info")}


@pytest.mark.slow
def test_make_run_after_make_test_removes_nothing(project: Path) -> None:
    # Clear the variables of the process that runs the tests.
    others = ("PIP_", "PYTHON", "MAKE", "MFLAGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project / "wheels"), "PIP_CONFIG_FILE": os.devnull}

    def make(target: str) -> str:
        command = ["make", target, f"PYTHON={sys.executable}"]
        return completed(command, check=True, cwd=project, env={**kept, **offline}).stdout

    make("run")
    to_run = installed(project)
    assert {"mbe_stage-1.dist-info", "needed-1.dist-info"} <= to_run
    # The first installation of `make check` and `make test`.
    make(".venv/.ready-to-test")
    to_test = installed(project)
    assert to_test - to_run == {f"{name}-1.dist-info" for name in ("scheduled", "tested", "compiled")}
    assert "installing" not in make("run")
    # Also if something has to be installed.
    stamp = (project / ".venv" / ".ready-to-run").stat().st_mtime
    os.utime(project / "pyproject.toml", (stamp + 1, stamp + 1))
    assert "installing . into" in make("run")
    assert installed(project) == to_test
