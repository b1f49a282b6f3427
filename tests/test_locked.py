"""``tests/locked.txt`` has one file for each declared dependency of the tests, and names no index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def locked() -> dict[str, str]:
    lines = (ROOT / "tests" / "locked.txt").read_text(encoding="utf-8").splitlines()
    found = [LINE.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found), "expected a version with one hash"
    return {match["name"]: match["version"] for match in found if match}


def test_declared_dependencies_are_locked() -> None:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    flows = project["optional-dependencies"]["flows"]
    there = locked()
    for text in (*project["dependencies"], *flows, *groups["dev"], *groups["cuda-compile"]):
        wanted = Requirement(text)
        version = there.get(re.sub(r"[-_.]+", "-", wanted.name).lower())
        assert version is not None, f"{text}: run tools/lock.py"
        assert wanted.specifier.contains(version), f"{text} is not met by {version}: run tools/lock.py"
