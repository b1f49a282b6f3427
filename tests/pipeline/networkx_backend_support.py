"""Put the backend's entry points on Python's path, whatever is installed, to run networkx's own tests on it."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from tests.patience import completed

__all__ = ["ROOT", "in_a_new_process", "path_with_entry_points"]

ROOT = Path(__file__).parents[2]


def path_with_entry_points(directory: Path) -> str:
    """Write a distribution with the entry points of `pyproject.toml`; return its ``PYTHONPATH``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = directory / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (about / "entry_points.txt").write_text("\n".join(groups))
    return os.pathsep.join([str(directory), str(ROOT)])


def in_a_new_process(directory: Path, *arguments: str, **environment: str) -> str:
    """Run Python with the backend's entry points on its path; return what it prints."""
    path = path_with_entry_points(directory)
    done = completed([sys.executable, *arguments], env=os.environ | {"PYTHONPATH": path} | environment, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
