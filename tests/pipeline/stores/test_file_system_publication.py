"""Runs published where fsspec has a driver: in memory, and on real servers of SFTP. One writer wins, as elsewhere."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="the extra filesystems is not installed")
pytest.importorskip("paramiko", reason="the server for tests of SFTP is not installed")

import fsspec.config
import fsspec.implementations.memory

from mbe_stage import pipeline
from mbe_stage.pipeline import PublishError
from mbe_stage.pipeline.stores import remote_store, transfers
from mbe_stage.pipeline.stores.conditional_write import NumberedCell
from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure
from mbe_stage.pipeline.stores.file_systems import FileSystemObjects
from mbe_stage.pipeline.stores.open_store import holds_runs, opened_run, store_at
from tests.patience import begun, completed, output_of
from tests.pipeline.stores.file_servers import PASSWORD, InMemory, OnServer, Place, objects_at, pointer
from tests.pipeline.stores.writers import FEWER, at_once, come_before, publish, published
from tests.pipeline.test_cli import EDGES, MBE, ROOT, answer, mbe

# --- what is published ---------------------------------------------------------------------------------------------


def test_the_same_as_on_the_disk(place: Place, tmp_path: Path) -> None:
    options = {"report": True, "members": True, "sort": True}
    here, there = publish(tmp_path / "out", **options), publish(f"{place.url}/out", **options)
    assert there.address == f"{place.url}/out/runs/{there.manifest.run_id}"
    assert there.manifest.content_fingerprint == here.manifest.content_fingerprint
    assert all(there.tables[name].equals(here.tables[name]) for name in here.tables)
    # What the manifest says is there, and nothing else.
    below = f"out/runs/{there.manifest.run_id}"
    files = {entry.path for entry in there.manifest.files}
    assert place.listed() == sorted(["out/latest/00000001", *(f"{below}/{name}" for name in [*files, "manifest.json"])])
    assert (pointer(place)["run_id"], pointer(place)["sequence"]) == (there.manifest.run_id, 1)
    with opened_run(f"{place.url}/out") as run:
        assert pipeline.read_manifest(run) == there.manifest


def test_runs_are_numbered_compared_and_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.stores.conditional_write._KEPT", 2)
    out = f"{place.url}/out"
    first, second = publish(out), publish(out, FEWER)
    assert second.manifest.comparison.run_id == first.manifest.run_id
    assert second.manifest.comparison.counts
    third = publish(out, keep_runs=2)
    assert published(place) == [second.manifest.run_id, third.manifest.run_id]
    assert pointer(place)["sequence"] == 3
    # Neither files nor directories of the oldest, nor its number.
    assert [name for name in place.listed() if "/latest/" in name] == ["out/latest/00000002", "out/latest/00000003"]
    assert not any(first.manifest.run_id in each for each in (*place.listed(), *place.directories()))


def test_commands_that_read(place: Place, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out, here = f"{place.url}/out", tmp_path / "out"
    for where in (out, here):
        publish(where, FEWER)
        shown = mbe("enumerate", tmp_path / "edges.csv", "--out", where, "--engine", "reference", "--quiet")
        assert shown.exit_code == 0, shown.stderr
    first, second = published(place)
    listed = answer(mbe("runs", out, "--json"))["runs"]
    assert [run["run"] for run in listed] == [f"{out}/runs/{run_id}" for run_id in (first, second)]
    assert [(run["latest"], run["damaged"]) for run in listed] == [(False, None), (True, None)]
    assert mbe("top", out, "--csv").stdout == mbe("top", here, "--csv").stdout
    assert mbe("export", f"{out}/latest", "--csv").stdout == mbe("export", here, "--csv").stdout
    assert answer(mbe("verify", f"{out}/runs/{second}", "--json"))["run"] == f"{out}/runs/{second}"
    compared = answer(mbe("diff", f"{out}/runs/{first}", "latest", "--json"))
    assert (compared["old"], compared["new"]) == (f"{out}/runs/{first}", f"{out}/runs/{second}")
    assert answer(mbe("diff", here, out, "--json"))["bicliques"]["same"] == 4
    assert holds_runs(out)
    assert answer(mbe("groups", f"{out}/runs/{second}", "--json"))["run"].startswith(f"{out}/runs/")
    table = f"out/runs/{second}/size_histogram.parquet"
    place.put(table, place.get(table)[:-1] + b"?")
    damaged = mbe("verify", f"{out}/runs/{second}", "--quiet")
    assert (damaged.exit_code, f"error: {place.url}/{table}" in damaged.stderr) == (1, True)


def test_a_command_of_a_process_and_no_secret_anywhere(
    sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out = f"{sftp.url}/out"
    command = ["enumerate", tmp_path / "edges.csv", "--out", out, "--engine", "reference", "--verbose", "--json"]
    first = completed([*MBE, *command], cwd=ROOT, check=True)
    again = mbe(*command, "--if-changed")
    (run_id,) = published(sftp)
    assert answer(again, 5)["run"] == json.loads(first.stdout)["run"] == f"{out}/runs/{run_id}"
    # Input from there, which the manifest names; and a wrong password.
    sftp.put("edges.csv", EDGES.encode())
    of_there = mbe("enumerate", f"{sftp.url}/edges.csv", "--out", f"{sftp.url}/second", "--engine", "reference")
    assert of_there.exit_code == 0, of_there.stderr
    monkeypatch.setitem(fsspec.config.conf, "sftp", {"password": f"{PASSWORD}-no-more"})
    wrong = mbe(*command)
    assert wrong.exit_code == 3
    assert wrong.stderr.startswith(f"error: {out}: access denied; nothing was published; ")
    assert len(wrong.stderr.splitlines()) == 1
    said = first.stdout + first.stderr + again.output + of_there.output + wrong.output
    assert PASSWORD.encode() not in b"".join(map(sftp.get, sftp.listed())) + said.encode()


def test_large_files_go_in_pieces(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "CHUNK", 300_000)
    content = os.urandom(1_000_000)
    for name in ("large", "empty", "one"):
        (tmp_path / name).write_bytes({"large": content, "empty": b"", "one": b"1"}[name])
    objects, moved = objects_at(place), []
    objects.upload(tmp_path, ["large", "empty", "one"], "below/more", moved.append)
    assert (place.get("out/below/more/large"), place.get("out/below/more/one")) == (content, b"1")
    assert sorted(moved) == [1, 100_000, 300_000, 300_000, 300_000]
    objects.download({f"below/more/{name}": tmp_path / "back" / name for name in ("large", "empty")})
    assert (tmp_path / "back/large").read_bytes() == content
    assert (tmp_path / "back/empty").read_bytes() == b""
    assert [each.size for each in objects.listed("below")] == [0, len(content), 1]
    objects.delete(["below/more/large", "below/more/empty", "below/more/one", "never/there"])
    assert objects.listed() == []
    assert place.directories() == {"out", "out/below"}


# --- who else writes -----------------------------------------------------------------------------------------------


def test_of_many_that_take_a_name_one_has_it_whole(place: Place) -> None:
    """What everything else stands on, without any pause between looking and taking."""
    rounds, writers = 8, 4
    objects = [objects_at(place) for _ in range(writers)]

    def create(which: int, number: int) -> bool:
        try:
            objects[which].create(f"names/{number}", b"%d" % which * 50_000)
        except StoreConflict:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        for number in range(rounds):
            (winner,) = [n for n, won in enumerate(pool.map(create, range(writers), [number] * writers)) if won]
            assert place.get(f"out/names/{number}") == b"%d" % winner * 50_000
    assert place.listed() == [f"out/names/{number}" for number in range(rounds)]


def test_of_two_writers_at_once_one_wins(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 2
    for won in at_once(f"{place.url}/out", rounds, monkeypatch):
        assert (pointer(place)["run_id"], published(place)[-1]) == (won, won)
    assert len(published(place)) == pointer(place)["sequence"] == rounds
    # Nothing of the losers: no file, no claim, no directory of a run.
    assert not any("/.staging/" in name for name in place.listed())
    assert len([each for each in place.directories() if each.startswith("out/runs/")]) == 2 * rounds


@pytest.mark.slow
def test_of_two_processes_at_once_one_wins(sftp: OnServer, tmp_path: Path) -> None:
    """Without any help: who is late, or begins when the other is done, publishes behind it."""
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out, n_published = f"{sftp.url}/out", 0
    command = [*MBE, "enumerate", tmp_path / "edges.csv", "--out", out, "--engine", "reference"]
    for _ in range(5):
        writers = [begun(command, cwd=ROOT, text=True) for _ in range(3)]
        for writer in writers:
            _, said = output_of(writer)
            assert writer.returncode in (0, 3), said
            assert writer.returncode == 0 or "and wins; nothing was published" in said
            n_published += writer.returncode == 0
    assert len(published(sftp)) == pointer(sftp)["sequence"] == n_published >= 5
    assert len({each.split("/")[2] for each in sftp.directories() if each.startswith("out/runs/")}) == n_published


def test_a_loser_ends_with_the_code_of_what_cannot_be_published(
    sftp: OnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    come_before(f"{sftp.url}/out", monkeypatch)
    result = mbe("enumerate", tmp_path / "edges.csv", "--out", f"{sftp.url}/out", "--engine", "reference")
    assert result.exit_code == 3
    assert len(published(sftp)) == 1


def test_numbers_that_were_removed_are_not_won_again(memory: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbe_stage.pipeline.stores.conditional_write._KEPT", 2)
    cell = objects_at(memory).cell("latest")
    assert cell.read() is None
    for number in range(5):
        cell.write(b"%d" % number, number or None)
    assert [name[-1] for name in memory.listed()] == ["4", "5"]
    # Who has seen the first run as the latest, and nobody's since.
    with pytest.raises(StoreConflict):
        cell.write(b"late", 1)
    assert cell.read() == (b"4", 5)
    assert [name[-1] for name in memory.listed()] == ["4", "5"]
    # A reader whose number is removed between its look and its read.
    read, looks = FileSystemObjects.read, []

    def after_others(self: FileSystemObjects, name: str) -> bytes | None:
        if not looks.append(name) and len(looks) == 1:
            for number in (5, 6):
                cell.write(b"%d" % number, number)
            objects_at(memory).delete([name])
        return read(self, name)

    monkeypatch.setattr(FileSystemObjects, "read", after_others)
    assert cell.read() == (b"6", 7)


def test_a_lost_answer_is_no_lost_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointer is there, and the connection ends before its writer knows."""
    write = NumberedCell.write

    def fail_afterwards(self: NumberedCell, content: bytes, before: int | None) -> None:
        write(self, content, before)
        raise StoreFailure(5, "the server does not answer as expected", "there", "try again")

    monkeypatch.setattr(NumberedCell, "write", fail_afterwards)
    run = publish(f"{place.url}/out")
    assert published(place) == [run.manifest.run_id]


