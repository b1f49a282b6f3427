"""Verdicts on cases: one SQLite file beside the runs, with every decision, its members, author and time.

Rows are only added: a later decision on a case replaces the earlier one, which stays as history. The file is in WAL
mode, so several processes can read and write it. Each call opens it again, so threads may share a `Verdicts`.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from mbe_stage.pipeline.errors import InputError, PublishError

if TYPE_CHECKING:
    from mbe_stage.pipeline.cases.published import Case

Verdict = Literal["fraud", "fine", "open"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FILE_NAME = "verdicts.sqlite"
"""The file beside `runs` in an output directory."""

MOST_NOTE = 10_000
"""Maximum characters of a note."""

# "mbev", in the header of the file.
_APPLICATION = 0x6D626576
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE verdicts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    case_id TEXT NOT NULL,
    verdict TEXT NOT NULL,
    note TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    run_id TEXT NOT NULL
);
CREATE INDEX verdicts_by_case ON verdicts (case_id, number);
CREATE TABLE members (
    number INTEGER NOT NULL REFERENCES verdicts,
    side TEXT NOT NULL,
    key TEXT NOT NULL,
    label TEXT,
    PRIMARY KEY (number, side, key)
) WITHOUT ROWID;
"""
_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
_ROWS = "SELECT number, case_id, verdict, note, who, at, run_id FROM verdicts"
_NEWEST = f"{_ROWS} WHERE number IN (SELECT max(number) FROM verdicts GROUP BY case_id) ORDER BY number"
# Seconds to wait for other writers.
_PATIENCE = 20


def verdicts_path(out_dir: str | Path) -> Path:
    """Return the default file of a local output directory."""
    return Path(out_dir) / FILE_NAME


