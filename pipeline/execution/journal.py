"""What of a run that has not ended is on the disk: a journal of finished tasks, each record with its files.

A record says: everything below these roots is in these files, and nothing else is. So every set of records is a state
to go on from: where a file of one is lost or damaged, its roots are searched again, and the others stay. A line is a
checksum and JSON; the first has what was asked, of which edges, with which software. The last line may be torn by what
ended the process: then it is none.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.problems.derived_inputs import inputs_of
from mbe_stage.pipeline.publish.listing import asked
from mbe_stage.pipeline.publish.manifest import FileEntry, file_entry, question, software_versions
from mbe_stage.pipeline.publish.run_store import JOURNAL_NAME, sync
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, as_file, stored_entries
from mbe_stage.pipeline.safe_paths import is_file_within
from mbe_stage.pipeline.wording import percent_text
from mbe_stage.tasks import Roots, Task, without

__all__ = [
    "Header",
    "Journal",
    "Record",
    "begun_journal",
    "booked_entries",
    "changes",
    "header_of",
    "read_journal",
    "remove_unbooked",
]

log = logging.getLogger(__name__)

VERSION = 2
KEPT = "kept: %s results more, about %s of the work is done"
"""What the log says of a checkpoint."""
_STAYS = (".lock", JOURNAL_NAME)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_Kind = TypeVar("_Kind", bound=_Line)


class Header(_Line):
    """What a run that goes on has to have in common with the one that was begun.

    Attributes
    ----------
    version : int
        Of the journal.
    source : str
        The path of the input, for people.
    input : str
        The fingerprint of its edges.
    question : dict
        As `pipeline.publish.manifest.question` but for limits, which are not those of what is left; and what else the
        files depend on, such as their compression and what derived outputs are given.
    asked : dict
        What of it is no default, for people.
    versions : dict of str
        Of the software.
    """

    version: int = VERSION
    problem: str
    source: str
    input: str
    question: dict[str, Any]
    asked: dict[str, Any]
    versions: dict[str, str]


class Record(_Line):
    """Some finished tasks.

    Attributes
    ----------
    done : tuple of (int, int)
        Ranges of these roots: below them nothing is left.
    files : tuple of FileEntry
        All that was found there; paths are relative to the room; files still in a store are not there yet.
    work : float
        Share of the whole work, as the engine guesses it.
    at : str
        When (UTC).
    """

    roots: Roots
    done: tuple[tuple[int, int], ...]
    files: tuple[StoredEntry | FileEntry, ...]
    n_found: int
    work: float
    at: str


class Journal:
    """The journal of a run that is being written.

    Parameters
    ----------
    room : Path
        `Staging.path.parent`; the run grows below it.
    records : sequence of Record
        Of earlier processes.
    """

    def __init__(self, room: Path, header: Header, records: Sequence[Record] = ()) -> None:
        self.room = room
        self.header = header
        self.records = list(records)
        self._kept = (self.n_found, records[-1].at) if records else None
        # Of what was done before, and of what this process has told so far of the rest.
        self._work_before, self._work_told = self.work_done, 0.0

    @property
    def n_found(self) -> int:
        """Results in the files of all records."""
        return sum(record.n_found for record in self.records)

    @property
    def work_done(self) -> float:
        """Share of the whole work, as the engines guessed it."""
        return min(1.0, sum(record.work for record in self.records))

    @property
    def files(self) -> list[Path]:
        """Those of all records."""
        return _files_of(self.records, self.room)

    def remaining(self) -> tuple[Task, ...] | None:
        """What is left to be searched; None is all, before the first record."""
        if not self.records:
            return None
        roots = self.records[0].roots
        done = [part for record in self.records for part in record.done]
        return tuple(Task(roots, first, end, 0.0) for first, end in without([(0, roots.n)], done))

    def add(
        self,
        remaining: Sequence[Task],
        work_done: float,
        files: Sequence[Path],
        n_found: int,
        *,
        is_whole: bool = False,
    ) -> None:
        """Book what was found since the last record; afterwards it is on the disk.

        Parameters
        ----------
        remaining : sequence of Task
            What is left to be searched; at least one.
        work_done : float
            Share of what was left when this process began.
        files : sequence of Path
            Complete, below the room, and synced here; or listed among those that are in a store (`stored_parts`).
        n_found : int
            Results in them.
        is_whole : bool
            They hold what was found before as well: the record takes the place of all others, whose files are removed.
        """
        roots, replaced = remaining[0].roots, self.files if is_whole else []
        before = [(0, roots.n)]
        if self.records and not is_whole:
            before = [(task.first, task.end) for task in self.remaining() or ()]
        told = 0.0 if is_whole else self._work_told
        share, self._work_told = max(0.0, work_done - told), max(self._work_told, work_done)
        stored = stored_entries(self.room / self.room.name)
        with ThreadPoolExecutor(4) as pool:
            entries = tuple(pool.map(lambda path: _booked(self.room, path, stored), files))
        for directory in {path.parent for path in files} | {self.room / self.room.name}:
            sync(directory)
        record = Record(
            roots=roots,
            done=tuple(without(before, [(task.first, task.end) for task in remaining])),
            files=entries,
            n_found=n_found,
            work=(self._work_before if is_whole else 0.0) + (1.0 - self._work_before) * share,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if self.records and not is_whole:
            with (self.room / JOURNAL_NAME).open("ab") as file:
                file.write(_line(record))
                file.flush()
                os.fsync(file.fileno())
            self.records.append(record)
        else:
            self.records = [record]
            self.write()
        for path in replaced:
            path.unlink()
        log.debug(KEPT, f"{n_found:,}", percent_text(self.work_done, 1, "%"))

    def write(self) -> None:
        """Write all of it anew; whoever reads sees the old one or the new one, whole."""
        path = self.room / JOURNAL_NAME
        new = path.with_name(f"{JOURNAL_NAME}.new")
        with new.open("wb") as file:
            file.writelines(_line(line) for line in (self.header, *self.records))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        sync(self.room)

    def told(self) -> str | None:
        """What the reader of a manifest should know; None where no earlier process had a part in the run."""
        if self._kept is None:
            return None
        n_found, at = self._kept
        return (
            f"the run was ended before it was complete, and resumed: {n_found:,} results, found until {at}, were kept; "
            "times and memory are those of what was left"
        )


def header_of(config: Config, source: str, edges: str) -> Header:
    """What a run asks, of the edges with this fingerprint, read from there."""
    return Header(
        problem=config.problem,
        source=source,
        input=edges,
        question={
            **{key: value for key, value in question(config).items() if key != "execution"},
            "compression": config.output.compression,
            "beside": inputs_of(config),
        },
        asked=asked(config),
        versions=software_versions(),
    )


def read_journal(room: Path) -> tuple[Header, list[Record]]:
    """What a room's journal says; lines that are torn or damaged are none.

    Raises
    ------
    PublishError
        There is none, or its first line cannot be read.
    """
    path = room / JOURNAL_NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PublishError(f"{path}: cannot be read ({error.strerror}); expected the journal of a run") from None
    header = _parsed(Header, lines[0])
    if header is None or header.version != VERSION:
        raise PublishError(
            f"{path}: its first line is damaged or of another version; expected version {VERSION}; remove it with mbe "
            "clean"
        )
    return header, [record for line in lines[1:] if (record := _parsed(Record, line)) is not None]


def booked_entries(run_path: Path) -> list[FileEntry]:
    """What the journal of a run that is being written says of its files, with paths within the run."""
    room = run_path.parent
    if not (room / JOURNAL_NAME).exists():
        return []
    _, records = read_journal(room)
    return [
        entry.model_copy(update={"path": path.relative_to(run_path).as_posix()})
        for record in records
        for entry in record.files
        if run_path in (path := room / entry.path).parents
    ]


def begun_journal(room: Path, header: Header) -> Journal:
    """The journal of a room: to go on with where there is one, else a new one, of which nothing is on the disk yet.

    Where one is gone on with, every file of its records is whole, and no others are there; those that were in a store
    have been fetched.

    Raises
    ------
    PublishError
        Another question was begun there, of other edges, or by other software: the message says what has changed.
    """
    if not (room / JOURNAL_NAME).exists():
        # What an attempt has spilled that nothing was booked of.
        shutil.rmtree(room / "sort", ignore_errors=True)
        return Journal(room, header)
    begun, records = read_journal(room)
    if changed := changes(begun, header):
        raise PublishError(
            f"{room}: cannot be resumed: {'; '.join(changed)}; begin anew, without --resume, or remove it: mbe clean "
            f"{room.parents[1]}"
        )
    if stored := [entry for record in records for entry in record.files if isinstance(entry, StoredEntry)]:
        # What is gone on with reads every row once more, and needs them here.
        from mbe_stage.pipeline.stores.local_copies import meant_for
        from mbe_stage.pipeline.stores.part_objects import fetch_kept, remove_fetched

        if {entry.store for entry in stored} != {meant_for(room.parents[1])}:
            raise PublishError(
                f"{room}: cannot be resumed: its journal names parts in another store; expected parts of this output "
                "directory; begin anew, without --resume"
            )
        fetch_kept(stored, room)
        records = [each.model_copy(update={"files": tuple(map(as_file, each.files))}) for each in records]
    with ThreadPoolExecutor(4) as pool:
        checks = [[pool.submit(_damage, room, entry) for entry in record.files] for record in records]
    whole = []
    for record, checked in zip(records, checks, strict=True):
        damage = next((found for each in checked if (found := each.result()) is not None), None)
        if damage is None:
            whole.append(record)
        else:
            log.warning("%s: %s results are searched again", damage, f"{record.n_found:,}")
    journal = Journal(room, header, whole)
    _remove_all_but(journal.files, room, "scratch")
    journal.write()
    if stored:
        # From now on all that counts is on the disk here.
        remove_fetched(stored, room)
    return journal


def remove_unbooked(room: Path) -> None:
    """Remove what was written behind the last record, and temporary files: of the room of a run that nobody is writing.

    Raises
    ------
    PublishError
        As `read_journal`; then all stays.
    OSError
        It cannot be removed.
    """
    _, records = read_journal(room)
    _remove_all_but(_files_of(records, room), room)


def changes(begun: Header, header: Header) -> list[str]:
    """What differs between what was begun and what is asked now, a clause each."""
    found = []
    if (begun.problem, begun.question) != (header.problem, header.question):
        old, new = ({**_leaves(each.question), "problem": each.problem} for each in (begun, header))
        differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        found += [f"{key} was {old.get(key)!r} and is {new.get(key)!r}" for key in differing]
    # Only then are they edges of the same kind.
    elif begun.input != header.input:
        found.append(f"the edges of {header.source} have changed since")
    for name in {**begun.versions, **header.versions}:
        was, now = begun.versions.get(name), header.versions.get(name)
        if was != now:
            found.append(f"{name} was {was} and is {now}")
    return found


def _leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


def _damage(room: Path, entry: FileEntry) -> str | None:
    """What is not as it was of a file; None where it is."""
    path = room / entry.path
    # Beside the directories of parts are the lock and the journal itself.
    if "/" not in entry.path or not is_file_within(room, entry.path):
        return f"{path}: {'is no file of this run' if os.path.lexists(path) else 'is missing'}"
    if path.stat().st_size != entry.bytes:
        return f"{path}: has {path.stat().st_size} bytes, not {entry.bytes}"
    try:
        found = file_entry(room, path).sha256
    except (OSError, ValueError) as error:
        return f"{path}: cannot be read ({error})"
    return None if found == entry.sha256 else f"{path}: has changed since it was written"


def _files_of(records: Iterable[Record], room: Path) -> list[Path]:
    return [room / entry.path for record in records for entry in record.files]


def _remove_all_but(files: Iterable[Path], room: Path, *stays: str) -> None:
    """What was written after the last record is incomplete; it is found again.

    Parameters
    ----------
    files : iterable of Path
        Those of all records.
    *stays : str
        What else of the room stays, beside its lock and its journal.
    """
    kept = set(files)
    for path in sorted(room.rglob("*"), reverse=True):
        place = path.relative_to(room).parts
        if place[0] in (*_STAYS, *stays) or path in kept:
            continue
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        elif path != room / room.name:
            # Where something stays in it; or workers of the run that was killed still write there, which nobody reads.
            with suppress(OSError):
                path.rmdir()


def _line(line: _Line) -> bytes:
    text = line.model_dump_json().encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parsed(kind: type[_Kind], line: bytes) -> _Kind | None:
    """A line of the journal; None where it is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        return kind.model_validate(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        return None


def _booked(room: Path, path: Path, stored: Mapping[str, StoredEntry]) -> FileEntry:
    if (elsewhere := stored.get(path.relative_to(room).as_posix())) is not None:
        return elsewhere
    sync(path)
    return file_entry(room, path)
