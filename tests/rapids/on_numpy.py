"""Modules that only use what CuPy and NumPy share, run on NumPy: their logic is tested without a GPU."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module with NumPy in the place of CuPy, for as long as the test runs."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    # Nobody else is to find this version; undone after the test, like the rest.
    monkeypatch.setitem(sys.modules, name, module)
    return module
