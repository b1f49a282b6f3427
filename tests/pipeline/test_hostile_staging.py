"""Foreign content in an output directory: nothing outside it is removed, and nothing in it that is not ours."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mbe_stage.pipeline import PublishError, RunStore
from mbe_stage.pipeline.publish import staging as publish_module
from mbe_stage.pipeline.publish.run_store import resolve_run
from mbe_stage.pipeline.stores.open_store import holds_runs
from tests.pipeline.output_support import crown_pairs, edge_data, publish, random_pairs, settings
from tests.pipeline.test_cli import mbe

RUN, OTHER = "20200101T000000Z-aaaaaa", "20200101T000000Z-bbbbbb"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's directory that no command may touch."""
    (tmp_path / "home/Documents").mkdir(parents=True)
    (tmp_path / "home/Documents/thesis.tex").write_text("years of work")
    (tmp_path / f"home/{RUN}").mkdir()
    (tmp_path / f"home/{RUN}/notes.txt").write_text("called like a run, and no run")
    return tmp_path / "home"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    publish(edge_data(random_pairs(0)), settings(tmp_path / "out"))
    return tmp_path / "out"


def everything(place: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(place.rglob("*"))}


def begin(out: Path) -> None:
    with RunStore(out).begin():
        pass


def cleaned(out: Path) -> None:
    RunStore(out).clean()


def published(out: Path) -> None:
    publish(edge_data(crown_pairs(3)), settings(out, output={"keep_runs": 1}))


ALL_USES = pytest.mark.parametrize("use", [begin, cleaned, published])


