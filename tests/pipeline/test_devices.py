"""Configuration of GPUs that search together."""

from __future__ import annotations

from typing import Any

import pytest

from mbe_stage.bicliques import engine_cuda
from mbe_stage.errors import EngineUnavailable
from mbe_stage.pipeline.config.model import Config, ExecutionConfig
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.tiers import choose_tier


@pytest.mark.parametrize(
    ("given", "devices"), [("all", "all"), ("0,1", (0, 1)), ("1", (1,)), (2, (2,)), ([0, 0], (0, 0)), (None, None)]
)
def test_all_or_numbers(given: Any, devices: Any) -> None:
    assert ExecutionConfig(devices=given).devices == devices


@pytest.mark.parametrize("given", ["every", "", "0;1", [], [-1], [0.5], "-1"])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="expected all, or GPU indices such as 0,1"):
        ExecutionConfig(devices=given)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"engine": "reference"},
            "execution.engine is reference.* use rapids or cuda, or leave execution.devices out",
        ),
        ({"engine": "cpu"}, "execution.engine is cpu.* use rapids or cuda"),
        ({"runner": "dask"}, "execution.runner is dask.* use local"),
    ],
)
def test_contradictory_settings_are_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExecutionConfig(devices="all", **others)


@pytest.mark.parametrize("engine", ["rapids", "cuda"])
def test_a_tier_by_name_is_that_tier(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: None)
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda _problem: None)
    execution = ExecutionConfig(devices=(0, 1), engine=engine)  # type: ignore[arg-type]
    assert (choose_tier(execution).name, choose_tier(execution).engine) == (engine, "cuda")


def test_auto_takes_the_engine_that_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = Config.model_validate({"execution": {"devices": "all"}}).execution
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: None)
    assert choose_tier(execution).name == "cuda"
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: "no GPU is visible")
    # `auto` treats it like an engine given by name, so nothing replaces it.
    with pytest.raises(EngineUnavailable, match="no GPU is visible"):
        choose_tier(execution)
