"""The journal of an unfinished run: a record for each group of finished tasks, with its files.

A record means that its files hold all results below its roots, and nothing else. So any set of records is a valid state
to resume from. If a file of one record is lost or damaged, its roots are searched again, and the other records stay.

A record with saved work (`mbe_stage.tasks.OpenWork`) lacks the results of that work. The next record follows it: the
files of both together hold the results below their roots, but for the saved work of the second. Such records are a
chain, which is valid as a whole or not at all. Only the newest saved work is kept.

A line is a checksum and JSON. The first line has the query, the edges and the software. The last line may be torn when
the process ends; then it is ignored.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import FileEntry, file_entry
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME, sync
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, as_file, stored_entries
from mbe_stage.pipeline.safe_paths import is_file_within
from mbe_stage.pipeline.wording import percent_text
from mbe_stage.tasks import OpenWork, Remaining, Roots, Task, without

log = logging.getLogger(__name__)

VERSION = 4
_READ = (2, 3, VERSION)  # no record of version 2 has saved work, and no journal of version 3 saved steps of reading
KEPT = "checkpoint: %s more results, about %s of the work is done"
"""Log line of a checkpoint."""
_STAYS = (".lock", JOURNAL_NAME)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


_Kind = TypeVar("_Kind", bound=_Line)


class SavedStep(_Line):
    """The state after a step of reading what has this identity, with a file for each array."""

    read: list[str]
    facts: dict[str, Any]
    files: list[FileEntry | None]


class Header(_Line):
    """The facts that a resuming run must share with the run that it resumes, and its saved steps of reading.

    Attributes
    ----------
    version : int
        Version of the journal.
    source : str
        The path of the input, for people.
    input : str
        The fingerprint of its edges; empty before they are known.
    question : dict
        The result of `pipeline.publish.manifest.question` without limits, and everything else that the files depend
        on, such as compression and inputs of derived outputs.
    asked : dict
        The non-default part of the question, for people.
    versions : dict of str
        Versions of the software.
    """

    version: int = VERSION
    problem: str
    source: str
    input: str
    question: dict[str, Any]
    asked: dict[str, Any]
    versions: dict[str, str]
    reading: dict[str, SavedStep] = {}

    def files_in(self, staging_dir: Path) -> list[Path]:
        """Return the files of the saved steps of reading."""
        names = [entry.path for step in self.reading.values() for entry in step.files if entry]
        return [staging_dir / name for name in names if "/" in name and is_file_within(staging_dir, name)]


class SavedWork(_Line):
    """A file of saved work, and the form of its arrays."""

    form: str
    file: FileEntry


class Record(_Line):
    """Some finished tasks.

    Attributes
    ----------
    done : tuple of (int, int)
        Ranges of the roots whose search is complete except for `saved`; in a chain, also those of earlier records.
    files : tuple of FileEntry
        Files with all their results; paths are relative to the staging directory; files in a store are not there yet.
    work : float
        Share of the whole work, as the engine estimates it.
    at : str
        Time of the record (UTC).
    saved : SavedWork or None
        The rest of the search below these roots; its file is kept until the next record.
    follows : str
        Path of the saved work of the previous record of the chain; empty for the first.
    """

    roots: Roots
    done: tuple[tuple[int, int], ...]
    files: tuple[StoredEntry | FileEntry, ...]
    n_found: int
    work: float
    at: str
    saved: SavedWork | None = None
    follows: str = ""

    @property
    def saved_name(self) -> str:
        """Unique path of the saved work; empty if there is none."""
        return "" if self.saved is None else self.saved.file.path


class Journal:
    """The journal of a run that is being written.

    Parameters
    ----------
    staging_dir : Path
        `Staging.path.parent`; the run grows below it.
    records : sequence of Record
        Records of earlier processes.
    """

    def __init__(self, staging_dir: Path, header: Header, records: Sequence[Record] = ()) -> None:
        self.staging_dir = staging_dir
        self.header = header
        self.records = list(records)
        self._kept = (self.n_found, records[-1].at) if records else None
        # The work of earlier processes, and this process's latest share of the rest.
        self._work_before, self._work_reported = self.work_done, 0.0

    @property
    def n_found(self) -> int:
        """Results in the files of all records."""
        return sum(record.n_found for record in self.records)

    @property
    def work_done(self) -> float:
        """Share of the whole work, as the engines estimated it."""
        return min(1.0, sum(record.work for record in self.records))

    @property
    def files(self) -> list[Path]:
        """Files of all records."""
        return _files_of(self.records, self.staging_dir)

    def remaining(self) -> Remaining | None:
        """Return the remaining tasks and the saved work; None means all tasks, before the first record.

        Raises
        ------
        PublishError
            The saved work cannot be read, although its checksum is right.
        """
        if not self.records:
            return None
        last = self.records[-1]
        tasks = tuple(Task(last.roots, first, end, 0.0) for first, end in _left(last.roots, _settled(self.records)))
        return tasks if last.saved is None else (*tasks, _loaded(self.staging_dir, last.saved, last.roots))

    def add(
        self,
        remaining: Sequence[Task | OpenWork],
        work_done: float,
        files: Sequence[Path],
        n_found: int,
        *,
        is_whole: bool = False,
    ) -> None:
        """Record the results since the last record on disk.

        Parameters
        ----------
        remaining : sequence of Task or OpenWork
            Remaining tasks or saved work; at least one.
        work_done : float
            Share of the work that remained when this process began.
        files : sequence of Path
            Complete and synced in the staging directory, or listed among those in a store (`stored_parts`).
        n_found : int
            Number of results in them.
        is_whole : bool
            The files include all earlier results: the record replaces all others, whose files are removed.
        """
        roots, replaced = remaining[0].roots, self.files if is_whole else []
        earlier = [] if is_whole else _settled(self.records)
        follows = earlier[-1].saved_name if earlier else ""
        # A record that follows another has the ranges of that one, too.
        before = _left(roots, earlier[:-1] if follows else earlier)
        replaced += _saved_files(self.records, self.staging_dir)
        warning = 0.0 if is_whole else self._work_reported
        share, self._work_reported = max(0.0, work_done - warning), max(self._work_reported, work_done)
        stored = stored_entries(self.staging_dir / self.staging_dir.name)
        with ThreadPoolExecutor(4) as pool:
            entries = tuple(pool.map(lambda path: _booked(self.staging_dir, path, stored), files))
        saved = [_written(self.staging_dir, each) for each in remaining if isinstance(each, OpenWork)]
        for directory in {path.parent for path in files} | {self.staging_dir / self.staging_dir.name}:
            sync(directory)
        record = Record(
            roots=roots,
            done=tuple(without(before, [(task.first, task.end) for task in remaining if isinstance(task, Task)])),
            files=entries,
            n_found=n_found,
            work=(self._work_before if is_whole else 0.0) + (1.0 - self._work_before) * share,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            saved=saved[0] if saved else None,
            follows=follows,
        )
        if self.records and not is_whole:
            with (self.staging_dir / JOURNAL_NAME).open("ab") as file:
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
        """Rewrite the whole journal atomically."""
        path = self.staging_dir / JOURNAL_NAME
        new = path.with_name(f"{JOURNAL_NAME}.new")
        with new.open("wb") as file:
            file.writelines(_line(line) for line in (self.header, *self.records))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        sync(self.staging_dir)

    def warning(self) -> str | None:
        """Return a warning for the manifest; None if no earlier process had a part in the run."""
        if self._kept is None:
            return None
        n_found, at = self._kept
        return (
            f"the run was interrupted and resumed: {n_found:,} results from before {at} were kept; "
            "times and memory are those of the last process"
        )


def read_journal(staging_dir: Path) -> tuple[Header, list[Record]]:
    """Read a staging directory's journal; torn or damaged lines are skipped.

    Raises
    ------
    PublishError
        There is no journal, or its first line cannot be read.
    """
    path = staging_dir / JOURNAL_NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PublishError(f"{path}: cannot be read ({error.strerror}); expected the journal of a run") from None
    header = _parsed(Header, lines[0])
    if header is None or header.version not in _READ:
        raise PublishError(
            f"{path}: its first line is damaged or of another version; expected version {VERSION}; remove it with mbe "
            "clean"
        )
    return header, [record for line in lines[1:] if (record := _parsed(Record, line)) is not None]


def booked_entries(run_path: Path) -> list[FileEntry]:
    """List the files in the journal of a run that is being written, with paths within the run."""
    staging_dir = run_path.parent
    if not (staging_dir / JOURNAL_NAME).exists():
        return []
    _, records = read_journal(staging_dir)
    return [
        entry.model_copy(update={"path": path.relative_to(run_path).as_posix()})
        for record in records
        for entry in record.files
        if run_path in (path := staging_dir / entry.path).parents
    ]


def begun_journal(staging_dir: Path, header: Header) -> Journal:
    """Open the journal of a run to resume it, or make a new one, which is not on disk yet.

    When resuming, every file of its records is verified, other files are removed, and files in a store have been
    fetched.

    Raises
    ------
    PublishError
        The run has another query, other edges or other software; the message says what has changed.
    """
    if not (staging_dir / JOURNAL_NAME).exists():
        # Spills of an attempt without a record.
        shutil.rmtree(staging_dir / "sort", ignore_errors=True)
        return Journal(staging_dir, header)
    begun, records = read_journal(staging_dir)
    if changed := changes(begun, header):
        raise PublishError(
            f"{staging_dir}: cannot be resumed: {'; '.join(changed)}; start over without --resume, or remove it: "
            "mbe clean "
            f"{staging_dir.parents[1]}"
        )
    if stored := [entry for record in records for entry in record.files if isinstance(entry, StoredEntry)]:
        # A resumed run reads every row again, and needs the parts here. Imported late, as few runs do.
        from mbe_stage.pipeline.stores.local_copies import meant_for
        from mbe_stage.pipeline.stores.part_objects import fetch_kept, remove_fetched

        if {entry.store for entry in stored} != {meant_for(staging_dir.parents[1])}:
            raise PublishError(
                f"{staging_dir}: cannot be resumed: its journal names parts in another store; expected parts of "
                "this output "
                "directory; start over without --resume"
            )
        fetch_kept(stored, staging_dir)
        records = [each.model_copy(update={"files": tuple(map(as_file, each.files))}) for each in records]
    whole = _undamaged(staging_dir, records)
    journal = Journal(staging_dir, header.model_copy(update={"reading": begun.reading}), whole)
    _remove_all_but(_listed_files(staging_dir, begun, whole), staging_dir, "scratch")
    journal.write()
    if stored:
        # From here on, only local files count.
        remove_fetched(stored, staging_dir)
    return journal


def remove_unbooked(staging_dir: Path) -> None:
    """Remove temporary files, and files newer than the last record, of a run that no process is writing.

    Raises
    ------
    PublishError
        See `read_journal`; then all files stay.
    OSError
        A file cannot be removed.
    """
    _remove_all_but(_listed_files(staging_dir, *read_journal(staging_dir)), staging_dir)


def changes(begun: Header, header: Header) -> list[str]:
    """List the differences between the run to resume and the current one, a clause each."""
    found = []
    if (begun.problem, begun.question) != (header.problem, header.question):
        old, new = ({**_leaves(each.question), "problem": each.problem} for each in (begun, header))
        differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        found += [f"{key} was {old.get(key)!r} and is {new.get(key)!r}" for key in differing]
    # Edges are only comparable for the same problem.
    elif begun.input and begun.input != header.input:
        found.append(f"the edges of {header.source} have changed since")
    for name in {**begun.versions, **header.versions}:
        was, now = begun.versions.get(name), header.versions.get(name)
        if was != now:
            found.append(f"{name} was {was} and is {now}")
    return found


def _leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by their dotted keys."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


def damage_of(staging_dir: Path, entry: FileEntry) -> str | None:
    """Describe the damage to a file; None if it is intact."""
    path = staging_dir / entry.path
    # Besides directories of parts, the staging directory holds the lock and the journal.
    if "/" not in entry.path or not is_file_within(staging_dir, entry.path):
        return f"{path}: {'is not a file of this run' if os.path.lexists(path) else 'is missing'}"
    if path.stat().st_size != entry.bytes:
        return f"{path}: has {path.stat().st_size} bytes, not {entry.bytes}"
    try:
        found = file_entry(staging_dir, path).sha256
    except (OSError, ValueError) as error:
        return f"{path}: cannot be read ({error})"
    return None if found == entry.sha256 else f"{path}: has changed since it was written"


def _undamaged(staging_dir: Path, records: Sequence[Record]) -> list[Record]:
    """Return the records whose chains are whole and have all their files; log the others."""
    chains: list[list[Record]] = []
    for record in records:
        if record.follows and chains and chains[-1][-1].saved_name == record.follows:
            chains[-1].append(record)
        else:
            chains.append([record])
    entries = [[*_saved_entries(chain), *(entry for record in chain for entry in record.files)] for chain in chains]
    with ThreadPoolExecutor(4) as pool:
        checks = [[pool.submit(damage_of, staging_dir, entry) for entry in of_chain] for of_chain in entries]
    whole: list[Record] = []
    for chain, checked in zip(chains, checks, strict=True):
        damage = next((found for each in checked if (found := each.result()) is not None), None)
        if damage is None and chain[0].follows:
            damage = f"{staging_dir / JOURNAL_NAME}: lacks a record before that of {chain[0].at}"
        if damage is None and chain is not chains[-1] and chain[-1].saved is not None:
            damage = f"{staging_dir / JOURNAL_NAME}: lacks the record after that of {chain[-1].at}"
        if damage is None:
            whole += chain
        else:
            log.warning("%s: %s results are searched again", damage, f"{sum(each.n_found for each in chain):,}")
    return whole


def _settled(records: Sequence[Record]) -> list[Record]:
    """Return the records that no other follows: the last of each chain."""
    followed = {record.follows for record in records if record.follows}
    return [record for record in records if record.saved_name not in followed]


def _left(roots: Roots, settled: Sequence[Record]) -> list[tuple[int, int]]:
    """Return the ranges of roots that are in none of the records."""
    return without([(0, roots.n)], [part for record in settled for part in record.done])


def _written(staging_dir: Path, work: OpenWork) -> SavedWork:
    """Write saved work into a file of its own."""
    import numpy as np  # here and below: a list of runs reads journals, and needs no arrays

    directory = staging_dir / "saved"
    directory.mkdir(exist_ok=True)
    path = directory / f"{secrets.token_hex(8)}.npz"
    np.savez(path, **cast(Any, work.arrays))
    sync(path)
    sync(directory)
    return SavedWork(form=work.form, file=file_entry(staging_dir, path))


def _loaded(staging_dir: Path, saved: SavedWork, roots: Roots) -> OpenWork:
    import numpy as np

    path = staging_dir / saved.file.path
    try:
        with np.load(path, allow_pickle=False) as stored:
            return OpenWork(roots, saved.form, {name: stored[name] for name in stored.files})
    except (OSError, ValueError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise PublishError(
            f"{path}: cannot be read ({error}); expected the saved work of a search; start over without --resume"
        ) from None


def _saved_entries(records: Sequence[Record]) -> list[FileEntry]:
    """Return the entry of the newest saved work, if there is one."""
    return [record.saved.file for record in records[-1:] if record.saved is not None]


def _saved_files(records: Sequence[Record], staging_dir: Path) -> list[Path]:
    return [staging_dir / entry.path for entry in _saved_entries(records)]


def _files_of(records: Iterable[Record], staging_dir: Path) -> list[Path]:
    return [staging_dir / entry.path for record in records for entry in record.files]


def _listed_files(staging_dir: Path, header: Header, records: Sequence[Record]) -> list[Path]:
    """Return all files that a journal lists and that are still needed."""
    return [*_files_of(records, staging_dir), *_saved_files(records, staging_dir), *header.files_in(staging_dir)]


def _remove_all_but(files: Iterable[Path], staging_dir: Path, *stays: str) -> None:
    """Remove files newer than the last record: they are incomplete, and their results are found again.

    Parameters
    ----------
    files : iterable of Path
        Files of all records.
    *stays : str
        Other names to keep, besides the lock and the journal.
    """
    kept = set(files)
    for path in sorted(staging_dir.rglob("*"), reverse=True):
        place = path.relative_to(staging_dir).parts
        if place[0] in (*_STAYS, *stays) or path in kept:
            continue
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        elif path != staging_dir / staging_dir.name:
            # The directory may hold files to keep, or workers of a killed run may still write there.
            with suppress(OSError):
                path.rmdir()


def _line(line: _Line) -> bytes:
    text = line.model_dump_json().encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parsed(kind: type[_Kind], line: bytes) -> _Kind | None:
    """Parse a line of the journal; None if it is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        return kind.model_validate(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        return None


def _booked(staging_dir: Path, path: Path, stored: Mapping[str, StoredEntry]) -> FileEntry:
    if (elsewhere := stored.get(path.relative_to(staging_dir).as_posix())) is not None:
        return elsewhere
    sync(path)
    return file_entry(staging_dir, path)
