"""Fixtures of the stage's tests."""

from __future__ import annotations

import pytest

from mbe_stage.bicliques import engine_cuda


@pytest.fixture(autouse=True)
def _gpu_where_one_is_needed(request: pytest.FixtureRequest) -> None:
    reason = engine_cuda.unavailable_reason() if request.node.get_closest_marker("gpu") else None
    if reason:
        pytest.skip(reason)
