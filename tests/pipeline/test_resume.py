"""Runs that are ended early and gone on with: nothing is lost, nothing comes twice, and what has changed is refused."""

from __future__ import annotations

import json
import logging
import random
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mbe_stage import InvalidArgument, stream
from pipeline import Config, InputConfig, PublishError, RunStore, read_manifest, run
from pipeline import journal as journal_module
from pipeline.backends.arrow import parts
from pipeline.errors import ConfigError
from pipeline.ingest import ingest
from pipeline.journal import read_journal
from pipeline.publish import JOURNAL_NAME
from pipeline.unfinished import list_unfinished
from pipeline.verify import verify_run
from pipeline.verify.fields import standing_notes
from tests.patience import PATIENCE
from tests.pipeline.output_support import assert_nothing_staged, assert_sound, published_rows
from tests.pipeline.test_cli import mbe
from tests.pipeline.test_crash import Writer

VERTICES = ("left_vertices.parquet", "right_vertices.parquet", "size_histogram.parquet")


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some ten thousand bicliques below 24 roots, none of which has most of them."""
    dice = random.Random(7)
    path = tmp_path_factory.mktemp("input") / "edges.csv"
    pairs = [(u, v) for u in range(60) for v in range(24) if dice.random() < 0.55]
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u, v in pairs))
    return path


def values(out: Path, edges: Path, **sections: dict) -> dict:
    base = {
        "input": {"path": str(edges), "header": True},
        "execution": {"engine": "cpu", "threads": 2, "block_bytes": 2000},
        "output": {"directory": str(out), "report": False, "checkpoint_seconds": 0.003},
    }
    return {name: {**keys, **sections.get(name, {})} for name, keys in {"query": {}, **base}.items()}


def config_for(out: Path, edges: Path, **sections: dict) -> Config:
    return Config.from_mapping(values(out, edges, **sections))


@pytest.fixture(scope="module", params=[False, True], ids=["as found", "sorted"])
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Path:
    """A run that nothing happened to, with the long form."""
    output = {"sort": request.param, "members": True, "checkpoint_seconds": None}
    return run(config_for(tmp_path_factory.mktemp("undisturbed"), edges, output=output)).run_dir


@pytest.fixture(autouse=True)
def whatever_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small run has many checkpoints."""
    monkeypatch.setattr(stream, "_TIMES_ITS_COST", 0.0)


class Killed(BaseException):
    """Ends a run as Ctrl-C does, at a moment that a test has chosen."""


def ended_after(n_records: int, config: Config) -> Path:
    """Begin a run and end it when so many records are on the disk; returns its room."""

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        rooms = RunStore(config.output.directory).unfinished()
        if rooms and len(read_journal(rooms[-1])[1]) >= n_records:
            raise Killed

    with pytest.raises(Killed):
        run(config, on_progress=on_progress)
    return RunStore(config.output.directory).unfinished()[-1]


def assert_as_undisturbed(run_dir: Path, undisturbed: Path, edges: Path, *, same_bytes: bool = False) -> None:
    assert_sound(run_dir)
    found, expected = read_manifest(run_dir), read_manifest(undisturbed)
    assert found.content_fingerprint == expected.content_fingerprint
    assert found.counts == expected.counts
    for name in VERTICES:
        assert pq.read_table(run_dir / name).equals(pq.read_table(undisturbed / name)), name
    keys = [row["biclique_key"] for row in published_rows(run_dir)]
    assert len(keys) == len(set(keys)) == expected.counts.bicliques
    if same_bytes:
        for part in sorted(path.relative_to(undisturbed) for path in undisturbed.glob("*/part-*.parquet")):
            assert (run_dir / part).read_bytes() == (undisturbed / part).read_bytes(), part
    edges_read = ingest(InputConfig(path=str(edges), header=True))
    assert verify_run(run_dir, edges_read).not_checked == standing_notes(found)


def is_sorted(undisturbed: Path) -> bool:
    return read_manifest(undisturbed).config.output.sort


