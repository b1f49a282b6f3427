"""A journal in a directory that others may write: `--resume` touches nothing outside its staging directory."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, PublishError, RunStore, run
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.manifest import sha256_of
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.pipeline.output_support import assert_nothing_staged, assert_sound, published_rows
from tests.pipeline.resume_support import config_for, edges, ended_after, values, whatever_they_cost

__all__ = ["edges", "whatever_they_cost"]


def rewritten(staging_dir: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the records of a journal and write it with right checksums."""
    header, *lines = (staging_dir / JOURNAL_NAME).read_bytes().splitlines()
    records = [json.loads(line.partition(b" ")[2]) for line in lines]
    for record in records:
        change(record)
    texts = [json.dumps(record).encode() for record in records]
    (staging_dir / JOURNAL_NAME).write_bytes(
        b"\n".join([header, *(b"%08x %s" % (zlib.crc32(text), text) for text in texts), b""])
    )


def entry_of(path: Path, called: str) -> dict[str, Any]:
    return {"path": called, "bytes": path.stat().st_size, "sha256": sha256_of(path), "rows": None}


@pytest.mark.parametrize(
    ("called", "sections"),
    [(called, {}) for called in ("{up}/victim.npz", "{absolute}", "sums/../{up}/victim.npz", ".lock", "journal")]
    + [(called, {"output": {"bicliques": False}, "groups": {}}) for called in ("sums/../{up}/victim.npz", "journal")],
)
def test_a_path_that_leads_out_is_not_followed(tmp_path, edges, called, sections) -> None:
    config = Config.from_mapping({**sections, **values(tmp_path / "out", edges, **sections)})
    staging_dir = ended_after(1, config)
    victim = tmp_path / "victim.npz"
    victim.write_bytes(b"of somebody else")
    name = called.format(up=os.path.relpath(tmp_path, staging_dir), absolute=victim)
    target = staging_dir / name if name in (".lock", JOURNAL_NAME) else victim
    rewritten(staging_dir, lambda record: record.update(files=[*record["files"], entry_of(target, name)]))
    result = run(config, resume=True)
    assert victim.read_bytes() == b"of somebody else"
    assert not any("victim" in str(path) for path in result.run_dir.rglob("*"))
    assert_nothing_staged(tmp_path / "out")


@pytest.mark.parametrize("depth", ["file", "directory", "run"])
def test_a_part_from_outside_is_not_published(tmp_path, edges, depth) -> None:
    """The target of a link is neither read nor removed; its tasks are searched again."""
    undisturbed = run(config_for(tmp_path / "undisturbed", edges))
    config = config_for(tmp_path / "out", edges)
    staging_dir = ended_after(1, config)
    (record,) = (each for each in read_journal(staging_dir)[1][:1])
    part = staging_dir / record.files[0].path
    path = {"file": part, "directory": part.parent, "run": staging_dir / staging_dir.name}[depth]
    outside = tmp_path / "outside"
    shutil.move(path, outside)
    path.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    if depth == "run":
        assert RunStore(tmp_path / "out").unfinished() == []
    result = run(config, resume=True)
    assert sorted(outside.rglob("*")) == before
    assert outside.exists()
    assert not any(path.is_symlink() for path in (tmp_path / "out/runs").rglob("*"))
    assert len(published_rows(result.run_dir)) == len(published_rows(undisturbed.run_dir))
    assert result.manifest.content_fingerprint == undisturbed.manifest.content_fingerprint


def test_a_part_with_a_path_outside_is_ignored(tmp_path, edges) -> None:
    config = config_for(tmp_path / "out", edges)
    undisturbed = run(config_for(tmp_path / "undisturbed", edges))
    staging_dir = ended_after(1, config)
    outside = tmp_path / "bicliques/part-00000.parquet"
    outside.parent.mkdir()

    def change(record: dict[str, Any]) -> None:
        if not outside.exists():
            shutil.move(staging_dir / record["files"][0]["path"], outside)
            record["files"][0]["path"] = os.path.relpath(outside, staging_dir)

    rewritten(staging_dir, change)
    result = run(config, resume=True)
    assert_sound(result.run_dir)
    assert len(published_rows(result.run_dir)) == len(published_rows(undisturbed.run_dir))
    assert outside.exists()


@pytest.mark.parametrize("name", ["sort", "scratch", "sums", f"{JOURNAL_NAME}.new", "kept"])
def test_nothing_is_written_through_a_link_in_a_room(tmp_path, edges, name) -> None:
    config = config_for(tmp_path / "out", edges, output={"sort": name == "sort"})
    staging_dir = ended_after(1, config)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    shutil.rmtree(staging_dir / name, ignore_errors=True)
    (staging_dir / name).symlink_to(outside / "new" if name.endswith(".new") else outside)
    run(config, resume=True)
    assert [path.name for path in outside.iterdir()] == ["theirs"]
    assert_nothing_staged(tmp_path / "out")


@pytest.mark.parametrize("as_what", ["link", "pipe"])
def test_a_journal_that_is_not_a_file_is_ignored(tmp_path, edges, as_what) -> None:
    config = config_for(tmp_path / "out", edges)
    staging_dir = ended_after(1, config)
    (staging_dir / JOURNAL_NAME).rename(tmp_path / "journal")
    if as_what == "link":
        (staging_dir / JOURNAL_NAME).symlink_to(tmp_path / "journal")
    else:
        os.mkfifo(staging_dir / JOURNAL_NAME)
    assert list_unfinished(tmp_path / "out") == []
    run(config, resume=True)
    assert (tmp_path / "journal").exists()
    assert_nothing_staged(tmp_path / "out")


