"""Tests of the RAPIDS tier: those marked `gpu` are skipped with a reason if the tier cannot run."""

import pytest

from mbe_stage.pipeline.execution.tiers import rapids_unavailable_reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = rapids_unavailable_reason() if any(item.get_closest_marker("gpu") for item in items) else None
    for item in items:
        if reason and item.get_closest_marker("gpu") and "rapids" in item.path.parts:
            item.add_marker(pytest.mark.skip(reason=reason))
