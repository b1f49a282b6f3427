"""The flow for a newcomer: a new virtual environment, the extra `flows`, one command."""

import os
import shutil
import sys
import venv

import pytest
from flow_toys import CHECKOUT, N_BICLIQUES

from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from tests.patience import completed

pytestmark = pytest.mark.slow


def test_flow_runs_in_a_fresh_environment(edges_file, tmp_path):
    # Build from a copy, because building writes into the tree.
    source = tmp_path / "source"
    for package in ("mbe_stage", "pipeline", "flows"):
        shutil.copytree(
            CHECKOUT / package, source / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{source}[flows]"]
    completed(install, check=True, cwd=tmp_path)

    # Nothing of the test environment may leak in.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHON"))}
    silent = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_HOME": str(tmp_path / "home")}
    command = [python, "-m", "mbe_stage.flows.enumerate", "--input", str(edges_file), "--out", str(tmp_path / "out")]
    done = completed(command, env=kept | silent, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[0] == f"{N_BICLIQUES} maximal bicliques published"
    latest = RunStore(tmp_path / "out").latest()
    assert latest is not None
    assert read_manifest(latest).versions["python"] == ".".join(map(str, sys.version_info[:3]))
