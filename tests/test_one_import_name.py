"""Everything is imported from `mbe_stage`; old names forward in a checkout only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.patience import completed
from tools.old_names import moved, new_places

ROOT = Path(__file__).parent.parent
# The public names of the version before, by module: never changed, and removed with the old names.
PUBLIC = {
    line.split()[0]: line.split()[1:]
    for line in (ROOT / "tests/public_names.txt").read_text(encoding="utf-8").splitlines()
}
OLD_MODULES = sorted(old for old in {*moved(), *PUBLIC} if ":" not in old and new_places(old) != [old])
# Modules that need a package which is not installed here cannot be imported by their new name either.
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
BUILT_FROM = ("mbe_stage", "pipeline", "flows", "configs", "pyproject.toml", "README.md", "LICENSE")


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


def test_an_old_name_runs_as_a_program_in_a_checkout() -> None:
    pytest.importorskip("prefect")
    done = completed([sys.executable, "-m", "flows.enumerate", "--help"], cwd=ROOT, check=True)
    assert "python -m mbe_stage.flows.enumerate --input edges.csv" in " ".join(done.stdout.split())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("old", ["pipeline.nothing", "mbe_stage.nothing", "pipeline.cli.nothing", "pipeline.top.x"])
def test_an_old_name_that_never_was_is_not_found(old: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(old)):
        __import__(old)


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
        "import importlib, mbe_stage.pipeline, mbe_stage.flows\n"
        "found = []\n"
        f"for old in {['tools', *OLD_MODULES]}:\n"
        "    try:\n"
        "        importlib.import_module(old)\n"
        "        found.append(old)\n"
        "    except ModuleNotFoundError:\n"
        "        pass\n"
        f"assert mbe_stage.__file__.startswith({str(installed)!r}), mbe_stage.__file__\n"
        "print(found)\n"
    )
    assert in_a_new_process(code, installed, tmp_path).stdout.strip() == "[]"
