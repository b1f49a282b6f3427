"""Run modules that use the common part of CuPy and NumPy on NumPy, to test their logic without a GPU."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module with NumPy instead of CuPy, for the duration of the test."""
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    # Removed after the test, so that no other test imports this version.
    monkeypatch.setitem(sys.modules, name, module)
    return module
