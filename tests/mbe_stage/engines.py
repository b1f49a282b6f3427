"""The engines under test: the reference, and those compared with it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from mbe_stage.bicliques.problem import PROBLEM

__all__ = ["ALL_ENGINES", "FAST_ENGINES", "every_engine", "module_of"]

_NEEDS = {"cuda": [pytest.mark.gpu]}
ALL_ENGINES = [pytest.param(name, marks=_NEEDS.get(name, [])) for name in PROBLEM.engines]
# Without the reference, if plain sets are too slow.
FAST_ENGINES = [one for one in ALL_ENGINES if one.values != ("reference",)]
every_engine = pytest.mark.parametrize("engine", ALL_ENGINES)


def module_of(engine: str) -> Any:
    return importlib.import_module(PROBLEM.engines[engine])
