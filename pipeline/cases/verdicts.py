"""Verdicts on cases: one SQLite file beside the runs, which keeps every decision with its members, author and time.

Nothing is ever changed in it: a later decision on a case replaces the earlier one, which stays as history. The file is
in WAL mode, so several processes can read and write it. Each call opens it anew, so threads may share a `Verdicts`.
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
from mbe_stage.pipeline.stores.address import is_address

if TYPE_CHECKING:
    from mbe_stage.pipeline.cases.published import Case

Verdict = Literal["fraud", "fine", "open"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FILE_NAME = "verdicts.sqlite"
"""The file beside `runs` in an output directory."""

MOST_NOTE = 10_000
"""Characters of a note."""

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
_ROWS = "SELECT number, case_id, verdict, note, who, at, run_id FROM verdicts"
_NEWEST = f"{_ROWS} WHERE number IN (SELECT max(number) FROM verdicts GROUP BY case_id) ORDER BY number"
# Seconds to wait for other writers.
_PATIENCE = 20


def verdicts_path(out_dir: str | Path) -> Path:
    """Return the default file of an output directory.

    Raises
    ------
    InputError
        The directory is at an address, where SQLite cannot write.
    """
    if is_address(str(out_dir)):
        raise InputError.at(
            out_dir,
            found="an address",
            expected="verdicts in a file on this machine",
            remedy="name the file: --verdicts FILE",
        )
    return Path(out_dir) / FILE_NAME


class Verdicts:
    """The decisions in one file.

    Parameters
    ----------
    path : path
        Created by the first `label`; until then there are no decisions.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def open(cls, path: str | Path) -> Verdicts:
        """Return the decisions of a file, which may not exist yet.

        Raises
        ------
        InputError
            It is damaged, of another program or of a later version, or cannot be read.
        """
        verdicts = cls(path)
        with verdicts._reading():
            return verdicts

    def label(
        self, case: Case, run_id: str, verdict: Verdict, note: str = "", who: str | None = None
    ) -> dict[str, Any]:
        """Add a decision on a case of a run, and return it as `history` does.

        Parameters
        ----------
        who : str, optional
            The author; by default the user of this process.

        Raises
        ------
        InputError
            The verdict, note or author cannot be used, or the file is not one of verdicts.
        PublishError
            The file cannot be written.
        """
        who = _user() if who is None else who
        self._check(verdict, note, who)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        members = [(each["side"], str(each["key"]), each["label"]) for each in case.members]
        with self._writing() as connection:
            number = connection.execute(
                "INSERT INTO verdicts (case_id, verdict, note, who, at, run_id) VALUES (?, ?, ?, ?, ?, ?)",
                (case.id, verdict, note, who, at, run_id),
            ).lastrowid
            connection.executemany("INSERT INTO members VALUES (?, ?, ?, ?)", ((number, *each) for each in members))
        return {"case": case.id, "verdict": verdict, "note": note, "who": who, "at": at, "run": run_id}

    def history(self, case_id: str) -> list[dict[str, Any]]:
        """Return the decisions on a case, the first one first: `case`, `verdict`, `note`, `who`, `at` (UTC), `run`."""
        with self._reading() as connection:
            return [row for _, row in self._rows(connection, f"{_ROWS} WHERE case_id = ? ORDER BY number", (case_id,))]

    def current(self) -> dict[str, dict[str, Any]]:
        """Return the newest decision on each case by its id, as `history` does; the oldest first."""
        with self._reading() as connection:
            return {row["case"]: row for _, row in self._rows(connection, _NEWEST)}

    def current_with_members(self) -> list[dict[str, Any]]:
        """Return the rows of `current`, each with its `members`: side, key and label at the time, in order."""
        with self._reading() as connection:
            rows = dict(self._rows(connection, _NEWEST))
            members: dict[int, list[tuple[str, str, str | None]]] = {number: [] for number in rows}
            if connection is not None:
                found = connection.execute("SELECT number, side, key, label FROM members ORDER BY number, side, key")
                for number, side, key, label in found:
                    if number in members:
                        self._check_texts((side, key, label or ""), ("left", "right"), side)
                        members[number].append((side, key, label))
            return [{**row, "members": members[number]} for number, row in rows.items()]

    def _rows(
        self, connection: sqlite3.Connection | None, query: str, values: Iterable[Any] = ()
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        if connection is None:
            return
        for number, *row in connection.execute(query, tuple(values)):
            self._check_texts(row, VERDICTS, row[1])
            self._check_time(row[4])
            yield number, dict(zip(("case", "verdict", "note", "who", "at", "run"), row, strict=True))

    def _check_texts(self, row: Iterable[Any], words: Iterable[str], word: Any) -> None:
        """Refuse values that this module does not write."""
        if word not in words or not all(isinstance(value, str) for value in row):
            raise self._unusable(f"holds {word!r:.80}", f"one of {', '.join(words)}, and text")

    def _check_time(self, at: str) -> None:
        try:
            is_utc = datetime.fromisoformat(at).utcoffset() == timedelta(0)
        except ValueError:
            is_utc = False
        if not is_utc:
            raise self._unusable(f"holds the time {at!r:.80}", "ISO-8601 text in UTC")

    def _check(self, verdict: str, note: str, who: str) -> None:
        if verdict not in VERDICTS:
            raise InputError.at(
                self.path,
                found=f"the verdict {verdict!r:.80}",
                expected=f"one of {', '.join(VERDICTS)}",
                remedy="choose one of them",
            )
        for name, text in (("note", note), ("name of the author", who)):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError.at(
                    self.path, found=f"a {name} that is not UTF-8", expected="text", remedy=f"correct the {name}"
                ) from None
            if len(text) > MOST_NOTE:
                raise InputError.at(
                    self.path,
                    found=f"a {name} of {len(text):,} characters",
                    expected=f"at most {MOST_NOTE:,}",
                    remedy="shorten it, and keep the rest elsewhere",
                )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file for reading; None if there is no file."""
        if not os.path.lexists(self.path):
            yield None
            return
        if not self.path.is_file():
            raise self._unusable("is not a regular file", "a file of verdicts")
        with self._as_errors(), closing(self._opened()) as connection:
            self._check_file(connection)
            yield connection

    def _opened(self) -> sqlite3.Connection:
        """Open the file to read it, also where SQLite cannot create its files beside it."""
        # Only a connection that may write removes the files beside it when it is closed.
        if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK):
            mode = "mode=rw"
        elif Path(f"{self.path}-wal").exists():
            mode = "mode=ro"
        else:
            # Nobody writes now, and SQLite could not create its files here.
            mode = "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?{mode}", uri=True, timeout=_PATIENCE)
        connection.execute("PRAGMA query_only = ON")
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction that is kept as a whole or not at all."""
        try:
            if not os.path.lexists(self.path):
                self._create()
            with self._reading():
                pass
            if not os.access(self.path, os.W_OK) or not os.access(self.path.parent, os.W_OK):
                raise PermissionError("no permission")
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from None
        with (
            self._as_errors(),
            closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as connection,
        ):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have replaced the file since it was read.
            self._check_file(connection)
            yield connection
            connection.execute("COMMIT")

    def _create(self) -> None:
        """Put an empty file in place, complete or not at all; a file of another process stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        growing = self.path.with_name(f".{self.path.name[:200]}.{secrets.token_hex(4)}.part")
        try:
            # Only this process knows the name.
            with closing(sqlite3.connect(growing, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
            with suppress(FileExistsError):
                os.link(growing, self.path)
        except sqlite3.Error as error:
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
            raise InputError.at(
                self.path,
                found=f"schema version {version}",
                expected=str(_SCHEMA_VERSION),
                remedy="use the version of mbe-stage that wrote it",
            )
        (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise self._unusable(f"is damaged ({' '.join(state.split()):.200})", "a file of verdicts")

    @contextmanager
    def _as_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into one line that names the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            # Locked for long, no space, a read-only directory.
            raise self._unwritable(error) from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._unusable(f"cannot be read ({error})", "a file of verdicts") from None

    def _unusable(self, found: str, expected: str) -> InputError:
        remedy = "name another file with --verdicts, or restore it from a copy"
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
        # A container may run under a number without a name.
        return f"user {os.getuid()}"
