"""Verdicts: concurrent writers of one file, refusals, and how verdicts follow cases into later runs."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbe_stage.pipeline.cases.published import Case
from mbe_stage.pipeline.cases.verdicts import MOST_NOTE, Verdicts, verdicts_path
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.problems.groups.decided import decided_path, decisions_in, verdicts_of
from tests.patience import begun, completed, output_of
from tests.pipeline.groups_support import case_with

ODD_KEYS = ["it's", 'a "b"', "line\nend", "tab\t", "=1+1", "<b>", "ключ", "\x1b[31m", "", 7, -(2**63)]
CASE = case_with("ab" * 8, ODD_KEYS, ["item"], item="fraud")


def test_decisions_are_kept_and_the_newest_counts(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "verdicts.sqlite"
    verdicts = Verdicts.open(path)
    assert (verdicts.current(), verdicts.history(CASE.id), path.exists()) == ({}, [], False)
    first = verdicts.label(CASE, "run 1", "fine", 'it\'s\n"fine"', who="ann")
    verdicts.label(case_with("cd" * 8, ["x"]), "run 1", "fraud", who="bob")
    second = verdicts.label(CASE, "run 2", "open")
    assert first["note"] == 'it\'s\n"fine"'
    assert second["who"]
    assert verdicts.history(CASE.id) == [first, second]
    assert list(Verdicts.open(path).current()) == ["cd" * 8, CASE.id]
    (_, row) = verdicts.current().values()
    assert {*row["members"]} == {*(("left", str(key), None) for key in ODD_KEYS), ("right", "item", "fraud")}
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    table = decisions_in(path)
    assert (table.num_rows, set(table["case"].to_pylist())) == (len(ODD_KEYS) + 2, {CASE.id, "cd" * 8})


def test_processes_and_threads_that_label_at_once_lose_nothing(tmp_path: Path) -> None:
    """The file does not exist yet, so they also race to create it."""
    path = tmp_path / "verdicts.sqlite"
    code = (
        "import sys; from types import SimpleNamespace as Case\n"
        "from mbe_stage.pipeline.cases.verdicts import Verdicts\n"
        "case = Case(id=sys.argv[2] * 16, members=({'side': 'left', 'key': 'k', 'label': None},))\n"
        "verdicts = Verdicts.open(sys.argv[1])\n"
        "for i in range(8): verdicts.label(case, str(i), 'fraud')\n"
    )
    processes = [begun([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    found: list[BaseException] = []

    def label() -> None:
        try:
            for i in range(8):
                Verdicts(path).label(CASE, str(i), "fine")
                Verdicts(path).current()
        except BaseException as error:  # noqa: BLE001 - a thread would lose it
            found.append(error)

    threads = [threading.Thread(target=label) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [output_of(process)[1] for process in processes] == [b"", b""]
    assert not found
    assert [len(Verdicts(path).history(name)) for name in ("a" * 16, "b" * 16, CASE.id)] == [8, 8, 16]


def test_a_process_that_is_killed_while_it_writes_leaves_no_part_of_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.sqlite"
    Verdicts(path).label(CASE, "run", "fine")
    code = (
        "import os, sqlite3, sys\n"
        "one = sqlite3.connect(sys.argv[1], isolation_level=None); one.execute('BEGIN IMMEDIATE')\n"
        "one.execute(\"INSERT INTO verdicts VALUES (9, 'x', 'fine', '', '', '', '')\")\n"
        "os._exit(9)\n"
    )
    assert completed([sys.executable, "-c", code, str(path)]).returncode == 9
    assert list(Verdicts.open(path).current()) == [CASE.id]
    Verdicts(path).label(CASE, "run", "fraud")
    assert len(Verdicts(path).history(CASE.id)) == 2


def changed(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()

    return change


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON verdicts BEGIN DELETE FROM verdicts WHERE number < new.number; END"


def endless_view(path: Path) -> None:
    changed("DROP TABLE members")(path)
    numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
    changed(f"CREATE VIEW members AS {numbers} SELECT n AS number, '' AS side, '' AS key, '' AS label FROM c")(path)


def foreign(path: Path) -> None:
    path.unlink()
    changed("CREATE TABLE verdicts (case_id, verdict)")(path)


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (torn, "damaged|cannot be read"),
        (lambda path: path.write_bytes(b"not a database, but as long as the header of one" * 9), "cannot be read"),
        (lambda path: path.write_bytes(b""), "another program"),
        (foreign, "another program"),
        (as_directory, "no regular file|not a regular file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file"),
        (changed("PRAGMA user_version = 2"), "schema version 2; expected 1; use the version of mbe-stage"),
        (changed("UPDATE verdicts SET verdict = 'guilty'"), "'guilty'"),
        (changed("UPDATE verdicts SET note = x'00ff'"), "expected one of fraud, fine, open, and text"),
        (changed("UPDATE verdicts SET at = 'yesterday'"), "the time 'yesterday'"),
        (changed("UPDATE members SET side = 'top'"), "'top'"),
        (changed("DROP TABLE members"), "has other tables, views or triggers"),
        (endless_view, "has other tables, views or triggers"),
        (changed(TRIGGER), "has other tables, views or triggers"),
    ],
)
def test_other_files_are_refused_in_one_line_and_stay_as_they_are(
    tmp_path: Path, damage: Callable[[Path], Any], message: str
) -> None:
    path = tmp_path / "verdicts.sqlite"
    Verdicts(path).label(CASE, "run", "fine")
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises((InputError, PublishError), match=message) as caught:
        Verdicts(path).current()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"verdict": "guilty"}, "the verdict 'guilty'; expected one of fraud, fine, open"),
        ({"note": "x" * (MOST_NOTE + 1)}, "a note of 10,001 characters"),
        ({"note": "\udc80"}, "a note that is not UTF-8"),
        ({"who": "\udc80"}, "a name of the author that is not UTF-8"),
        ({"who": " "}, "an empty name of the author"),
    ],
)
def test_invalid_verdicts_are_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    verdicts = Verdicts(tmp_path / "verdicts.sqlite")
    with pytest.raises(InputError, match=message):
        verdicts.label(CASE, "run", **{"verdict": "fine", **values})
    assert not verdicts.path.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_read_and_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "read only"
    verdicts = Verdicts(folder / "verdicts.sqlite")
    verdicts.label(CASE, "run", "fine")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert list(verdicts.current()) == [CASE.id]
        for path in (verdicts.path, folder / "other.sqlite"):
            with pytest.raises(PublishError, match="expected a file that this user can write"):
                Verdicts(path).label(CASE, "run", "fraud")
    finally:
        folder.chmod(stat.S_IRWXU)


def test_a_file_without_write_access_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a directory of another user; this also works for root."""
    verdicts = Verdicts(tmp_path / "verdicts.sqlite")
    verdicts.label(CASE, "run", "fine")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert list(verdicts.current()) == [CASE.id]
    assert [path.name for path in tmp_path.iterdir()] == ["verdicts.sqlite"]
    with pytest.raises(PublishError, match=r"no permission.*expected a file that this user can write"):
        verdicts.label(CASE, "run", "fraud")


