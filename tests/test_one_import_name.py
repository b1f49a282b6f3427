"""Everything is imported from `mbe_stage`; old names forward in a checkout only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.patience import completed
from tools.old_names import new_name

ROOT = Path(__file__).parent.parent
MOVED = re.findall(
    r"^\| `([\w.]+)` \| `([\w.]+)` \|$", (ROOT / "docs/decisions/moved.md").read_text(encoding="utf-8"), re.MULTILINE
)
BUILT_FROM = ("mbe_stage", "pipeline", "flows", "configs", "pyproject.toml", "README.md", "LICENSE")


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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as an installer does it. Building writes into the tree: a copy is built."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", built]
    completed([*build, source], check=True)
    (wheel,) = built.glob("*.whl")
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_the_wheel_has_one_package_with_all_modules(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir() if path.suffix not in (".dist-info", ".data")) == [
        "mbe_stage"
    ]
    for package, folder in (("mbe_stage", "."), ("pipeline", "pipeline"), ("flows", "flows")):
        wanted = {path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py")}
        missing = [path for path in wanted if not (installed / "mbe_stage" / folder / path).is_file()]
        assert missing == []


def test_it_works_beside_a_project_with_its_own_pipeline_and_flows(installed: Path, tmp_path: Path) -> None:
    for package in ("pipeline", "flows"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("own = True\n")
    (tmp_path / "edges.csv").write_text("left,right\na,x\na,y\nb,x\nb,y\n")
    code = (
        "import pipeline, flows\n"
        "assert pipeline.own and flows.own\n"
        "from mbe_stage.pipeline.clean.facts import InputFacts\n"
        "import mbe_stage.flows, mbe_stage.pipeline as ours\n"
        f"assert ours.__file__.startswith({str(installed)!r}), ours.__file__\n"
        "from mbe_stage.pipeline.execution.ingest import ingest\n"
        "print(ingest(ours.InputConfig(path='edges.csv')).facts.n_edges)\n"
    )
    assert in_a_new_process(code, installed, tmp_path).stdout.split() == ["4"]


def test_nothing_forwards_in_an_installation(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util, mbe_stage.pipeline, mbe_stage.flows\n"
        "print([name for name in ('pipeline', 'flows', 'tools') if importlib.util.find_spec(name)])\n"
    )
    assert in_a_new_process(code, installed, tmp_path).stdout.strip() == "[]"
