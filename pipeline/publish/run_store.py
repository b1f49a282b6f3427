"""Atomic publication: a run is written beside the published ones, synced, renamed, and only then pointed at.

::

    OUT/latest                    relative symbolic link to the run that was published last
    OUT/runs/<run_id>/            published runs, complete and never changed again
    OUT/.staging/.lock            held for moments: while a run begins, and while one is moved into place
    OUT/.staging/<run_id>/.lock   held by the process that writes this run, for as long as it lives
    OUT/.staging/<run_id>/<run_id>/    the run as it grows;  .../scratch/  temporary files

    OUT/.staging/<run_id>/journal      what of the run can be gone on with, once something can
    (`pipeline.execution.journal`)

A killed process loses its lock, so the next `RunStore.begin` can tell its leftovers from a run in progress. It removes
them, but for those with a journal, which stay for some days. So does the room of a run that a limit has ended: what its
journal names is there under two names, in the published run and in the room, and takes the disk's space once.

Of several runs at once, the last to *publish* is `latest`, whichever began first. A process killed between the two
renames leaves a complete run that `RunStore.runs` lists while `latest` still names the one before.

A run gets its name while it is moved into place, under the store's lock: names sort as runs were published. Until then
it has a provisional one, which its report and manifest state and then exchange.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from mbe_stage.pipeline.errors import PublishError, RunIsBeingWritten
from mbe_stage.pipeline.publish.locks import is_locked, locked, opened_lock
from mbe_stage.pipeline.publish.run_ids import is_run_id, next_run_id, provisional_id, renamed
from mbe_stage.pipeline.safe_paths import (
    LINK,
    is_directory,
    is_file_within,
    is_path_within,
    odd_entry,
    opened_directory,
    remove_tree,
    what_is_at,
)
from mbe_stage.pipeline.stores.address import is_address, place_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.protocol import Store

__all__ = [
    "JOURNAL_NAME",
    "KEPT_DAYS",
    "MANIFEST_NAME",
    "RunStore",
    "Staging",
    "as_publish_errors",
    "is_unfinished",
    "refuse_among_published",
    "resolve_run",
    "rooms_in",
    "sync",
    "synced_beside",
    "written_at",
]

log = logging.getLogger(__name__)

MANIFEST_NAME = "manifest.json"
JOURNAL_NAME = "journal"
KEPT_DAYS = 7.0
"""For so long what can be gone on with is kept."""
_SYNCED_AT_ONCE = 8
_LATEST, _LOCK, _RUNS, _STAGING = "latest", ".lock", "runs", ".staging"
_KEPT, _EXPIRED = "kept", "-expired"
# Files that state the run's name.
_NAMED = ("report.html", MANIFEST_NAME)

_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another output directory",
    errno.EDQUOT: "your disk quota is used up: free some space, or choose another output directory",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), or choose another output directory",
    errno.EROFS: "the file system is read-only: choose another output directory",
    errno.EACCES: "give this user write permission, or choose another output directory",
    errno.EPERM: "give this user write permission, or choose another output directory",
    errno.ENOTDIR: "a file is in the way: choose another output directory",
    errno.EEXIST: "a file is in the way: choose another output directory",
    errno.EISDIR: "a directory is in the way: remove it, or choose another output directory",
    errno.ELOOP: "a symbolic link is in the way: remove it, or choose another output directory",
    errno.ENOLCK: "the file system has no locks: choose a directory on a local disk",
    errno.EOPNOTSUPP: "the file system has no locks or symbolic links: choose a directory on a local disk",
}


@contextmanager
def as_publish_errors(path: Path, outcome: str = "nothing was published") -> Iterator[None]:
    """Turn whatever the operating system refuses while `path` is written into a `PublishError` with a remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        remedy = _REMEDIES.get(error.errno or 0, "check the disk, or choose another output directory")
        raise PublishError(f"{place}: cannot be written ({reason}); {outcome}; {remedy}") from error


