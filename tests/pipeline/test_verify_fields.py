"""Every field of the manifest is recomputed by `verify_run`, or listed as something that nothing tells."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.config import Config
from pipeline.edges import EdgeData
from pipeline.errors import PublishError, VerificationError
from pipeline.ingest import ingest
from pipeline.job import run as run_pipeline
from pipeline.verify import verify_run
from pipeline.verify.fields import READING, UNTOLD, UNTOLD_NOTE
from tests.pipeline.test_verify import edge_data, edit_manifest, matrix, publish

# Values of a field that are valid, one of which is not what it is.
_OTHERS = {
    str: ["other", "1GiB", "no", "integer", "csv", "0" * 64, "cpu", "drop", "none"],
    int: [1, 2, 3, 77, 1 << 29],
    float: [0.125],
    bool: [True, False],
    type(None): [7, "7", 0.5, True, ";", 1 << 29, {"run_id": "forged"}],
}
_UNTOLD = tuple(f"{section}.{name}".lstrip(".") for section, names in UNTOLD.items() for name in names)


@pytest.fixture(scope="module")
def edges() -> EdgeData:
    return edge_data(matrix())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, edges: EdgeData) -> Path:
    directory = tmp_path_factory.mktemp("fields")
    return publish(directory, edges, output={"report": True}, query={"containing_left": ["person 01"]})


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The places of all values that hold no others; an empty list or object counts as one."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def forgeries(value: Any) -> list[Any]:
    """Other values: some are valid in this place."""
    if isinstance(value, list):
        return [["forged"]]
    if isinstance(value, dict):
        return [{"forged": "forged"}]
    return [other for other in _OTHERS[type(value)] if other != value]


def put(values: Any, path: tuple, new: Any) -> None:
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = new


def test_every_field_is_checked_or_listed(tmp_path: Path, run: Path, edges: EdgeData) -> None:
    """Where this fails for a new field: recompute it, or list it in `UNTOLD` of pipeline/verify/fields.py."""
    copy = tmp_path / "runs" / run.name
    shutil.copytree(run, copy)
    assert verify_run(copy, edges).not_checked == [UNTOLD_NOTE]
    text = (copy / "manifest.json").read_text()
    passed, seen = set(), set()
    for path in leaves(json.loads(text)):
        name = ".".join(key for key in path if isinstance(key, str))
        for forged in forgeries(_at(json.loads(text), path)):
            values = json.loads(text)
            put(values, path, forged)
            (copy / "manifest.json").write_text(json.dumps(values))
            try:
                report = verify_run(copy, edges)
            except VerificationError:
                seen.add(name)
                continue
            except PublishError:
                # No valid value of this field: the next.
                continue
            untold = any(name == field or name.startswith(f"{field}.") for field in _UNTOLD)
            listed = untold or any(_lists(note, name) for note in report.not_checked)
            assert listed, f"{name}: {forged!r} instead of {_at(json.loads(text), path)!r} is neither found nor listed"
            passed.add(name)
    assert {"config_fingerprint", "run_id", "input.rows_read", "input.duplicate_edges", "content_fingerprint"} <= seen
    assert {"config.query.min_left", "config.output.top", "config.input.key_type", "counts.max_edges"} <= seen
    assert {"created_at", "engine", "device"} <= passed
    # Refused by every reader, whatever it is; a problem that is not installed; counts that are none; and filters
    # that no configuration has without their columns.
    assert {".".join(k for k in path if isinstance(k, str)) for path in leaves(json.loads(text))} - seen - passed == {
        "schema_version",
        "config.problem",
        "derived",
        "config.input.min_weight",
        "config.input.time_from",
        "config.input.time_until",
    }
    # Nothing is listed that is no field.
    names = {".".join(key for key in path if isinstance(key, str)) for path in leaves(json.loads(text))}
    assert all(any(f"{name}.".startswith(f"{field}.") for name in names) for field in _UNTOLD)


def test_counts_of_a_derived_output_that_was_not_asked_for(tmp_path: Path, run: Path) -> None:
    shutil.copytree(run, tmp_path / "runs" / run.name)
    edit_manifest(tmp_path / "runs" / run.name, lambda values: values.update(derived={"forged": {"rows": 1}}))
    with pytest.raises(VerificationError, match="derived holds forged; expected nothing, by its config"):
        verify_run(tmp_path / "runs" / run.name)


def _at(values: Any, path: tuple) -> Any:
    for key in path:
        values = values[key]
    return values


def _lists(note: str, name: str) -> bool:
    """Whether an entry of `not_checked` names a field: `section: field, field: why`."""
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
def test_what_became_of_the_rows_is_held_against_the_input(tmp_path: Path, name: str) -> None:
    """Also where the figures still add up."""
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
    assert report.not_checked == [UNTOLD_NOTE]
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


def test_without_the_input_what_it_would_tell_is_listed(run: Path) -> None:
    notes = verify_run(run).not_checked
    note = next(note for note in notes if note.startswith("input: "))
    assert {"rows_read", "duplicate_edges", "fingerprint", "source"} <= set(note.split(": ")[1].split(", "))
    assert UNTOLD_NOTE in notes


def test_another_file_of_the_same_edges_is_named(run: Path, edges: EdgeData) -> None:
    other = replace(edges, facts=replace(edges.facts, source="elsewhere.csv", rows_read=999, format="csv"))
    notes = verify_run(run, other).not_checked
    assert "input: source, format, rows_read: read again was elsewhere.csv, not memory:test" in notes
    assert set(READING) >= {"format", "rows_read"}


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
    """Ten megabytes took two minutes; the number of NumPy calls must not grow with the length of a key."""
    from pipeline.verify import recipe

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
