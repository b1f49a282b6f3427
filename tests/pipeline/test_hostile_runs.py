"""A published run made by others: no command reads, copies or checks files outside it, or waits forever."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import PublishError, RunStore, read_manifest
from mbe_stage.pipeline.publish.manifest import lost_file
from mbe_stage.pipeline.publish.reading import run_with_bicliques
from mbe_stage.pipeline.publish.run_store import resolve_run
from mbe_stage.pipeline.views.diff import diff_runs
from tests.pipeline.output_support import edge_data, publish, random_pairs, settings
from tests.pipeline.test_cli import mbe
from tests.pipeline.test_safe_paths import BAD_NAMES

PART = "bicliques/part-00000.parquet"
OF_MANIFEST = (("verify",), ("top",), ("diff", "{good}"), ("groups", "--out", "{new}"))
READERS = (*OF_MANIFEST[1:], ("export", "--csv"))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return publish(edge_data(random_pairs(0)), settings(tmp_path / "good"))


@pytest.fixture
def run(tmp_path: Path, good: Path) -> Path:
    place = tmp_path / "out/runs" / good.name
    shutil.copytree(good, place)
    (tmp_path / "out/latest").symlink_to(f"runs/{good.name}")
    return place


def edit(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = run / "manifest.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def told(command: tuple[str, ...], run: Path, good: Path, tmp_path: Path) -> tuple[int, str]:
    filled = [word.format(good=good, new=tmp_path / "new") for word in command]
    result = mbe(filled[0], run, *filled[1:])
    return result.exit_code, " ".join(result.stderr.split())


def linked(path: Path, to: Path) -> None:
    shutil.move(path, to)
    path.symlink_to(to)


NEW = "bicliques/part-9.parquet"
# How to damage a run, given a path outside; the damaged file; and the word in the refusal.
ODDITIES: dict[str, tuple[Callable[[Path, Path], object], str, str]] = {
    "table": (lambda run, aside: linked(run / "size_histogram.parquet", aside), "size_histogram.parquet", "link"),
    "part": (lambda run, aside: linked(run / PART, aside), PART, "link"),
    "parts": (lambda run, aside: linked(run / "bicliques", aside), "bicliques", "link"),
    "manifest": (lambda run, aside: linked(run / "manifest.json", aside), "manifest.json", "link"),
    "more": (lambda run, aside: (run / NEW).symlink_to(aside), NEW, "link"),
    "pipe": (lambda run, _: os.mkfifo(run / NEW), NEW, "not a regular file"),
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_odd_files_in_a_run_are_named(run: Path, good: Path, tmp_path: Path, oddity: str) -> None:
    make, name, what = ODDITIES[oddity]
    make(run, tmp_path / "aside")
    for place in (run, run.parents[1]):
        code, said = told(("verify",), place, good, tmp_path)
        if (place, oddity) == (run.parents[1], "manifest"):
            assert code == 3, "its output directory has no run"
            continue
        assert code == 1
        assert f"{run / name}: is " in said
        assert what in said
        for command in READERS:
            code, said = told(command, place, good, tmp_path)
            assert code == 3, command
            assert f"{run / name} is " in said
            assert what in said
        with pytest.raises(PublishError, match=what):
            resolve_run(place)
        with pytest.raises(PublishError, match=what):
            diff_runs(good, place)
    if oddity != "manifest":
        assert what in json.loads(mbe("runs", run.parents[1], "--json").stdout)["runs"][0]["damaged"]


@pytest.mark.parametrize("name", ["empty", "bicliques/empty", "bicliques/deeper/empty"])
def test_an_empty_directory_is_named_by_the_check(run: Path, good: Path, tmp_path: Path, name: str) -> None:
    assert told(("verify",), run, good, tmp_path)[0] == 0
    (run / name).mkdir(parents=True)
    code, said = told(("verify",), run, good, tmp_path)
    assert code == 1
    assert f"{run / name}: is an empty directory; expected" in said
    assert told(("top",), run, good, tmp_path)[0] == 0


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_manifest_cannot_name_files_outside(run: Path, good: Path, tmp_path: Path, name: str) -> None:
    edit(run, lambda values: values["files"][0].update(path=name))
    for command in OF_MANIFEST:
        code, said = told(command, run, good, tmp_path)
        assert code == 3, command
        assert "files.0.path" in said
    with pytest.raises(PublishError, match="stays within its directory"):
        read_manifest(run)
    assert "files.0.path" in json.loads(mbe("runs", run.parents[1], "--json").stdout)["runs"][0]["damaged"]


@pytest.mark.parametrize("made_of", ["../elsewhere", "{absolute}", "..", ".", "", "a/b"])
def test_a_source_run_outside_is_refused(run: Path, good: Path, made_of: str) -> None:
    shutil.rmtree(run / "bicliques")
    edit(run, lambda values: values.update(made_of=made_of.format(absolute=good)))
    with pytest.raises(PublishError, match="made_of"):
        run_with_bicliques(run)


def test_a_linked_source_run_is_ignored(run: Path, good: Path) -> None:
    other = "20200101T000000Z-aaaaaa"
    shutil.rmtree(run / "bicliques")
    edit(run, lambda values: values.update(made_of=other))
    (run.parent / other).symlink_to(good)
    assert run_with_bicliques(run) is None
    (run.parent / other).unlink()
    shutil.copytree(good, run.parent / other)
    assert run_with_bicliques(run) == run.parent / other
    linked(run.parent / other / PART, run.parents[2] / "aside")
    assert run_with_bicliques(run) is None


def test_an_earlier_run_with_links_is_not_compared_with(run: Path, tmp_path: Path) -> None:
    linked(run / PART, tmp_path / "aside")
    manifest = read_manifest(run)
    assert lost_file(run, manifest) == f"{PART} is a symbolic link"
    again = publish(edge_data(random_pairs(0)), settings(run.parents[1]))
    assert read_manifest(again).comparison is None or read_manifest(again).comparison.run_id is None


def test_a_manifest_that_is_a_pipe_does_not_block(run: Path) -> None:
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")
    with pytest.raises(PublishError, match=r"manifest\.json: cannot be read"):
        read_manifest(run)
    assert RunStore(run.parents[1]).latest() is None
    assert mbe("runs", run.parents[1]).exit_code == 0


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000], ids=["lists", "objects"])
def test_a_manifest_that_is_nested_too_deep_is_refused(run: Path, good: Path, tmp_path: Path, text: str) -> None:
    (run / "manifest.json").write_text(text)
    for command in OF_MANIFEST:
        code, said = told(command, run, good, tmp_path)
        assert code == 3, command
        assert "is not JSON" in said