def refuse_among_published(path: Path) -> None:
    """Refuse to write into a published run, which never changes, or beside it, where it would be taken for a run.

    Raises
    ------
    PublishError
    """
    place = path.resolve()
    for above in (place, *place.parents):
        if above.name == _RUNS and _latest_in(above.parent)[0] is not None:
            raise PublishError(
                f"{path}: lies in {above}, where published runs are; expected a place outside it; choose "
                f"{above.parent}, or another"
            )


class RunStore:
    """An output directory: published runs, the latest of them, and room for the next.

    Parameters
    ----------
    directory : path
        Made by the first `begin`.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @property
    def address(self) -> str:
        """What the user calls it."""
        return str(self.directory)

    def check_writable(self) -> None:
        """Refuse early, before any work, a directory that `begin` would refuse; nothing is created.

        Raises
        ------
        PublishError
            A file is in the way, this user may not write there, or it is within what another directory has published.
        """
        refuse_among_published(self.directory)
        nearest = next(path for path in (self.directory, *self.directory.absolute().parents) if os.path.lexists(path))
        with as_publish_errors(self.directory):
            if not nearest.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(nearest))
            if not os.access(nearest, os.W_OK | os.X_OK):
                read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
                code = errno.EROFS if read_only else errno.EACCES
                raise OSError(code, os.strerror(code), str(nearest))
        self._check_places()
        latest = self.directory / _LATEST
        if latest.exists() and not latest.is_symlink():
            raise PublishError(
                f"{latest}: is no symbolic link; expected the pointer to the latest run; "
                "move it away, or choose another output directory"
            )
        self.latest()

    def _check_places(self) -> None:
        """Refuse what is no directory where this store has one."""
        for name in (_STAGING, _RUNS):
            _refuse_other_than_directory(self.directory / name)

    def check_listed(self) -> None:
        """Refuse what is no output directory.

        Raises
        ------
        PublishError
            There is no such directory, or it is a run itself.
        """
        directory = self.directory
        if (directory / MANIFEST_NAME).exists():
            raise PublishError(f"{directory}: is a run; expected an output directory, which holds runs; name that")
        if not directory.is_dir():
            what = "is a file" if directory.exists() else "does not exist"
            raise PublishError(f"{directory}: {what}; expected an output directory, as after mbe enumerate --out DIR")

    def begin(self, kept_days: float = KEPT_DAYS, room: Path | None = None) -> Staging:
        """Room for a new run, made when its context is entered.

        Parameters
        ----------
        kept_days : float
            What runs that were ended early have left, and what can be gone on with, is removed when it is older.
        room : Path, optional
            One of `unfinished`, to go on with.

        Raises
        ------
        PublishError
            The directory cannot be written.
        """
        self.check_writable()
        return Staging(self, kept_days, room)

    def unfinished(self) -> list[Path]:
        """The rooms of runs that can be gone on with, or are being written and could then; the newest is the last."""
        return sorted(rooms_in(self.directory / _STAGING), key=written_at)

    def clean(self) -> list[str]:
        """Remove what runs that were ended early have left, whether or not it could be gone on with; gives its paths.

        Raises
        ------
        PublishError
            It cannot be removed.
        """
        self.check_listed()
        self._check_places()
        staging = self.directory / _STAGING
        with as_publish_errors(staging, "not all was removed"):
            if not self._holds_output():
                raise PublishError(
                    f"{self.directory}: no run was ever written there; expected an output directory, as after "
                    "mbe enumerate --out DIR; name that"
                )
            if not is_directory(staging):
                return []
            with opened_directory(staging) as above, locked(opened_lock(staging / _LOCK, above)):
                return [str(room) for room in _remove_leftovers(staging, above, 0.0)]

    def _holds_output(self) -> bool:
        """Whether a run was written here, or nothing at all."""
        names = set(os.listdir(self.directory))
        staged = set(os.listdir(self.directory / _STAGING)) if _STAGING in names else set()
        if not (names - {_STAGING} or staged) or _LOCK in staged or any(map(_is_room, staged)):
            return True
        return self.latest() is not None or any(is_run_id(run.name) for run in self.runs())

    def latest(self) -> Path | None:
        """The run published last, or None.

        Raises
        ------
        PublishError
            The pointer leads somewhere else than to a run of this directory.
        """
        run, target = _latest_in(self.directory)
        if run is None and target is not None and not _is_of_a_run(target):
            raise PublishError(
                f"{self.directory / _LATEST}: is no pointer to a run, it leads to {target}; expected {_RUNS}/RUN; "
                "remove it, or choose another output directory"
            )
        return run

    def runs(self) -> list[Path]:
        """Every published run in the order of publication, which is that of their names: the newest is the last.

        A directory that somebody renamed takes the place that its name gives it.
        """
        return [run for run in self.directories() if (run / MANIFEST_NAME).exists()]

    def directories(self) -> list[Path]:
        """Every directory where published runs are, in the same order; one may have lost its manifest."""
        _refuse_other_than_directory(self.directory / _RUNS)
        return sorted(path for path in (self.directory / _RUNS).glob("*") if is_directory(path))

    def close(self) -> None:
        """Nothing here is a copy."""

    def opened(self, run: Path) -> Path:
        """A run with its manifest, which it has."""
        return run

    def whole(self, run: Path) -> Path:
        """A run with all of its files, which are here."""
        return run

    def with_files(self, run: Path, _names: Sequence[str]) -> Path:
        """As `whole`."""
        return run

    def sizes(self, run: Path) -> Callable[[str], int | None]:
        """What says how many bytes a file of a run has, by its path within; None where it is not there."""

        def size_of(name: str) -> int | None:
            return (run / name).stat().st_size if is_file_within(run, name) else None

        return size_of


class Staging:
    """Room for one run until it is published, held by a lock; leaving the context without `publish` removes it.

    Entering the context makes the room, and removes what dead writers left. Of a room with a journal there stays what
    the journal names, to be gone on with: the rest is removed when the context is left, and when a room is entered that
    was never left.

    Parameters
    ----------
    kept_days : float
        As of `RunStore.begin`.
    room : Path, optional
        To go on with: entering takes its lock.

    Attributes
    ----------
    run_id : str
        Provisional until `publish`, then the time of publication (UTC) and a suffix: sorts behind all that were
        published before.
    path : Path
        The run directory as it grows; nothing of it can be seen among the published runs.
    scratch : Path
        For temporary files of this run; removed with it.
    manifest : bytes
        The manifest as it was published: another writer with `keep_runs` may remove the run at any time.
    """

    def __init__(self, store: Store, kept_days: float = KEPT_DAYS, room: Path | None = None) -> None:
        self.store = store
        self._kept_days = kept_days
        self._is_given = room is not None
        self.run_id = provisional_id(datetime.now(UTC)) if room is None else room.name
        self._room = store.directory / _STAGING / self.run_id
        self.path = self._room / self.run_id
        self.scratch = self._room / "scratch"
        self._published: Path | None = None
        self._named: dict[str, bytes] = {}
        self.manifest = b""
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Staging:
        # Here and not before, or a signal could come up between the making of the room and the context that removes it.
        try:
            with as_publish_errors(self.store.directory):
                self._make()
            return self
        except BaseException:
            self._remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @contextmanager
    def noted_by_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C that comes when this run has been published say so: around all that is done for the run."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            run = self.store.directory / _RUNS / self.run_id
            if run.is_dir():
                interrupt.add_note(f"{run} is published")
            raise

    def publish(self, keep_runs: int | None = None) -> Path:
        """Make the run durable, move it among the published ones and point `latest` at it.

        Where that was done and only the removal of old runs failed, calling it again tries the removal again.

        Parameters
        ----------
        keep_runs : int, optional
            Afterwards remove the oldest runs beyond this many; never the latest.

        Returns
        -------
        Path
            The published run directory.

        Raises
        ------
        PublishError
            The run has no manifest or cannot be written: nothing is published, unless the message says that the run
            is.
        """
        directory = self.store.directory
        lock = directory / _STAGING / _LOCK
        run = self._published or self._seal_and_move(lock)
        with as_publish_errors(directory, f"{run} is published, but might not survive a power failure now"):
            sync(directory)
        with as_publish_errors(directory, f"{run} is published, but what it replaces could not be removed"):
            if keep_runs is not None:
                with locked(opened_lock(lock)):
                    _remove_oldest(self.store, keep_runs)
            self._remove()
        return run

    def discard(self) -> None:
        """Remove what is left here and let go of the lock; does nothing the second time."""
        with as_publish_errors(self._room):
            try:
                self._remove()
            except KeyboardInterrupt:
                self._remove()
                raise

    @property
    def is_resumed(self) -> bool:
        """Whether there is a journal to go on with."""
        return (self._room / JOURNAL_NAME).exists()

    def begin_anew(self) -> None:
        """Remove all of the run that was written here, as if nothing had been begun; temporary files stay.

        Raises
        ------
        PublishError
            It cannot be removed.
        """
        with as_publish_errors(self._room):
            # First: without it the rest is nothing to go on with.
            (self._room / JOURNAL_NAME).unlink(missing_ok=True)
            with opened_directory(self._room) as room:
                for name in set(os.listdir(room)) - {_LOCK, self.scratch.name}:
                    if is_directory(name, room):
                        remove_tree(self._room / name, room)
                    else:
                        # Of a process that was killed: half a journal, or a pointer that has not been moved yet.
                        os.unlink(name, dir_fd=room)
            self.path.mkdir()

    def _make(self) -> None:
        staging = self._room.parent
        _refuse_other_than_directory(staging)
        staging.mkdir(parents=True, exist_ok=True)
        with opened_directory(staging) as above, locked(opened_lock(staging / _LOCK, above)):
            _remove_leftovers(staging, above, self._kept_days, self._room)
            _make_directory(self._room)
            lock = self._room / _LOCK
            if is_locked(lock):
                raise RunIsBeingWritten(self._room)
            self._lock = locked(opened_lock(lock))
            if is_unfinished(self._room):
                # Before anything is written: it may be what has filled the disk.
                self._remove_unbooked()
            _make_directory(self.path)
            _make_directory(self.scratch)

    def _remove(self) -> None:
        from mbe_stage.pipeline.publish.stored_parts import forget_stored

        if is_unfinished(self._room):
            if self._lock is not None:
                self._remove_unbooked_if_possible()
                larger = "" if self._published is None else " and a larger limit"
                log.warning(
                    "what was found until then is kept: go on with --resume%s, or remove it with mbe clean", larger
                )
        elif self._room.exists() and not (self._is_given and self._lock is None):
            # Under the store's lock, or another begin could meet a room that has just lost its own lock file.
            staging = self._room.parent
            with opened_directory(staging) as above, locked(opened_lock(staging / _LOCK, above)):
                remove_tree(self._room, above)
        forget_stored(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _remove_unbooked(self) -> None:
        from mbe_stage.pipeline.execution.journal import remove_unbooked

        self._take_second_names()
        # Of a journal that cannot be read nobody knows what it names.
        with suppress(PublishError):
            remove_unbooked(self._room)

    def _remove_unbooked_if_possible(self) -> None:
        """The same, of a run that has ended: what has ended it is what there is to say."""
        try:
            self._remove_unbooked()
        except OSError as error:
            log.warning("%s: what is not kept could not be removed (%s)", self._room, error.strerror)

    def _seal_and_move(self, lock: Path) -> Path:
        if not (self.path / MANIFEST_NAME).is_file():
            raise PublishError(f"{self.path}: has no {MANIFEST_NAME}; expected a finished run; call steps.finish first")
        with as_publish_errors(self.store.directory):
            _sync_tree(self.path)
            kept = self._linked()
            with locked(opened_lock(lock)):
                run = self._move_into_place()
        self._keep(kept)
        return run

    def _linked(self) -> Path | None:
        """Give what can be gone on with a second name, where a limit has ended the run; None where nothing is kept."""
        from mbe_stage.pipeline.execution.journal import read_journal
        from mbe_stage.pipeline.publish.stored_parts import StoredEntry

        kept = self._room / _KEPT
        if not self.is_resumed or json.loads((self.path / MANIFEST_NAME).read_bytes())["truncated"] is None:
            return None
        _, records = read_journal(self._room)
        # Of what is in a store nothing is moved away: it stays as it is.
        entries = (entry for record in records for entry in record.files if not isinstance(entry, StoredEntry))
        files = [self._room / entry.path for entry in entries]
        try:
            if kept.exists():
                shutil.rmtree(kept)
            kept.mkdir()
            for path in files:
                if self.path in path.parents:
                    second = kept / path.relative_to(self.path)
                    second.parent.mkdir(parents=True, exist_ok=True)
                    os.link(path, second)
        except OSError as error:
            log.warning("%s: has no second names for files (%s): the run cannot be gone on with", kept, error.strerror)
            shutil.rmtree(kept, ignore_errors=True)
            return None
        return kept

    def _keep(self, kept: Path | None) -> None:
        """Have what `_linked` has given take the place of the run, which is published."""
        if kept is None:
            return
        try:
            self._take_second_names()
        except OSError as error:
            log.warning("%s: what can be gone on with is not in its place yet (%s)", self._room, error.strerror)

    def _take_second_names(self) -> None:
        """Where the run was moved away: also of a process that was killed before it came to that."""
        kept = self._room / _KEPT
        if is_directory(kept) and not self.path.exists():
            os.rename(kept, self.path)
            sync(self._room)

    def _move_into_place(self) -> Path:
        directory = self.store.directory
        runs, pointer = directory / _RUNS, self._room / _LATEST
        _make_directory(runs)
        self._take_name(next_run_id(os.listdir(runs), datetime.now(UTC)))
        run = runs / self.run_id
        # A publication that failed may be tried again: its pointer may be there already.
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(Path(_RUNS) / self.run_id)
        os.rename(self.path, run)
        try:
            sync(runs)
            os.replace(pointer, directory / _LATEST)
        except BaseException:
            if self.store.latest() != run:
                os.rename(run, self.path)
            raise
        self._published = run
        return run

    def _take_name(self, run_id: str) -> None:
        """Have report and manifest state the name under which the run is published."""
        # Kept as they were: another attempt at publishing takes another name.
        self._named = self._named or {name: p.read_bytes() for name in _NAMED if (p := self.path / name).is_file()}
        files = renamed(self._named, MANIFEST_NAME, self.path.name, run_id)
        for name, content in files.items():
            (self.path / name).write_bytes(content)
            sync(self.path / name)
        self.run_id, self.manifest = run_id, files[MANIFEST_NAME]


@contextmanager
def synced_beside(directory: Path) -> Iterator[None]:
    """Have everything that a directory holds by now, and itself, synced while the context's work is done.

    Whoever publishes it afterwards syncs it again, and finds little that is not on the disk.

    Raises
    ------
    OSError
        Something could not be written to the disk; raised when the work is done.
    """
    # Several at once: a disk takes requests that wait together faster than one after the other.
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        synced = [pool.submit(sync, path) for path in (directory, *directory.rglob("*"))]
        try:
            yield
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        for each in synced:
            each.result()


def resolve_run(path: str | Path, *, may_be_odd: bool = False) -> Path:
    """The run directory meant by `path`: itself, or the latest run of an output directory.

    Parameters
    ----------
    path : path
    may_be_odd : bool
        Accept a run that holds symbolic links or special files, for a check that names them.

    Raises
    ------
    PublishError
        It is neither; the message says what is there.
    """
    path = place_of(path)
    if is_address(path):
        raise PublishError(
            f"{path}: is an address; expected a path of this machine; copy it: with mbe_stage.pipeline.opened_run(...)"
        )
    run = _run_at(Path(path))
    odd = None if may_be_odd else odd_entry(run)
    if odd is not None:
        raise PublishError(f"{run}/{odd}; expected the files of a run and no others; mbe verify says more")
    return run


def _run_at(path: Path) -> Path:
    if (path / MANIFEST_NAME).is_file():
        return path.resolve() if path.is_symlink() else path
    if not path.exists():
        raise PublishError(f"{path}: does not exist; expected a run directory or an output directory")
    if not path.is_dir():
        raise PublishError(f"{path}: is a file; expected a run directory or an output directory")
    store = RunStore(path)
    latest = store.latest()
    if latest is not None:
        return latest
    runs = store.runs()
    if runs:
        raise PublishError(f"{path}: its pointer 'latest' leads to no run; name a run yourself, for example {runs[-1]}")
    raise PublishError(f"{path}: holds no {MANIFEST_NAME} and no published run; publish one first: mbe enumerate")


def is_unfinished(room: Path) -> bool:
    """Whether a room can be gone on with: it has a journal, and the run or, where that was moved away, second names."""
    has_journal = is_directory(room) and is_file_within(room, JOURNAL_NAME)
    return has_journal and any(is_directory(room / name) for name in (room.name, _KEPT))


def rooms_in(staging: Path) -> list[Path]:
    """The rooms below a directory that can be gone on with, in no order."""
    if not is_directory(staging):
        return []
    return [room for room in staging.glob("*") if is_run_id(room.name) and is_unfinished(room)]


def written_at(room: Path) -> float:
    """When its journal was written last, in seconds since 1970."""
    try:
        return (room / JOURNAL_NAME).stat().st_mtime
    except FileNotFoundError:
        # Published or removed meanwhile.
        return 0.0


def _remove_leftovers(staging: Path, above: int, kept_days: float, but: Path | None = None) -> list[Path]:
    """Remove the rooms of dead writers, below the descriptor `above` of `staging`.

    The store's lock is held, so none is just being made. What can be gone on with stays for so many days, and what is
    no room stays.
    """
    removed = []
    for room in sorted(staging / name for name in os.listdir(above) if _is_room(name)):
        what = what_is_at(room.name, above)
        if what == LINK:
            _refuse_other_than_directory(room)
        if room == but or what != "":
            continue
        with opened_directory(room.name, above) as within:
            if is_locked(_LOCK, within):
                continue
        if is_unfinished(room) and time.time() - written_at(room) < kept_days * 86_400:
            continue
        log.info("removing what an unfinished run left: %s", room)
        remove_tree(room, above)
        removed.append(room)
    return removed


def _remove_oldest(store: Store, keep_runs: int) -> None:
    latest = store.latest()
    others = [run for run in store.runs() if run != latest]
    for run in others[: max(0, len(others) + 1 - keep_runs)]:
        # Renamed first: a reader sees the whole run or none, and a removal cut short is a leftover like any other.
        name = run.name if is_run_id(run.name) else provisional_id(datetime.now(UTC))
        doomed = store.directory / _STAGING / f"{name}{_EXPIRED}"
        os.rename(run, doomed)
        with opened_directory(doomed.parent) as above:
            remove_tree(doomed, above)


def _is_room(name: str) -> bool:
    """Whether something among `.staging` has a name of ours: that of a run, or of one that is being removed."""
    return is_run_id(name.removesuffix(_EXPIRED))


def _is_of_a_run(target: str) -> bool:
    above, _, name = target.partition("/")
    return above == _RUNS and "/" not in name and is_path_within(name)


def _latest_in(directory: Path) -> tuple[Path | None, str | None]:
    """The run that the pointer of a directory leads to, or None; and the text of that link, or None."""
    pointer = directory / _LATEST
    if not pointer.is_symlink():
        return None, None
    target = os.readlink(pointer)
    run = directory / target
    is_run = _is_of_a_run(target) and is_directory(run.parent) and is_directory(run)
    return run if is_run and is_file_within(run, MANIFEST_NAME) else None, target


def _refuse_other_than_directory(path: Path) -> None:
    """Refuse a symbolic link or a file in the place of a directory of ours; nothing there is fine."""
    if what := what_is_at(path):
        raise PublishError(
            f"{path}: {what}; expected a directory that mbe has made; move it away, or choose another output directory"
        )


def _make_directory(path: Path) -> None:
    """Make a directory if there is none; refuse a symbolic link in its place."""
    path.mkdir(exist_ok=True)
    _refuse_other_than_directory(path)


def _sync_tree(directory: Path) -> None:
    # In any order, since nobody sees any of it yet.
    with synced_beside(directory):
        pass


def sync(path: Path) -> None:
    """Have a file, or a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