def replaced_by(path: Path, target: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(target)


@ALL_USES
@pytest.mark.parametrize("name", [".staging", "runs", f".staging/{RUN}", f".staging/{RUN}-expired"])
def test_a_link_in_the_place_of_a_directory_is_refused_by_name(
    out: Path, home: Path, use: Callable[[Path], None], name: str
) -> None:
    before = everything(home)
    replaced_by(out / name, home)
    with pytest.raises(PublishError, match=rf"^{out / name}: is a symbolic link; expected a directory .*move it away"):
        use(out)
    assert everything(home) == before
    assert (out / name).is_symlink()


@ALL_USES
def test_a_file_in_place_of_a_directory_is_refused_with_the_remedy(out: Path, use: Callable[[Path], None]) -> None:
    shutil.rmtree(out / ".staging")
    (out / ".staging").write_text("mine")
    with pytest.raises(PublishError, match=rf"^{out}/\.staging: is a file; expected a directory .*; move it away"):
        use(out)
    assert (out / ".staging").read_text() == "mine"


@ALL_USES
def test_foreign_names_in_staging_are_left_alone(out: Path, home: Path, use: Callable[[Path], None]) -> None:
    staging = out / ".staging"
    for name in ("Documents", f"{RUN}.bak", f"x{RUN}", "20200101T000000Z-AAAAAA", "-expired", f"{RUN}-expired-expired"):
        (staging / name).mkdir()
        (staging / name / "kept.txt").write_text("mine")
    (staging / OTHER).write_text("a file with the name of a run")
    (staging / "link").symlink_to(home)
    before = everything(staging), everything(home)
    for name in (RUN, f"{OTHER}-expired"):
        (staging / name).mkdir()
        (staging / name / "link").symlink_to(home)
        (staging / name / "part").write_text("ours")
    use(out)
    assert not (staging / RUN).exists()
    assert not (staging / f"{OTHER}-expired").exists()
    assert (everything(staging), everything(home)) == before


@ALL_USES
@pytest.mark.parametrize("place", [".staging/.lock", f".staging/{RUN}/.lock"])
def test_a_linked_lock_creates_no_file_elsewhere(
    out: Path, home: Path, use: Callable[[Path], None], place: str
) -> None:
    (out / place).parent.mkdir(exist_ok=True)
    (out / place).unlink(missing_ok=True)
    (out / place).symlink_to(home / "new")
    before = everything(home)
    if place == ".staging/.lock":
        with pytest.raises(PublishError, match=rf"{place}: cannot be written .*a symbolic link is in the way: remove"):
            use(out)
    else:
        use(out)
        assert not (out / place).parent.exists()
    assert everything(home) == before


def test_a_pipe_in_place_of_a_lock_does_not_block(out: Path) -> None:
    for place in (out / ".staging" / RUN / ".lock", out / ".staging" / ".lock"):
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        os.mkfifo(place)
        if place.parent.name == RUN:
            assert RunStore(out).clean() == [str(place.parent)]
    with pytest.raises(PublishError, match="cannot be written"):
        begin(out)


def test_a_staging_directory_swapped_for_a_link(out: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The swap happens between the check and the removal."""
    staging_dir, before = out / ".staging" / RUN, everything(home)
    staging_dir.mkdir()
    monkeypatch.setattr(publish_module, "is_unfinished", lambda path: replaced_by(path, home))
    with pytest.raises(PublishError):
        RunStore(out).clean()
    assert everything(home) == before


def test_the_staging_folder_swapped_for_a_link(out: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, before = out / ".staging", everything(home)
    (staging / RUN).mkdir()

    def swap(_staging_dir: Path) -> bool:
        staging.rename(out / "aside")
        staging.symlink_to(home)
        return False

    monkeypatch.setattr(publish_module, "is_unfinished", swap)
    RunStore(out).clean()
    assert everything(home) == before
    assert not (out / "aside" / RUN).exists()


# --- other directories --------------------------------------------------------------------------------------------


def test_only_an_output_directory_is_cleaned(tmp_path: Path, home: Path) -> None:
    (home / "runs/mine").mkdir(parents=True)
    (home / "runs/mine/manifest.json").write_text("{}")
    (home / ".staging/job_1").mkdir(parents=True)
    before = everything(home)
    refused = mbe("clean", home)
    assert refused.exit_code == 3
    assert "expected an output directory" in " ".join(refused.stderr.split())
    assert everything(home) == before
    for leftovers in (f".staging/{RUN}", ".staging", ""):
        (tmp_path / "killed" / leftovers).mkdir(parents=True)
        assert mbe("clean", tmp_path / "killed").exit_code == 0
        shutil.rmtree(tmp_path / "killed")


def test_runs_alone_are_an_output_directory(out: Path) -> None:
    shutil.rmtree(out / ".staging")
    assert mbe("clean", out).exit_code == 0
    (out / "latest").unlink()
    assert mbe("clean", out).exit_code == 0


# --- the pointer and the runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", ["{home}", "../home", "runs", "runs/..", "runs/../../home", "runs/{run}/bicliques", "/"]
)
def test_a_pointer_outside_the_runs_is_refused(out: Path, home: Path, target: str) -> None:
    run = RunStore(out).runs()[0]
    for place in (home, run / "bicliques"):
        (place / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    (out / "latest").unlink()
    (out / "latest").symlink_to(target.format(home=home, run=run.name))
    for use in (RunStore(out).latest, RunStore(out).check_writable, lambda: resolve_run(out), lambda: begin(out)):
        with pytest.raises(PublishError, match=rf"^{out}/latest: does not point to a run"):
            use()
    for command in (("top",), ("verify",), ("export", "--csv"), ("runs",)):
        assert mbe(*command, out).exit_code == 3
    assert not holds_runs(str(out))


def test_a_linked_run_is_ignored(out: Path, tmp_path: Path) -> None:
    run = RunStore(out).runs()[0]
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    assert RunStore(out).runs() == []
    assert RunStore(out).latest() is None
    published(out)
    assert len(RunStore(out).runs()) == 1
    assert (tmp_path / "elsewhere/manifest.json").exists()


def test_a_renamed_run_is_removed_like_any_other(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incomplete removal is recognised by its name."""
    RunStore(out).runs()[0].rename(out / "runs/1-mine")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publish_module.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        published(out)
    monkeypatch.undo()
    assert len(RunStore(out).runs()) == 1
    left = [name for name in os.listdir(out / ".staging") if name.endswith("-expired")]
    assert len(left) == 1
    assert f"{out}/.staging/{left[0]}" in json.loads(mbe("clean", out, "--json").stdout)["removed"]
