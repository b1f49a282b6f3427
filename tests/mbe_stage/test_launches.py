"""Our launches say nothing about small grids; the user's own still do."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

from mbe_stage.device.grid import on_grid

PACKAGE = Path(__file__).parents[2] / "mbe_stage"
SMALL_GRID = "under-utilization"


@pytest.fixture
def kernel():
    cuda = pytest.importorskip("numba.cuda")
    # Configured, not launched: that needs no GPU.
    return cuda.jit(lambda: None)


def test_a_small_grid_of_ours_is_no_news(kernel) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert callable(on_grid(kernel, 1, 64))
        assert not seen
        kernel[2, 64]  # the user's own
    assert [SMALL_GRID in str(warning.message) for warning in seen] == [True]


def test_filters_of_the_user_are_as_before(kernel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        on_grid(kernel, 1, 64)
        assert warnings.filters == before


def test_every_launch_goes_that_way() -> None:
    direct = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and isinstance(node.func.slice, ast.Tuple)
    ]
    assert direct == []
