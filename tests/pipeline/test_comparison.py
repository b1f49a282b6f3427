"""Comparison with the last complete run of the same query, before publication, in the manifest and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.job import run
from mbe_stage.pipeline.publish.manifest import config_fingerprint, read_manifest
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.views import comparison
from mbe_stage.pipeline.views.comparison import last_complete
from tests.pipeline.diff_support import group, make_run

FIRST = [("ann", "p1"), ("ann", "p2"), ("bob", "p1"), ("bob", "p2"), ("cid", "p3")]
SECOND = [*FIRST, ("cid", "p1"), ("cid", "p2")]


def publish(out: Path, edges: list[tuple[str, str]], groups: dict[str, object] | None = None, **output: object):
    settings = {"execution": {"engine": "reference"}, "output": {"directory": str(out), **output}}
    settings |= {} if groups is None else {"groups": groups}
    left, right = zip(*edges, strict=True)
    import pyarrow as pa

    result = run(Config.from_mapping(settings), pa.table({"l": left, "r": right}))
    page = result.run_dir / "report.html"
    return result, page.read_text(encoding="utf-8") if page.exists() else ""


def test_a_run_says_what_differs_from_the_one_before(tmp_path: Path) -> None:
    first, page = publish(tmp_path, FIRST)
    assert first.manifest.comparison is not None
    assert (first.manifest.comparison.run_id, first.manifest.comparison.counts) == (None, {})
    assert "No complete run of the same query is published here." in page

    second, page = publish(tmp_path, SECOND)
    found = second.manifest.comparison
    assert found is not None
    assert found.run_id == first.run_dir.name
    # cid joined ann and bob at p1 and p2; cid x p3 became cid x p1, p2, p3.
    assert (found.counts, found.n_same) == ({"grown": 2}, 0)
    assert {(one.left, one.came) for one in found.largest} == {
        (("ann", "bob", "cid"), ("cid",)),
        (("cid",), ("p1", "p2")),
    }
    assert f"Compared with run <code>{first.run_dir.name}</code>" in page
    assert "<b>2</b> grown" in page
    assert "compare" in second.manifest.seconds
    assert read_manifest(second.run_dir).comparison == found

    _, page = publish(tmp_path, SECOND)
    assert "Nothing differs; 2 unchanged." in page


def test_a_truncated_run_is_not_the_last_complete_one(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    asked = config_fingerprint(Config())
    assert last_complete(store, asked) is None
    first = make_run(tmp_path / "runs" / "1", [group("a", "x")])
    make_run(tmp_path / "runs" / "2", [group("b", "x")], truncated="stopped after 1 s")
    make_run(tmp_path / "runs" / "3", [group("c", "x")], config={"query": {"min_left": 2}})
    (tmp_path / "runs" / "4").mkdir()
    (tmp_path / "runs" / "4" / "manifest.json").write_text("{")
    last = last_complete(store, asked)
    assert last is not None
    assert last[0] == first


def test_what_a_truncated_run_lacks_is_not_called_gone(tmp_path: Path) -> None:
    limited = {"execution": {"engine": "reference", "max_bicliques": 1}, "output": {"directory": str(tmp_path)}}
    asked = Config.from_mapping(limited)
    make_run(tmp_path / "runs" / "1", [group(["zoe"], ["q"])], config={"execution": {"max_bicliques": 1}})
    import pyarrow as pa

    result = run(asked, pa.table({"l": [left for left, _ in SECOND], "r": [right for _, right in SECOND]}))
    found = result.manifest.comparison
    assert found is not None
    assert result.manifest.truncated is not None
    assert found.counts == {"new": 1, "only_in_old": 1}
    assert "the NEW run is incomplete" in found.remarks[0]


def test_a_run_is_published_if_others_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PublishError("s3://bucket/out/runs: does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(RunStore, "runs", refuse)
        result, _ = publish(tmp_path / "bicliques", FIRST)
        of_groups, _ = publish(tmp_path / "groups", FIRST, groups={})
    assert result.manifest.comparison is not None
    said = "runs to compare with could not be listed: s3://bucket/out/runs: does not answer"
    assert result.manifest.comparison.remarks == (said,)
    assert of_groups.manifest.derived_comparison["groups"].remarks == (said,)
    # Once for each run, and once for the groups.
    assert caplog.messages.count(said) == 3


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, FIRST)
    few, page = publish(tmp_path, SECOND, compare=1, report=True)
    assert few.manifest.comparison is not None
    assert few.manifest.comparison.counts == {"new": 2, "gone": 2}
    assert few.manifest.comparison.largest == ()
    assert "Too many bicliques differ to pair them." in page
    monkeypatch.setattr(comparison, "MOST_BICLIQUES", 3)
    many, page = publish(tmp_path, FIRST)
    assert many.manifest.comparison is not None
    assert (many.manifest.comparison.counts, many.manifest.comparison.n_same) == ({}, None)
    assert "2 bicliques after 2: too many to compare" in page
    none, page = publish(tmp_path, FIRST, compare=0)
    assert none.manifest.comparison is None
    assert "Since the last run" not in page


def test_comparing_does_not_change_the_fingerprint() -> None:
    asked = [Config.from_mapping({"output": {"compare": n}}) for n in (0, 5)]
    # The fingerprint of the default configuration from before comparisons existed.
    assert {config_fingerprint(config) for config in (Config(), *asked)} == {FINGERPRINT}


def test_keys_in_the_report_are_escaped(tmp_path: Path) -> None:
    publish(tmp_path, [("<b>x", "p1")])
    _, page = publish(tmp_path, [("<b>x", "p1"), ("<b>x", "<i>")])
    assert "<b>x" not in page
    assert "<i>" not in page.replace("<i></i>", "")


FINGERPRINT = "764213ca21744c074f8c5caf5c1824ba2af4798b03f67bc83725cef4d58bd86c"


def test_a_comparison_out_of_memory_does_not_lose_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_runs: object) -> None:
        raise MemoryError

    publish(tmp_path, FIRST)
    monkeypatch.setattr(comparison, "_compared", refuse)
    second, page = publish(tmp_path, SECOND)
    assert second.manifest.comparison is not None
    assert second.manifest.comparison.remarks == ("the two could not be compared: out of memory",)
    assert "could not be compared: out of memory" in page
