"""Old import names in a checkout: they forward to the places in docs/decisions/moved.md until version 0.2.

An old module is empty. Each of its names is looked up in the new places when it is used. An installation has
neither this file nor the table.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import pkgutil
import re
import sys
import warnings
from contextlib import suppress
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_TABLE = Path(__file__).resolve().parents[1] / "docs" / "decisions" / "moved.md"


@cache
def moved() -> dict[str, list[str]]:
    """Return the new places of each old module, and of names (`module:name`) that were renamed."""
    rows = re.findall(r"^\| `([\w.:]+)` \| (`[\w.:`, ]+`) \|$", _TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {old: re.findall(r"[\w.:]+", new) for old, new in rows}


def new_places(old: str) -> list[str]:
    """Return the current modules that have the names of an old module; a listed package moved with its modules."""
    parts = old.split(".")
    for n in range(len(parts), 1, -1):
        if known := moved().get(".".join(parts[:n])):
            return [".".join([place, *parts[n:]]) for place in known]
    return [old if parts[0] == "mbe_stage" else f"mbe_stage.{old}"]


def _value(old: str, name: str) -> Any:
    """Return the value of an old module's name."""
    if renamed := moved().get(f"{old}:{name}"):
        return pkgutil.resolve_name(renamed[0])
    # A module is an attribute of its package once it is imported.
    for place in new_places(old) if f"{old}.{name}" not in moved() else ():
        with suppress(AttributeError):
            return getattr(importlib.import_module(place), name)
    raise AttributeError(f"module {old!r} has no attribute {name!r}")


def forward(old: str) -> None:
    """Make a module that is imported by an old name forward."""
    places = new_places(old)
    message = f"'{old}' is renamed to {' and '.join(map(repr, places))}; the old name is removed in 0.2"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    importlib.import_module(places[0])
    vars(sys.modules[old]).update(__path__=[], __getattr__=partial(_value, old))


class _Old(importlib.abc.InspectLoader):
    def exec_module(self, module: ModuleType) -> None:
        forward(module.__name__)

    def get_source(self, fullname: str) -> str:
        return Path(_file(fullname)).read_text(encoding="utf-8")

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_source(fullname), _file(fullname))


def _file(old: str) -> str:
    """Return the file of the first new place; empty if there is none."""
    with suppress(ModuleNotFoundError):
        if found := importlib.util.find_spec(new_places(old)[0]):
            return str(found.origin)
    return ""


def find_spec(old: str) -> ModuleSpec | None:
    """Return the spec of an old module that has a new place."""
    # `python -m` takes the file from the origin.
    return ModuleSpec(old, _Old(), origin=path) if new_places(old) != [old] and (path := _file(old)) else None