def output_of_run(undisturbed: Path) -> dict:
    return {"sort": is_sorted(undisturbed), "members": True}


def kill_and_resume(out: Path, edges: Path, undisturbed: Path, rounds: int, seed: int) -> None:
    """Kill -9 at random moments, the resumed runs too, until one comes to its end."""
    dice, n_killed, n_resumed = random.Random(seed), 0, 0
    settings = values(out, edges, output=output_of_run(undisturbed), execution={"block_bytes": 20_000})
    for attempt in range(rounds):
        directory = out / str(attempt)
        settings["output"]["directory"] = str(directory)
        while (latest := RunStore(directory).latest()) is None:
            writer = Writer.of(settings, edges, "slow-blocks", "often", "resume")
            writer.go()
            writer.wait_for("running")
            kept = sum(each.n_found for each in list_unfinished(directory))
            # A whole run takes somewhat longer; what is left of a resumed one is shorter and shorter.
            time.sleep(dice.random() * 1.5)
            code = writer.end(signal.SIGKILL)
            assert code in (0, -signal.SIGKILL), f"round {attempt}, seed {seed}: exit code {code}"
            n_killed += code != 0
            n_resumed += kept > 0
        assert_as_undisturbed(latest, undisturbed, edges, same_bytes=is_sorted(undisturbed))
        assert RunStore(directory).unfinished() == []
    assert n_killed, "no run was killed: the delays are too long"
    assert n_resumed, "nothing was kept of any run: checkpoints come too late"


def test_killed_at_random_moments_and_resumed(tmp_path: Path, edges: Path, undisturbed: Path) -> None:
    kill_and_resume(tmp_path, edges, undisturbed, rounds=3, seed=random.randrange(10**6))


@pytest.mark.slow
def test_killed_and_resumed_a_hundred_times(tmp_path: Path, edges: Path, undisturbed: Path) -> None:
    kill_and_resume(tmp_path, edges, undisturbed, rounds=50, seed=random.randrange(10**6))


def test_what_was_kept_is_not_searched_again(tmp_path, edges, undisturbed, caplog) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    room = ended_after(2, config)
    (begun,) = list_unfinished(tmp_path)
    assert begun.room == room
    assert begun.n_found > 0
    assert not begun.is_running
    assert 0 < begun.work_done < 1
    told = []
    with caplog.at_level(logging.INFO, "pipeline"):
        result = run(config, on_progress=told.append, resume=True)
    assert told[0].n_found >= begun.n_found
    assert told[-1].n_found == result.manifest.counts.bicliques
    assert any("resumed" in text for text in caplog.messages)
    assert any(f"{begun.n_found:,} results" in text for text in result.manifest.warnings)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(tmp_path)


def test_an_engine_with_another_order_of_roots_is_refused(tmp_path, edges) -> None:
    room = ended_after(1, config_for(tmp_path, edges))
    with pytest.raises(InvalidArgument, match="an engine with the same order of roots"):
        run(config_for(tmp_path, edges, execution={"engine": "reference"}), resume=True)
    assert RunStore(tmp_path).unfinished() == [room]
    assert run(config_for(tmp_path, edges), resume=True).manifest.warnings