def test_an_address_has_no_default_file() -> None:
    assert verdicts_path("out") == Path("out/verdicts.sqlite")
    for directory, found in (("out", Path("out/verdicts.sqlite")), ("s3://bucket/out", None)):
        assert decided_path(Config.from_mapping({"output": {"directory": directory}, "groups": {}})) == found


# --- the cases that verdicts follow -------------------------------------------------------------------------------


def decided(tmp_path: Path, *decisions: tuple[str, str, list[str]], **labels: str) -> pa.Table:
    path = tmp_path / "verdicts.sqlite"
    for name, verdict, left in decisions:
        Verdicts(path).label(case_with(name, left, **labels), "run", verdict)  # type: ignore[arg-type]
    return decisions_in(path)


def cases(**lefts: str) -> list[Case]:
    """Cases with one left member for each character; upper case marks a known case."""
    return [
        case_with(name, left.lower(), **{key.lower(): "fraud" for key in left if key.isupper()})
        for name, left in lefts.items()
    ]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        ("abcdef", "fine"),
        ("abc", "fine"),
        ("abx", None),
        ("abcdefx", "fine"),
        ("abcdefxy", "open"),
        ("abcxy", "open"),
        ("abcdeF", "open"),
        ("abcdefX", "open"),
        ("uvwxyz", None),
    ],
)
def test_fine_follows_half_of_the_members_and_reopens(tmp_path: Path, now: str, verdict: str | None) -> None:
    for name in ("c", "another id"):
        assert verdicts_of(cases(**{name: now}), decided(tmp_path, ("c", "fine", [*"abcdef"])), {"fraud"}) == (
            {} if verdict is None else {name: verdict}
        )


