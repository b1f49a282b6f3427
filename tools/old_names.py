"""Old import names in a checkout: `pipeline`, `flows` and their modules as docs/decisions/moved.md lists them.

They forward to `mbe_stage.pipeline` and `mbe_stage.flows` until version 0.2. An installation has only the new names.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import re
import sys
import warnings
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

_TABLE = Path(__file__).resolve().parents[1] / "docs" / "decisions" / "moved.md"
_PACKAGES = ("pipeline", "flows")


@cache
def _moved() -> dict[str, str]:
    return dict(re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|$", _TABLE.read_text(encoding="utf-8"), re.MULTILINE))


def new_name(old: str) -> str:
    """Return the import name that a module or package of today has for an old one."""
    moved = _moved()
    parts = old.split(".")
    for n in range(len(parts), 1, -1):
        if (known := ".".join(parts[:n])) in moved:
            return ".".join([moved[known], *parts[n:]])
    return old if parts[0] == "mbe_stage" else f"mbe_stage.{old}"


class _Alias(importlib.abc.InspectLoader):
    """Loads a module of today under an old name: the same module, not a second one."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(new_name(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec

    def get_source(self, fullname: str) -> str:
        return Path(_path(fullname)).read_text(encoding="utf-8")

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_source(fullname), _path(fullname))


def _path(old: str) -> str:
    found = importlib.util.find_spec(new_name(old))
    return "" if found is None else str(found.origin)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        package, dot, _module = fullname.partition(".")
        if not dot or package not in _PACKAGES or not (path := _path(fullname)):
            return None
        # `python -m` takes the file from the origin.
        return ModuleSpec(fullname, _Alias(), origin=path)


def forward(package: str) -> None:
    """Put the package of today in the place of the old name that is being imported."""
    warnings.warn(
        f"import {new_name(package)}: the name {package} goes with version 0.2", DeprecationWarning, stacklevel=3
    )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[package] = importlib.import_module(new_name(package))
