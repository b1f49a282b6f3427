"""Every field of the manifest is recomputed by `verify_run`, or listed as not verifiable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.plugin_sections import is_here
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import PublishError, VerificationError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import run as run_pipeline
from mbe_stage.pipeline.publish.manifest import config_fingerprint, read_manifest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.fields import (
    READING,
    REPORT_NOTE,
    UNTOLD,
    UNTOLD_NOTE,
    settings_by_effect,
    standing_notes,
)
from tests.pipeline.test_verify import edge_data, edit_manifest, edit_rows, matrix, publish, refresh_files

# Valid values of fields, at least one of them other than the field's own.
_OTHERS = {
    str: ["other", "1GiB", "no", "integer", "csv", "0" * 64, "cpu", "drop", "none", "fail"],
    int: [1, 2, 3, 77, 1 << 29],
    float: [0.125],
    bool: [True, False],
    type(None): [2, 7, "7", 0.5, True, ";", 1 << 29, {"run_id": "forged"}, {"seconds": 1, "skew": 0, "each": []}],
}


def _names(fields: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(f"{section}.{name}".lstrip(".") for section, names in fields.items() for name in names)


_UNTOLD = _names(UNTOLD)
# Forgeries of a field outside the configuration, found by its check; more would repeat them.
_ENOUGH = 2
# Sections without any valid value in a run without derived outputs.
_OF_DERIVED = {"derived", "derived_inputs", "derived_comparison"}


@pytest.fixture(scope="module")
def edges() -> EdgeData:
    return edge_data(matrix())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, edges: EdgeData) -> Path:
    directory = tmp_path_factory.mktemp("fields")
    return publish(directory, edges, output={"report": True}, query={"containing_left": ["person 01"]})


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the paths of all leaf values; an empty list or object counts as one."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def forgeries(value: Any) -> list[Any]:
    """Return other values. Some of them are valid in this place."""
    if isinstance(value, list):
        return [["forged"]]
    if isinstance(value, dict):
        return [{"forged": "forged"}]
    return [other for other in _OTHERS[type(value)] if other != value]


def put(values: Any, path: tuple, new: Any) -> None:
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = new


@pytest.mark.parametrize("recomputed", [False, True], ids=["fingerprint as it was", "fingerprint recomputed"])
def test_every_field_is_checked_or_listed(tmp_path: Path, run: Path, edges: EdgeData, recomputed: bool) -> None:
    """If this fails for a new field: recompute it, or list it in `UNTOLD` of pipeline/verify/fields.py.

    Another configuration has another fingerprint; a forged setting must also be found without it.
    """
    copy = tmp_path / "runs" / run.name
    shutil.copytree(run, copy)
    by_effect = _names(settings_by_effect(read_manifest(copy)))
    assert verify_run(copy, edges).not_checked == standing_notes(read_manifest(copy))
    text = (copy / "manifest.json").read_text()
    values = json.loads(text)
    # Other fields do not change the fingerprint, so forging them once is enough.
    places = [path for path in leaves(values) if not recomputed or path[0] == "config"]
    names = {path: ".".join(key for key in path if isinstance(key, str)) for path in places}
    passed, seen = set(), set()
    for path, name in names.items():
        found = 0
        for forged in forgeries(_at(values, path)):
            if found == _ENOUGH and path[0] != "config":
                break
            try:
                report = verify_run(_forged(copy, text, path, forged, recomputed), edges)
            except VerificationError:
                seen.add(name)
                found += 1
                if path[0] == "config" and not recomputed:
                    # Found by the fingerprint, which finds the others too.
                    break
                continue
            except PublishError:
                # Not a valid value of this field: try the next.
                continue
            listed = any(name == field or name.startswith(f"{field}.") for field in (*_UNTOLD, *by_effect))
            listed = listed or any(_lists(note, name) for note in report.not_checked)
            assert listed, f"{name}: {forged!r} instead of {_at(values, path)!r} is neither found nor listed"
            passed.add(name)
    # Fields listed in `UNTOLD` are found at most by an outdated fingerprint.
    assert {"config.input.path", "config.execution.engine", "config.output.keep_runs"} <= passed
    assert not recomputed or not seen & set(_UNTOLD)
    # Settings listed by their effect are found if the result contradicts them. This run is complete at any limit.
    assert set(by_effect) - {"config.execution.time_limit_seconds"} <= seen
    assert {"config.output.members", "config.output.report", "config.output.compression"} <= seen
    # Readers refuse any other value: a problem that is not installed, filters without their columns, a run without
    # output, the limit of another problem. Outside of the configuration: counts of missing outputs, and facts of a
    # graph without sides.
    never = {"config.problem", "config.input.min_weight", "config.output.bicliques", "config.execution.max_cliques"}
    never.add("config.input.decimal")
    never |= {f"config.input.time_{name}" for name in ("from", "until", "bucket", "offset")}
    # How the search was run: readers refuse contradictions, and the other values are alike.
    never |= {f"config.execution.{name}" for name in ("runner", "cluster", "workers", "devices")}
    assert set(names.values()) - seen - passed == never | (set() if recomputed else {"input.undirected", *_OF_DERIVED})
    if not recomputed:
        assert {"config_fingerprint", "run_id", "input.rows_read", "input.duplicate_edges"} <= seen
        assert {"content_fingerprint", "counts.max_edges", "config.output.top"} <= seen
        assert {"created_at", "engine", "device"} <= passed
        # Only fields are listed.
        listed_names = (*_UNTOLD, *by_effect)
        assert all(any(f"{name}.".startswith(f"{field}.") for name in names.values()) for field in listed_names)


def _forged(run: Path, text: str, path: tuple, new: Any, recomputed: bool) -> Path:
    """Return the run with another value in its manifest, and the fingerprint that goes with it."""
    values = json.loads(text)
    put(values, path, new)
    (run / "manifest.json").write_text(json.dumps(values))
    # Only an installed problem can tell its query.
    if recomputed and is_here(read_manifest(run).problem):
        fingerprint = config_fingerprint(read_manifest(run).config)
        (run / "manifest.json").write_text(json.dumps({**values, "config_fingerprint": fingerprint}))
    return run


def test_a_forged_report_is_listed(tmp_path: Path, run: Path, edges: EdgeData) -> None:
    copy = tmp_path / "runs" / run.name
    shutil.copytree(run, copy)
    (copy / "report.html").write_text("forged")
    refresh_files(copy)
    assert REPORT_NOTE in verify_run(copy, edges).not_checked
    assert REPORT_NOTE.startswith("report.html: contents")


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("setting", "missing"), [("report", r"report\.html"), ("members", "members")])
def test_a_report_or_table_is_there_exactly_when_it_is_asked_for(
    tmp_path: Path, edges: EdgeData, setting: str, missing: str, there: bool
) -> None:
    run = publish(tmp_path, edges, output={setting: there})
    notes = verify_run(run, edges).not_checked
    assert (REPORT_NOTE in notes) is (there and setting == "report")
    path = ("config", "output", setting)
    _forged(run, (run / "manifest.json").read_text(), path, not there, recomputed=True)
    with pytest.raises(VerificationError, match=missing):
        verify_run(run, edges)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path, edges)
    for name in ("notes.txt", "bicliques/notes.txt"):
        (run / name).write_text("forged")
        refresh_files(run)
        with pytest.raises(VerificationError, match=r"notes\.txt: is not one of the tables of the config"):
            verify_run(run)
        (run / name).unlink()


@pytest.mark.parametrize("codec", ["zstd", "snappy", "lz4", "none"])
def test_the_footers_say_the_codec(tmp_path: Path, edges: EdgeData, codec: str) -> None:
    run = publish(tmp_path, edges, output={"compression": codec})
    report = verify_run(run)
    assert "compression" in next(check.detail for check in report.checks if check.name == "manifest fields")
    text = (run / "manifest.json").read_text()
    for other in {"zstd", "snappy", "lz4", "none"} - {codec}:
        _forged(run, text, ("config", "output", "compression"), other, recomputed=True)
        if codec == "none":
            # Uncompressed columns may just not have become smaller.
            note = "config.output: compression: no column of the tables is compressed"
            assert note in verify_run(run).not_checked
        else:
            with pytest.raises(VerificationError, match=f"output.compression of the config is {other}"):
                verify_run(run)


def test_one_table_with_another_codec_is_refused(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path, edges)
    path = run / "size_histogram.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip")
    refresh_files(run)
    with pytest.raises(VerificationError, match=r"size_histogram\.parquet, column 'n_left': is compressed with GZIP"):
        verify_run(run)
    # A column that compression would not make smaller.
    pq.write_table(pq.read_table(path), path, compression="none")
    refresh_files(run)
    verify_run(run)


def test_without_the_input_two_hop_degrees_are_complete_or_absent(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path, edges)
    text = (run / "manifest.json").read_text()
    _forged(run, text, ("config", "output", "two_hop_steps"), 0, recomputed=True)
    with pytest.raises(VerificationError, match=r"0 of 14 two_hop_degree are null; .* expected all"):
        verify_run(run)
    (run / "manifest.json").write_text(text)
    edit_rows(run / "right_vertices.parquet", lambda rows: rows[3].update(two_hop_degree=None))
    refresh_files(run)
    with pytest.raises(VerificationError, match=r"1 of 11 two_hop_degree are null; .* expected none or all"):
        verify_run(run)


def test_an_unrequested_comparison_is_refused(tmp_path: Path, edges: EdgeData) -> None:
    run = publish(tmp_path, edges, output={"compare": 0})
    edit_manifest(run, lambda values: values.update(comparison={"run_id": "forged"}))
    with pytest.raises(VerificationError, match=r"comparison is set, but output\.compare of its config is 0"):
        verify_run(run)


def test_counts_of_an_unrequested_output_are_refused(tmp_path: Path, run: Path) -> None:
    shutil.copytree(run, tmp_path / "runs" / run.name)
    edit_manifest(tmp_path / "runs" / run.name, lambda values: values.update(derived={"forged": {"rows": 1}}))
    with pytest.raises(VerificationError, match="derived holds forged; expected nothing, by its config"):
        verify_run(tmp_path / "runs" / run.name)


def _at(values: Any, path: tuple) -> Any:
    for key in path:
        values = values[key]
    return values


def _lists(note: str, name: str) -> bool:
    """Return whether an entry of `not_checked` names a field: `section: field, field: why`."""
    section, _, field = name.rpartition(".")
    return note.startswith(f"{section}: ") and field in note.removeprefix(f"{section}: ").split(":")[0].split(", ")


def test_the_note_names_every_untold_field() -> None:
    for section, names in UNTOLD.items():
        for name in names:
            assert name in UNTOLD_NOTE
        assert section in UNTOLD_NOTE


@pytest.mark.parametrize(
    "name", ["rows_read", "rows_dropped_null", "rows_dropped_weight", "rows_dropped_time", "duplicate_edges", "n_edges"]
)
def test_row_counts_are_checked_against_the_input(tmp_path: Path, name: str) -> None:
    """Wrong figures are found even if they still add up."""
    path = tmp_path / "e.csv"
    path.write_text("l,r,w\na,1,5\na,1,6\nb,1,5\nb,2,5\n,2,5\nc,2,1\n")
    config = Config.from_mapping(
        {
            "input": {"path": str(path), "nulls": "drop", "weight": "w", "min_weight": 2},
            "execution": {"engine": "reference"},
            "output": {"directory": str(tmp_path / "out")},
        }
    )
    run = run_pipeline(config).run_dir
    facts = json.loads((run / "manifest.json").read_text())["input"]
    assert (facts["rows_read"], facts["rows_dropped_null"], facts["rows_dropped_weight"]) == (6, 1, 1)
    assert facts["duplicate_edges"] == 1
    report = verify_run(run, ingest(config.input))
    assert report.not_checked == standing_notes(read_manifest(run))
    assert "reading" in [check.name for check in report.checks]
    if name == "n_edges":
        changes = {"n_edges": facts["n_edges"] + 1, "rows_read": facts["rows_read"] + 1}
    elif name == "rows_read":
        changes = {"rows_read": facts["rows_read"] + 5, "duplicate_edges": facts["duplicate_edges"] + 5}
    else:
        changes = {name: facts[name] + 5, "rows_read": facts["rows_read"] + 5}
    edit_manifest(run, lambda values: values["input"].update(changes))
    with pytest.raises(VerificationError, match=r"manifest\.json: input\.\w+ is \d+"):
        verify_run(run, ingest(config.input))


def test_without_the_input_its_fields_are_listed(run: Path) -> None:
    notes = verify_run(run).not_checked
    note = next(note for note in notes if note.startswith("input: "))
    assert {"rows_read", "duplicate_edges", "fingerprint", "source"} <= set(note.split(": ")[1].split(", "))
    assert UNTOLD_NOTE in notes


def test_another_file_of_the_same_edges_is_named(run: Path, edges: EdgeData) -> None:
    other = replace(edges, facts=replace(edges.facts, source="elsewhere.csv", rows_read=999, format="csv"))
    notes = verify_run(run, other).not_checked
    assert "input: source, format, rows_read: the input read now was elsewhere.csv, not memory:test" in notes
    assert set(READING) >= {"format", "rows_read"}


def test_a_manifest_without_columns_is_read_and_listed(tmp_path: Path, run: Path, edges: EdgeData) -> None:
    """Manifests of earlier versions do not state columns."""
    copy = tmp_path / "runs" / run.name
    shutil.copytree(run, copy)
    edit_manifest(copy, lambda values: values["input"].pop("columns"))
    assert "input: columns: not in the manifest" in verify_run(copy, edges).not_checked
    edit_manifest(
        copy, lambda values: values["input"].update(columns=[{"setting": "left", "position": 1, "name": "x"}])
    )
    with pytest.raises(
        VerificationError, match=r"input.columns is left 1 'x'; recomputed left 0 'person', right 1 None"
    ):
        verify_run(copy, edges)


def test_a_run_that_was_copied_elsewhere_may_have_another_name(tmp_path: Path, run: Path, edges: EdgeData) -> None:
    shutil.copytree(run, tmp_path / "backup")
    assert any("run_id" in note for note in verify_run(tmp_path / "backup", edges).not_checked)


def test_progress_reaches_the_end(run: Path, edges: EdgeData) -> None:
    shares: list[float] = []
    verify_run(run, edges, on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] == 1.0
    assert len(set(shares)) >= 5


def test_long_keys_are_hashed_without_a_step_of_python_per_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of NumPy calls must not grow with the length of a key."""
    from mbe_stage.pipeline.verify import recipe

    calls = []
    real = recipe.np.searchsorted
    monkeypatch.setattr(recipe.np, "searchsorted", lambda *args, **more: (calls.append(1), real(*args, **more))[1])
    recipe.text_hashes(pa.array(["k" * 20_000, "q"]))
    assert len(calls) < 100


def test_messages_do_not_quote_whole_keys(tmp_path: Path) -> None:
    left = pa.array([letter * 100_000 for letter in "abc"])
    tables = {"left": left, "right": pa.array([1, 2, 3])}
    pairs = [(left[i].as_py(), j) for i in range(3) for j in (1, 2, 3) if i + 1 != j]
    edges = ingest(Config.from_mapping({}).input, pa.table({"l": [p[0] for p in pairs], "r": [p[1] for p in pairs]}))
    run = publish(tmp_path, edges)
    smaller = ingest(Config.from_mapping({}).input, pa.table(tables))
    with pytest.raises(VerificationError) as caught:
        verify_run(run, replace(edges, left_ids=smaller.left_ids, right_ids=smaller.right_ids))
    assert len(str(caught.value)) < 2_000