def test_an_already_known_case_reopens_nothing(tmp_path: Path) -> None:
    table = decided(tmp_path, ("c", "fine", [*"abcdef"]), f="fraud")
    assert verdicts_of(cases(c="abcdeF"), table, {"fraud"}) == {"c": "fine"}
    assert verdicts_of(cases(c="abcdEF"), table, {"fraud"}) == {"c": "open"}
    # The label's class is no class of known cases.
    assert verdicts_of(cases(c="abcdEF"), table, set()) == {"c": "fine"}


def test_fraud_stays_fraud_while_half_of_the_members_stay(tmp_path: Path) -> None:
    table = decided(tmp_path, ("c", "fraud", [*"abcd"]))
    assert verdicts_of(cases(c="abXYZuvw"), table, {"fraud"}) == {"c": "fraud"}
    assert verdicts_of(cases(c="aXYZ"), table, {"fraud"}) == {}


def test_a_verdict_follows_one_case(tmp_path: Path) -> None:
    """Two cases may have the same accounts but different items; the verdict belongs to one of them."""
    table = decided(tmp_path, ("c", "fine", [*"abcd"]))
    assert verdicts_of(cases(b="abcd", c="abcd"), table, set()) == {"c": "fine"}
    assert verdicts_of(cases(a="ab", b="abcd", d="abc"), table, set()) == {"b": "fine"}
    table = decided(tmp_path, ("c", "open", [*"abcd"]), ("d", "fraud", [*"abc"]))
    assert verdicts_of(cases(c="abcd"), table, set()) == {"c": "open"}
    assert verdicts_of(cases(x="abcd"), table, set()) == {"x": "open"}


LEFTS = st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.sampled_from("pqrst"), LEFTS), max_size=4, unique_by=lambda each: each[0]), st.data())
def test_each_case_has_at_most_one_verdict_of_a_decision_that_fits(
    decisions: list[tuple[str, set[str]]], data: st.DataObject
) -> None:
    now = data.draw(st.dictionaries(st.sampled_from("pqrst"), LEFTS, max_size=4))
    rows = [
        {"case": name, "verdict": verdict, "side": "left", "key": key, "label": None}
        for place, (name, left) in enumerate(decisions)
        for key in sorted(left)
        for verdict in [f"{place}"]
    ]
    table = pa.Table.from_pylist(
        rows, pa.schema([(n, pa.string()) for n in ("case", "verdict", "side", "key", "label")])
    )
    found = verdicts_of([case_with(name, left) for name, left in now.items()], table, set())
    assert len(set(found.values())) == len(found)
    for case, place in found.items():
        left = decisions[int(place)][1]
        assert Fraction(len(now[case] & left), len(left)) >= Fraction(1, 2)
    for place, (name, left) in enumerate(decisions):
        # A case keeps the decision with its own id if that decision fits.
        if name in now and 2 * len(now[name] & left) >= len(left):
            assert found[name] == f"{place}"


def test_rows_are_json_for_the_fingerprint(tmp_path: Path) -> None:
    from mbe_stage.pipeline.problems.groups.decided import fingerprint_of_decisions

    table = decided(tmp_path, ("c", "fine", ODD_KEYS[:5]))
    assert fingerprint_of_decisions(table) == fingerprint_of_decisions(decisions_in(tmp_path / "verdicts.sqlite"))
    assert fingerprint_of_decisions(table.slice(1)) != fingerprint_of_decisions(table)
    assert json.loads(json.dumps(table.slice(0, 1).drop_columns("at").to_pylist()))
