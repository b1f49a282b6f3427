"""Collectors of derived outputs: when they are entered and left, and which names are reserved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.config import registry
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.bicliques import publication
from mbe_stage.pipeline.problems.bicliques.arrow import ParquetSink
from mbe_stage.pipeline.publish import manifest
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.test_problem_seam import EDGES, settings
from tests.toys.smaller_sides.collector import SidesCollector

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the calls of the collector, and the error with which it is left."""
    calls: list[str] = []
    finish, accept = SidesCollector.finish, SidesCollector.accept

    def noted(name: str, method: Any) -> Any:
        def call(self: Any, *arguments: Any) -> Any:
            if calls[-1:] != [name]:
                calls.append(name)
            return method(self, *arguments)

        return call

    def leave(_self: Any, kind: Any, *_: Any) -> bool:
        calls.append("left" if kind is None else f"left by {kind.__name__}")
        return True

    monkeypatch.setattr(SidesCollector, "__enter__", noted("entered", lambda self: self))
    monkeypatch.setattr(SidesCollector, "__exit__", leave)
    monkeypatch.setattr(SidesCollector, "accept", noted("accept", accept))
    monkeypatch.setattr(SidesCollector, "finish", noted("finish", finish))
    return calls


def test_a_collector_is_left_after_its_tables(tmp_path: Path, seen: list[str]) -> None:
    run(settings(tmp_path, smaller_sides={}), EDGES)
    assert seen == ["entered", "accept", "finish", "left"]


@pytest.mark.parametrize("error", [PublishError, KeyboardInterrupt, MemoryError])
def test_any_error_leaves_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[str], error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise error("no more")

    monkeypatch.setattr(ParquetSink, "accept", fail)
    with pytest.raises(error, match="no more"):
        run(settings(tmp_path, smaller_sides={}), EDGES)
    assert seen == ["entered", f"left by {error.__name__}"]
    assert_nothing_staged(tmp_path)


def test_a_failure_to_leave_a_collector_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("still busy")

    monkeypatch.setattr(SidesCollector, "__exit__", fail)
    with pytest.raises(PublishError, match="derived output 'smaller_sides': RuntimeError: still busy; expected"):
        run(settings(tmp_path, smaller_sides={}), EDGES)
    assert_nothing_staged(tmp_path)


def test_a_failure_to_leave_a_collector_hides_no_other_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def fail(*_: object) -> None:
        raise RuntimeError("still busy")

    monkeypatch.setattr(SidesCollector, "finish", interrupt)
    monkeypatch.setattr(SidesCollector, "__exit__", fail)
    with pytest.raises(KeyboardInterrupt):
        run(settings(tmp_path, smaller_sides={}), EDGES)
    assert "RuntimeError: still busy" in caplog.text


def test_no_section_has_the_name_of_a_fingerprint_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keys: list[str] = []
    dumps = json.dumps
    monkeypatch.setattr(manifest.json, "dumps", lambda asked, **how: keys.extend(asked) or dumps(asked, **how))
    manifest.config_fingerprint(settings(tmp_path, smaller_sides={}))
    assert {"derived", "key_type", "schema_version", "execution", "output", "query"} <= set(keys)
    for key in {*keys, *Config.model_fields}:
        registry._may_be_a_section.cache_clear()
        assert not registry._may_be_a_section(key)
    registry._may_be_a_section.cache_clear()
    assert registry._may_be_a_section("smaller_sides")
    assert "is left out: the fingerprint of a configuration has a key of that name" in caplog.text


def test_counts_can_still_be_imported_from_the_manifest() -> None:
    from mbe_stage.pipeline.publish.manifest import Counts

    assert Counts is publication.Counts
    with pytest.raises(AttributeError, match="has no attribute"):
        manifest.Nothing  # noqa: B018 - looked up