@pytest.mark.parametrize("harm", ["flipped", "cut short", "removed", "line of the journal"])
def test_what_is_damaged_is_found_again(tmp_path, edges, undisturbed, caplog, harm) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    room = ended_after(3, config)
    _, records = read_journal(room)
    record = next(each for each in records if each.files)
    path = room / record.files[0].path
    content = bytearray(path.read_bytes())
    if harm == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif harm == "cut short":
        path.write_bytes(content[:-7])
    elif harm == "removed":
        path.unlink()
    else:
        journal = room / JOURNAL_NAME
        journal.write_bytes(journal.read_bytes().replace(b'"work"', b'"wark"', 1))
    with caplog.at_level(logging.WARNING, "pipeline"):
        result = run(config, resume=True)
    assert harm.startswith("line") or any("are searched again" in text for text in caplog.messages)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_a_torn_last_line_is_none(tmp_path, edges, undisturbed) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    room = ended_after(2, config)
    journal = room / JOURNAL_NAME
    _, records = read_journal(room)
    journal.write_bytes(journal.read_bytes()[:-10])
    assert len(read_journal(room)[1]) == len(records) - 1
    assert_as_undisturbed(run(config, resume=True).run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_a_torn_first_line_stands_in_nobodys_way(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    room = ended_after(1, config)
    journal = room / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes()[3:])
    with pytest.raises(PublishError, match="its first line is damaged"):
        read_journal(room)
    # Nobody knows what it asked: it stands in nobody's way.
    assert run(config, resume=True).manifest.counts.bicliques
    assert RunStore(tmp_path).clean() == [room]


@pytest.mark.parametrize(
    ("sections", "changed"),
    [
        ({"query": {"min_left": 2}}, "query.min_left was 1 and is 2"),
        ({"output": {"sort": True}}, "output.sort was False and is True"),
        ({"output": {"compression": "snappy"}}, "compression was 'zstd' and is 'snappy'"),
        ({"execution": {"max_bicliques": 5}}, "execution.max_bicliques was None and is 5"),
    ],
)
def test_another_question_is_refused(tmp_path, edges, sections, changed) -> None:
    room = ended_after(1, config_for(tmp_path, edges))
    with pytest.raises(PublishError) as refusal:
        run(config_for(tmp_path, edges, **sections), resume=True)
    assert changed in str(refusal.value)
    assert "without --resume" in str(refusal.value)
    assert RunStore(tmp_path).unfinished() == [room], "it is left as it was"


def test_other_edges_are_refused(tmp_path, edges) -> None:
    copy = tmp_path / "edges.csv"
    copy.write_bytes(edges.read_bytes())
    config = config_for(tmp_path / "out", copy)
    room = ended_after(1, config)
    copy.write_text(copy.read_text() + "u0,another\n")
    with pytest.raises(PublishError, match=r"the edges of .*edges.csv have changed since"):
        run(config, resume=True)
    assert RunStore(tmp_path / "out").unfinished() == [room]
    # Without being asked to resume, a run begins anew, and leaves it.
    assert run(config).manifest.warnings == ()
    assert RunStore(tmp_path / "out").unfinished() == [room]


def test_other_software_is_refused(tmp_path, edges, monkeypatch) -> None:
    config = config_for(tmp_path, edges)
    ended_after(1, config)
    versions = {**journal_module.software_versions(), "numpy": "1.0"}
    monkeypatch.setattr(journal_module, "software_versions", lambda: versions)
    with pytest.raises(PublishError, match=r"numpy was .* and is 1\.0"):
        run(config, resume=True)


def test_nothing_to_resume_begins_anew(tmp_path, edges, caplog) -> None:
    assert run(config_for(tmp_path, edges), resume=True).manifest.counts.bicliques
    assert any("no run to resume" in text for text in caplog.messages)


def test_problems_that_keep_nothing_say_so(tmp_path, edges) -> None:
    config = Config.from_mapping({**values(tmp_path, edges), "problem": "cliques"})
    with pytest.raises(ConfigError, match="whose runs keep nothing to go on with"):
        run(config, resume=True)


@pytest.mark.parametrize(
    "sections",
    [
        {"output": {"checkpoint_seconds": None}},
        {"execution": {"engine": "reference"}},
        {"execution": {"time_limit_seconds": 1e6}},
        {"output": {"checkpoint_seconds": 1e6}},
    ],
)
def test_runs_without_checkpoints_leave_nothing(tmp_path, edges, sections) -> None:
    seen = []

    def on_progress(_: object) -> None:
        seen.append(RunStore(tmp_path).unfinished())
        if len(seen) > 20:
            raise Killed

    with pytest.raises(Killed):
        run(config_for(tmp_path, edges, **sections), on_progress=on_progress)
    assert not any(seen)
    assert_nothing_staged(tmp_path)


def test_a_run_with_groups_has_no_checkpoints(tmp_path, edges) -> None:
    config = Config.from_mapping({**values(tmp_path, edges), "groups": {}})
    seen = []
    run(config, on_progress=lambda _: seen.append(RunStore(tmp_path).unfinished()))
    assert seen
    assert not any(seen)


def test_a_full_disk_in_the_middle(tmp_path, edges, undisturbed, monkeypatch) -> None:
    config = config_for(tmp_path, edges, output=output_of_run(undisturbed))
    room = ended_after(2, config)
    n_kept = len(read_journal(room)[1])
    is_full = {"value": True}
    real = parts.PartNames.take

    def take(self: parts.PartNames) -> Path:
        return Path("/dev/full") if is_full["value"] else real(self)

    monkeypatch.setattr(parts.PartNames, "take", take)
    with pytest.raises(PublishError, match=r"[Nn]o space left"):
        run(config, resume=True)
    is_full["value"] = False
    assert len(read_journal(room)[1]) >= n_kept, "what was kept stays"
    result = run(config, resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_ctrl_c_keeps_what_was_found(tmp_path, edges, undisturbed) -> None:
    settings = values(tmp_path, edges, output=output_of_run(undisturbed))
    writer = Writer.of(settings, edges, "slow-blocks", "often")
    writer.go()
    begun = time.monotonic()
    while not list_unfinished(tmp_path):
        assert time.monotonic() - begun < PATIENCE
        time.sleep(0.01)
    assert writer.end(signal.SIGINT) == 130
    (kept,) = list_unfinished(tmp_path)
    assert not kept.is_running
    result = run(Config.from_mapping(settings), resume=True)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_what_somebody_is_writing_is_left_alone(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    room = ended_after(1, config)
    with RunStore(tmp_path).begin(room=room):
        assert [each.is_running for each in list_unfinished(tmp_path)] == [True]
        with (
            pytest.raises(PublishError, match="is being written by another process"),
            RunStore(tmp_path).begin(room=room),
        ):
            pass
        assert RunStore(tmp_path).clean() == []
        # Nothing is free: it begins anew.
        assert run(config, resume=True).manifest.warnings == ()
    assert RunStore(tmp_path).unfinished() == [room]


def test_what_is_old_is_removed_by_the_next_run(tmp_path, edges) -> None:
    config = config_for(tmp_path, edges)
    room = ended_after(1, config)
    run(config)
    assert RunStore(tmp_path).unfinished() == [room]
    run(config_for(tmp_path, edges, output={"keep_unfinished_days": 0}))
    assert_nothing_staged(tmp_path)


def test_the_commands(tmp_path, edges) -> None:
    room = ended_after(1, config_for(tmp_path, edges))
    listed = json.loads(mbe("runs", tmp_path, "--json").stdout)
    (unfinished,) = listed["unfinished"]
    assert unfinished["run"] == str(room)
    assert unfinished["running"] is False
    assert unfinished["found"] > 0
    said = mbe("runs", tmp_path).stdout
    assert room.name in said
    assert "--resume" in said
    options = ["--header", "--engine", "cpu", "--out", tmp_path, "--no-report"]
    refused = mbe("enumerate", edges, *options, "--min-left", 2, "--resume")
    assert refused.exit_code == 3
    assert "query.min_left was 1 and is 2" in " ".join(refused.stderr.split())
    assert mbe("enumerate", edges, *options, "--resume").exit_code == 0
    assert "unfinished" not in json.loads(mbe("runs", tmp_path, "--json").stdout)
    ended_after(1, config_for(tmp_path, edges))
    assert "removed" in mbe("clean", tmp_path).stdout
    assert json.loads(mbe("clean", tmp_path, "--json").stdout)["removed"] == []
    assert mbe("enumerate", edges, *options, "--resume", "--count-only").exit_code == 2
