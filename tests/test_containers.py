"""``examples/containers``: without a container engine, the steps of the image run one by one."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from mbe_stage.pipeline import read_manifest
from tests.patience import completed
from tests.test_installed import BUILT_FROM

ROOT = Path(__file__).parent.parent
CONTAINERS = ROOT / "examples" / "containers"
DOCKERFILE = (CONTAINERS / "Dockerfile").read_text(encoding="utf-8")
# Steps of the image, by the stage that `cpu` copies from.
STAGES = ("wheel", "build-cpu")


def stage(name: str) -> str:
    (found,) = re.findall(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    return str(found)


def pod(kind: str) -> dict[str, Any]:
    made = yaml.safe_load((CONTAINERS / f"{kind}.yaml").read_text(encoding="utf-8"))
    job = made["spec"]["jobTemplate"] if kind == "cronjob" else made
    return dict(job["spec"]["template"]["spec"])


@pytest.mark.parametrize("name", ["cpu", "cuda13"])
def test_an_image_runs_as_any_user_and_writes_to_tmp_only(name: str) -> None:
    lines = stage(name)
    assert "USER 10001:10001\n" in lines
    assert "ENV HOME=/tmp " in lines
    assert 'ENTRYPOINT ["mbe"]' in lines
    assert "RUN" not in lines


def test_the_context_of_the_image_has_all_sources_of_the_wheel() -> None:
    ignored = (CONTAINERS / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert {f"!{name}" for name in (*BUILT_FROM, "MANIFEST.in")} <= {*ignored}


def test_job_and_cron_job_run_the_same_pod() -> None:
    assert pod("job") == pod("cronjob")
    (container,) = pod("job")["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}} in pod("job")["volumes"]


@pytest.mark.slow
def test_linters_and_schemas_accept_them(tmp_path: Path) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    completed([str(programs / "python"), "-m", "pip", "install", "--quiet", *groups["containers"]], check=True)
    completed([str(programs / "hadolint"), str(CONTAINERS / "Dockerfile")], check=True)
    for kind in ("job", "cronjob"):
        completed([str(programs / "kubernetes-validate"), "--strict", str(CONTAINERS / f"{kind}.yaml")], check=True)


@pytest.mark.slow
def test_the_steps_of_the_image_make_a_command_that_runs(tmp_path: Path) -> None:
    ignored = (CONTAINERS / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    (tmp_path / "src").mkdir()
    for name in (line[1:] for line in ignored if line.startswith("!")):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        options = {"symlinks": True, "ignore": shutil.ignore_patterns("__pycache__")} if (ROOT / name).is_dir() else {}
        copy(ROOT / name, tmp_path / "src" / name, **options)
    home = tmp_path / "tmp"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "MBE"))}
    environment = kept | {"HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    for name in STAGES:
        for line in re.findall(r"^RUN (.*)$", stage(name), re.MULTILINE):
            here = re.sub(r"/(src|wheels|opt)\b", rf"{tmp_path}/\1", line)
            completed(["sh", "-c", here], check=True, env=environment, cwd=tmp_path)
    # The final stage has this folder and no checkout.
    shutil.rmtree(tmp_path / "src")
    shutil.rmtree(home)
    home.mkdir()
    (tmp_path / "edges.csv").write_text("left,right\na,x\na,y\nb,x\n")
    command = [str(tmp_path / "opt" / "mbe" / "bin" / "mbe"), "enumerate", "edges.csv", "--out", "out"]
    done = completed(command, check=True, env=environment, cwd=tmp_path)
    assert read_manifest(tmp_path / "out" / "latest").counts.bicliques == 2
    assert "compiling" not in done.stderr
    assert not list(home.iterdir())