class Verdicts:
    """The decisions in one file, which is created by the first `label`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> Verdicts:
        """Return the decisions in a file, which may not exist yet; refuse a damaged file or one of another kind."""
        verdicts = cls(path)
        verdicts._read("SELECT 1")
        return verdicts

    def label(
        self, case: Case, run_id: str, verdict: Verdict, note: str = "", who: str | None = None
    ) -> dict[str, Any]:
        """Add a decision on a case of a run, and return it as `history` does; the default author is the user."""
        who = _user() if who is None else who
        self._check_given(verdict, note, who)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        members = [(each["side"], str(each["key"]), each["label"]) for each in case.members]
        if not os.path.lexists(self.path):
            self._create()
        with self._opened(writes=True) as connection:
            number = connection.execute(
                "INSERT INTO verdicts (case_id, verdict, note, who, at, run_id) VALUES (?, ?, ?, ?, ?, ?)",
                (case.id, verdict, note, who, at, run_id),
            ).lastrowid
            connection.executemany("INSERT INTO members VALUES (?, ?, ?, ?)", ((number, *each) for each in members))
        return {"case": case.id, "verdict": verdict, "note": note, "who": who, "at": at, "run": run_id}

    def history(self, case_id: str) -> list[dict[str, Any]]:
        """Return the decisions on a case, oldest first: `case`, `verdict`, `note`, `who`, `at` (UTC), `run`."""
        return [row for _, row in self._rows(f"{_ROWS} WHERE case_id = ? ORDER BY number", (case_id,))]

    def current(self) -> dict[str, dict[str, Any]]:
        """Return the newest decision on each case by its id, oldest first.

        They are as in `history`, with their `members`: side, key and label at the time, in order.
        """
        rows = dict(self._rows(_NEWEST))
        members: dict[int, list[tuple[str, str, str | None]]] = {number: [] for number in rows}
        for number, side, key, label in self._read("SELECT * FROM members ORDER BY number, side, key"):
            if number in members:
                self._check(side, ("left", "right"), (side, key, label or ""))
                members[number].append((side, key, label))
        return {row["case"]: {**row, "members": members[number]} for number, row in rows.items()}

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, *row in self._read(query, values):
            self._check(row[1], VERDICTS, row)
            found = dict(zip(("case", "verdict", "note", "who", "at", "run"), row, strict=True))
            try:
                is_utc = datetime.fromisoformat(found["at"]).utcoffset() == timedelta(0)
            except ValueError:
                is_utc = False
            if not is_utc:
                raise self._unusable(f"holds the time {found['at']!r:.80}", "ISO-8601 text in UTC")
            yield number, found

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if not os.path.lexists(self.path):
            return []
        with self._opened() as connection:
            return connection.execute(query, values).fetchall()

    def _check(self, word: Any, words: Iterable[str], row: Iterable[Any]) -> None:
        """Refuse values that this module does not write."""
        if word not in words or not all(isinstance(value, str) for value in row):
            raise self._unusable(f"holds {word!r:.80}", f"one of {', '.join(words)}, and text")

    def _check_given(self, verdict: str, note: str, who: str) -> None:
        found, expected = "", "text"
        if verdict not in VERDICTS:
            found, expected = f"the verdict {verdict!r:.80}", f"one of {', '.join(VERDICTS)}"
        if not who.strip():
            found = "an empty name of the author"
        for name, text in (("note", note), ("name of the author", who)):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                found = f"a {name} that is not UTF-8"
            if len(text) > MOST_NOTE:
                found, expected = f"a {name} of {len(text):,} characters", f"at most {MOST_NOTE:,}"
        if found:
            raise InputError.at(self.path, found=found, expected=expected, remedy="correct it")

    @contextmanager
    def _opened(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file, even if SQLite cannot create its side files; a write is kept as a whole or not at all.

        SQLite's errors become one line that names the file.
        """
        if not self.path.is_file():
            raise self._unusable("is not a regular file", "a file of verdicts")
        # Only a connection with write access removes the side files when it closes.
        mode = "mode=rw"
        if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
            if writes:
                raise self._unwritable("no permission")
            # Without a WAL file there is no writer, and SQLite could not create its side files here.
            mode = "mode=ro" if Path(f"{self.path}-wal").exists() else "mode=ro&immutable=1"
        uri = f"{self.path.absolute().as_uri()}?{mode}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE" if writes else "PRAGMA query_only = ON")
                self._check_file(connection)
                yield connection
                if writes:
                    connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            # Locked for too long, no space, or a read-only directory.
            raise self._unwritable(error) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._unusable(f"cannot be read ({error})", "a file of verdicts") from None

    def _create(self) -> None:
        """Create an empty file, completely or not at all; a file from another process stays."""
        growing = self.path.with_name(f".{self.path.name[:200]}.{secrets.token_hex(4)}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # No other process knows the name.
            with closing(sqlite3.connect(growing, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
            with suppress(FileExistsError):
                os.link(growing, self.path)
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from None
        finally:
            for end in ("", "-wal", "-shm"):
                Path(f"{growing}{end}").unlink(missing_ok=True)

    def _check_file(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA trusted_schema = OFF")
        (application,), (version,) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        if application != _APPLICATION:
            raise self._unusable("is a file of another program", "a file of verdicts")
        if version != _SCHEMA_VERSION:
            remedy = "use the version of mbe-stage that wrote it"
            raise self._unusable(f"schema version {version}", str(_SCHEMA_VERSION), remedy)
        with closing(sqlite3.connect(":memory:")) as ours:
            expected = ours.executescript(_SCHEMA).execute(_OBJECTS).fetchall()
        # Foreign views may never end, and foreign triggers may change decisions.
        if connection.execute(_OBJECTS).fetchall() != expected:
            raise self._unusable("has other tables, views or triggers", "those that mbe cases label makes")
        (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise self._unusable(f"is damaged ({' '.join(state.split()):.200})", "a file of verdicts")

    def _unusable(
        self, found: str, expected: str, remedy: str = "name another file with --verdicts, or restore it from a copy"
    ) -> InputError:
        return InputError.at(self.path, found=found, expected=expected, remedy=remedy)

    def _unwritable(self, why: object) -> PublishError:
        return PublishError(
            f"{self.path}: cannot be opened for verdicts ({why}); expected a file that this user can write, in a "
            "directory of this machine that is not read-only; name another with --verdicts FILE"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container's user may be a number without a name.
        return f"user {os.getuid()}"