def test_who_is_followed_before_it_looks_has_won(memory: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer reads the number that was just taken, and publishes behind that run: it must not go again."""
    cell, numbers = objects_at(memory, "other").cell("latest"), NumberedCell._numbers

    def followed_at_once(self: NumberedCell) -> list[int]:
        monkeypatch.setattr(NumberedCell, "_numbers", numbers)
        cell.write(b"second", 1)
        return numbers(self)

    with monkeypatch.context() as patch:
        patch.setattr(NumberedCell, "_numbers", followed_at_once)
        cell.write(b"first", None)
    assert [name[-1] for name in memory.listed()] == ["1", "2"]
    create, followers = FileSystemObjects.create, []

    def followed(self: FileSystemObjects, name: str, content: bytes) -> None:
        create(self, name, content)
        if name == "latest/00000001":
            followers.append(publish(f"{memory.url}/out", FEWER).manifest)

    monkeypatch.setattr(FileSystemObjects, "create", followed)
    first = publish(f"{memory.url}/out").manifest
    (second,) = followers
    assert published(memory) == [first.run_id, second.run_id]
    assert second.comparison.run_id == first.run_id
    assert (pointer(memory)["run_id"], pointer(memory)["previous"]) == (second.run_id, [first.run_id])


def test_what_others_leave_beside_numbers_is_not_looked_at(memory: InMemory) -> None:
    memory.put("out/latest/.DS_Store", b"of a file manager")
    runs = [publish(f"{memory.url}/out").manifest.run_id for _ in range(2)]
    assert published(memory) == runs
    assert store_at(f"{memory.url}/out").latest().name == runs[-1]


def test_what_is_called_latest_above_another_place_may_be_anything(memory: InMemory) -> None:
    memory.put("latest/readme.txt", b"no pointer")
    run = publish(f"{memory.url}/runs/mine")
    assert published(memory) == [run.manifest.run_id]


def test_what_may_be_published_is_not_withdrawn(memory: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends as above, and the server does not say any more what the pointer is."""
    write, read = NumberedCell.write, NumberedCell.read

    def lost(*_: object) -> None:
        raise StoreFailure(5, "the server does not answer", "there", "try again")

    def write_and_lose(self: NumberedCell, content: bytes, before: int | None) -> None:
        write(self, content, before)
        monkeypatch.setattr(NumberedCell, "read", lost)
        lost()

    monkeypatch.setattr(NumberedCell, "write", write_and_lose)
    with pytest.raises(PublishError, match=r"does not answer, when the pointer .* mbe runs memory://place/out says"):
        publish(f"{memory.url}/out")
    monkeypatch.setattr(NumberedCell, "read", read)
    assert pointer(memory)["run_id"] == published(memory)[0]
    assert mbe("verify", f"{memory.url}/out", "--quiet").exit_code == 0


def test_what_goes_with_the_command_is_warned_of(memory: InMemory, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(EDGES, encoding="utf-8")
    out = f"{memory.url}/out"
    said = mbe("enumerate", tmp_path / "edges.csv", "--engine", "reference", "--out", out)
    assert said.exit_code == 0
    assert f"{out} disappears when this command ends" in said.stderr


def test_half_a_pointer_is_none(sftp: OnServer) -> None:
    """What a killed writer has left under another name is neither read nor in the way, and goes with age."""
    run = publish(f"{sftp.url}/out")
    torn = sftp.put("out/.staging/0123456789abcdef.part", b'{"run_id"')
    assert store_at(f"{sftp.url}/out").latest().name == run.manifest.run_id
    assert "nothing to remove" in mbe("clean", f"{sftp.url}/out").stdout
    old = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(sftp.directory / "out/.staging/0123456789abcdef.part", (old, old))
    assert answer(mbe("clean", f"{sftp.url}/out", "--json"))["removed"] == [torn]


def test_leftovers_are_removed_when_they_are_old(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    left = "out/runs/20200101T000000Z-000000/bicliques/part-00000.parquet"
    place.put(left, b"half a run")
    run = publish(f"{place.url}/out")
    # Its writer may still be there.
    assert left in place.listed()
    monkeypatch.setattr(remote_store, "ABANDONED_AFTER", timedelta(seconds=-60))
    assert answer(mbe("clean", f"{place.url}/out", "--json"))["removed"] == [f"{place.url}/{left}"]
    assert published(place) == [run.manifest.run_id]
    assert not any("20200101" in each for each in place.directories())