@pytest.mark.parametrize("store", ["s3://another-bucket/out", "http://127.0.0.1:9/out", "memory://out"])
def test_parts_in_another_store_are_not_requested(tmp_path, edges, store) -> None:
    config = config_for(tmp_path / "out", edges)
    staging_dir = ended_after(1, config)

    def change(record: dict[str, Any]) -> None:
        entry = record["files"][0]
        record["files"] = [{**entry, "store": store, "name": f".staging/{staging_dir.name}.parts/a/{entry['path']}"}]

    rewritten(staging_dir, change)
    # The mark of our temporary directories for a store is ignored here.
    (tmp_path / "out/.address").write_text(store)
    with pytest.raises(PublishError, match="its journal names parts in another store"):
        run(config, resume=True)


@pytest.mark.parametrize("roots", [{}, {"problem": "bicliques"}, {"problem": 1, "n": "many", "checksum": None}, []])
def test_malformed_records_are_ignored(tmp_path, edges, roots) -> None:
    config = config_for(tmp_path / "out", edges)
    staging_dir = ended_after(1, config)
    rewritten(staging_dir, lambda record: record.update(roots=roots))
    assert read_journal(staging_dir)[1] == []
    run(config, resume=True)
    assert_nothing_staged(tmp_path / "out")


def test_a_deeply_nested_line_is_ignored(tmp_path, edges) -> None:
    staging_dir = ended_after(1, config_for(tmp_path / "out", edges))
    n_records = len(read_journal(staging_dir)[1])
    text = b"[" * 200_000
    with (staging_dir / JOURNAL_NAME).open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(text), text))
    assert len(read_journal(staging_dir)[1]) == n_records


def test_a_record_with_a_wrong_checksum_is_ignored(tmp_path, edges) -> None:
    """The record states one result too many and is valid otherwise."""
    staging_dir = ended_after(2, config_for(tmp_path / "out", edges))
    before = read_journal(staging_dir)[1]
    header, *lines = (staging_dir / JOURNAL_NAME).read_bytes().splitlines()
    checksum, _, text = lines[-1].partition(b" ")
    record = json.loads(text)
    record["n_found"] += 1
    changed = b"%s %s" % (checksum, json.dumps(record).encode())
    (staging_dir / JOURNAL_NAME).write_bytes(b"\n".join([header, *lines[:-1], changed, b""]))
    assert read_journal(staging_dir)[1] == before[:-1]


def beyond(values: pa.ListArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(values.offsets, pc.add(values.values, 10**9))


WRONG: dict[str, Callable[[pa.Table], pa.Table]] = {
    "beyond": lambda rows: with_column(rows, "right", beyond(rows["right"].combine_chunks())),
    "negative": lambda rows: with_column(
        rows,
        "left",
        pa.ListArray.from_arrays(rows["left"].combine_chunks().offsets, [-1] * int(pc.sum(rows["n_left"]).as_py())),
    ),
    "more than there are": lambda rows: with_column(rows, "n_left", pc.add(rows["n_left"], 10**6)),
    "null": lambda rows: with_column(rows, "left", pa.nulls(rows.num_rows, rows["left"].type)),
    "missing": lambda rows: rows.drop_columns(["right"]),
    "text": lambda rows: with_column(rows, "left", pa.array(["1"] * rows.num_rows)),
}


def with_column(rows: pa.Table, name: str, values: Any) -> pa.Table:
    field = rows.schema.field(name)
    typed = values.cast(field.type) if pa.types.is_list(values.type) else values
    return rows.set_column(rows.schema.get_field_index(name), name, typed)


@pytest.mark.parametrize("wrong", WRONG)
def test_rows_of_another_graph_never_reach_compiled_code(tmp_path, edges, wrong) -> None:
    """Their checksums are right, since the attacker knows the format."""
    config = config_for(tmp_path / "out", edges)
    staging_dir = ended_after(1, config)

    def change(record: dict[str, Any]) -> None:
        for entry in record["files"]:
            path = staging_dir / entry["path"]
            pq.write_table(WRONG[wrong](pq.read_table(path)), path)
            entry.update(bytes=path.stat().st_size, sha256=sha256_of(path))

    rewritten(staging_dir, change)
    with pytest.raises(PublishError, match=r"part-00000\.parquet: its column .* holds no vertices of this graph"):
        run(config, resume=True)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("groups/left_members", lambda array: array + 10**8, "no left vertices of this graph"),
        ("groups/right_members", lambda array: array - 10**3, "no right vertices of this graph"),
        ("groups/left_best_rows", lambda array: array + 10**8, "no left vertices of this graph"),
        ("groups/right_offsets", lambda array: array * 10**6, "no right vertices of this graph"),
        ("groups/surprise", lambda array: array[:1], "no left vertices of this graph"),
        ("run/left_n_bicliques", lambda array: array[:2], "its sums are of another shape"),
        ("run/numbers", lambda _: None, "its sums are of another shape"),
    ],
)
def test_sums_of_another_graph_never_reach_compiled_code(tmp_path, edges, name, change, said) -> None:
    sections = {"output": {"bicliques": False}, "groups": {}}
    config = Config.from_mapping({**sections, **values(tmp_path / "out", edges, **sections)})
    staging_dir = ended_after(1, config)

    def replaced(record: dict[str, Any]) -> None:
        (entry,) = record["files"]
        path = staging_dir / entry["path"]
        with np.load(path) as stored:
            sums = {key: stored[key] for key in stored.files}
        array = change(sums.pop(name))
        np.savez(path, **sums, **({} if array is None else {name: array}))
        entry.update(bytes=path.stat().st_size, sha256=sha256_of(path))

    rewritten(staging_dir, replaced)
    with pytest.raises(PublishError, match=said):
        run(config, resume=True)
