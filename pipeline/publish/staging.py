"""The staging directory of a run in progress, until the run is published; `run_store` shows the layout."""

from __future__ import annotations

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
from typing import IO, Protocol

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.errors import ConfigError, InputError, PublishError, RunIsBeingWritten
from mbe_stage.pipeline.execution.journal import read_journal, remove_unbooked
from mbe_stage.pipeline.publish.locks import is_locked, locked, opened_lock
from mbe_stage.pipeline.publish.run_files import (
    EXPIRED,
    JOURNAL_NAME,
    KEPT,
    KEPT_DAYS,
    LATEST,
    LOCK,
    MANIFEST_NAME,
    RUNS,
    STAGING,
    as_publish_errors,
    is_run_id,
    is_staging_name,
    is_unfinished,
    next_run_id,
    provisional_id,
    refuse_other_than_directory,
    renamed,
    sync,
    written_at,
)
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, forget_stored
from mbe_stage.pipeline.safe_paths import LINK, is_directory, opened_directory, remove_tree, what_is_at

log = logging.getLogger(__name__)

_SYNCED_AT_ONCE = 8
# Files that state the run's name.
_NAMED = ("report.html", MANIFEST_NAME)


class Store(Protocol):
    """An output directory: published runs, the latest of them, and the staging of the next.

    `RunStore` is one on this machine, `RemoteStore` one at an address. Runs are paths of this machine. Runs at an
    address are local copies with the requested files.
    """

    @property
    def address(self) -> str:
        """The user's name of the store."""

    @property
    def directory(self) -> Path:
        """The directory that holds staging directories of new runs."""

    def check_writable(self) -> None:
        """Refuse early a directory that `Staging.publish` would refuse."""

    def check_listed(self) -> None:
        """Refuse anything but an output directory."""

    def begin(self, kept_days: float = KEPT_DAYS, staging_dir: Path | None = None) -> Staging:
        """Return the staging of a new run, or of one of `unfinished`; it is created when its context is entered."""

    def unfinished(self) -> list[Path]:
        """List the staging directories of resumable runs, the newest last; empty if the store keeps none."""

    def clean(self) -> list[str]:
        """Remove the leftovers of interrupted runs that no process is writing; return the removed paths."""

    def latest(self) -> Path | None:
        """Return the run published last, with its manifest; or None."""

    def runs(self) -> list[Path]:
        """List the published runs in the order of publication, newest last."""

    def directories(self) -> list[Path]:
        """List the places of published runs, in the same order, with the manifest unless it is lost."""

    def close(self) -> None:
        """Remove local copies of runs; the store is not used afterwards."""

    def opened(self, run: Path) -> Path:
        """Return a run of `runs` with its manifest."""

    def whole(self, run: Path) -> Path:
        """Return a run of `runs` with all of its files."""

    def with_files(self, run: Path, names: Sequence[str]) -> Path:
        """Return a run of `runs` with its files of these names, perhaps without others."""

    def sizes(self, run: Path) -> Callable[[str], int | None]:
        """Return a function from a path within a run to the size of the file; None if there is no file."""


class Staging:
    """The staging directory of one run, held by a lock; leaving the context without `publish` removes it.

    Entering the context makes the directory, and removes the leftovers of dead writers. If there is a journal, the
    files that it names stay, to be resumed. All others are removed on leaving the context, or on entering it after a
    crash.

    Parameters
    ----------
    kept_days : float
        See `RunStore.begin`.
    staging_dir : Path, optional
        A run to resume; entering the context takes its lock.

    Attributes
    ----------
    run_id : str
        Provisional until `publish`, then the time of publication (UTC) and a suffix: sorts after all earlier runs.
    path : Path
        The growing run directory, not visible among the published runs.
    scratch : Path
        Directory for temporary files; removed with the run.
    manifest : bytes
        The published manifest, because another writer with `keep_runs` may remove the run at any time.
    """

    def __init__(self, store: Store, kept_days: float = KEPT_DAYS, staging_dir: Path | None = None) -> None:
        self.store = store
        self._kept_days = kept_days
        self._is_given = staging_dir is not None
        name = provisional_id(datetime.now(UTC)) if staging_dir is None else staging_dir.name
        self.run_id = run_state.state.run = name
        self._staging_dir = store.directory / STAGING / self.run_id
        self.path = self._staging_dir / self.run_id
        self.scratch = self._staging_dir / "scratch"
        self._published: Path | None = None
        self._named: dict[str, bytes] = {}
        self.manifest = b""
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Staging:
        # Not earlier, because a signal could arrive between creating the directory and entering the context that
        # removes it.
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
        # Only steps of reading are saved, and no later run needs them.
        is_refused = isinstance(error, InputError | ConfigError) and not isinstance(error.__cause__, OSError)
        if (error is None or is_refused) and self.is_resumed and not self._is_given:
            with suppress(PublishError):
                if not read_journal(self._staging_dir)[1]:
                    self.begin_anew()
        self.discard()

    @contextmanager
    def noted_by_interrupts(self) -> Iterator[None]:
        """Make Ctrl-C after publication report that the run is published; wraps all work for the run."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            run = self.store.directory / RUNS / self.run_id
            if run.is_dir():
                interrupt.add_note(f"{run} is published")
            raise

    @run_state.at_step("publish")
    def publish(self, keep_runs: int | None = None) -> Path:
        """Make the run durable, move it among the published ones and point `latest` at it.

        If only the removal of old runs failed, calling it again retries the removal.

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
            The run has no manifest or cannot be written. Nothing is published unless the message says so.
        """
        directory = self.store.directory
        lock = directory / STAGING / LOCK
        run = self._published or self._seal_and_move(lock)
        with as_publish_errors(directory, f"{run} is published, but may not survive a power failure yet"):
            sync(directory)
        with as_publish_errors(directory, f"{run} is published, but older runs could not be removed"):
            if keep_runs is not None:
                with locked(opened_lock(lock)):
                    _remove_oldest(self.store, keep_runs)
            self._remove()
        return run

    def discard(self) -> None:
        """Remove the leftovers and release the lock; a second call does nothing."""
        with as_publish_errors(self._staging_dir):
            try:
                self._remove()
            except KeyboardInterrupt:
                self._remove()
                raise

    @property
    def is_resumed(self) -> bool:
        """True if there is a journal to resume from."""
        return (self._staging_dir / JOURNAL_NAME).exists()

    def begin_anew(self) -> None:
        """Remove everything written for the run; temporary files stay.

        Raises
        ------
        PublishError
            It cannot be removed.
        """
        with as_publish_errors(self._staging_dir):
            # The journal goes first: without it the rest cannot be resumed.
            (self._staging_dir / JOURNAL_NAME).unlink(missing_ok=True)
            with opened_directory(self._staging_dir) as staging_dir:
                for name in set(os.listdir(staging_dir)) - {LOCK, self.scratch.name}:
                    if is_directory(name, staging_dir):
                        remove_tree(self._staging_dir / name, staging_dir)
                    else:
                        # A killed process may leave half a journal, or a pointer that was not moved yet.
                        os.unlink(name, dir_fd=staging_dir)
            self.path.mkdir()

    def _make(self) -> None:
        staging = self._staging_dir.parent
        refuse_other_than_directory(staging)
        staging.mkdir(parents=True, exist_ok=True)
        with opened_directory(staging) as above, locked(opened_lock(staging / LOCK, above)):
            remove_leftovers(staging, above, self._kept_days, self._staging_dir)
            _make_directory(self._staging_dir)
            lock = self._staging_dir / LOCK
            if is_locked(lock):
                raise RunIsBeingWritten(self._staging_dir)
            self._lock = locked(opened_lock(lock))
            if is_unfinished(self._staging_dir):
                # Before anything is written, because the leftovers may have filled the disk.
                self._remove_unbooked()
            _make_directory(self.path)
            _make_directory(self.scratch)

    def _remove(self) -> None:
        if is_unfinished(self._staging_dir):
            if self._lock is not None:
                self._remove_unbooked_if_possible()
                larger = "" if self._published is None else " and a larger limit"
                log.warning("what is done so far is kept: resume with --resume%s, or remove it with mbe clean", larger)
        elif self._staging_dir.exists() and not (self._is_given and self._lock is None):
            # Under the store's lock; otherwise a starting run could find a directory that has just lost its lock file.
            staging = self._staging_dir.parent
            with opened_directory(staging) as above, locked(opened_lock(staging / LOCK, above)):
                remove_tree(self._staging_dir, above)
        forget_stored(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _remove_unbooked(self) -> None:
        self._take_second_names()
        # The files named by an unreadable journal are unknown.
        with suppress(PublishError):
            remove_unbooked(self._staging_dir)

    def _remove_unbooked_if_possible(self) -> None:
        """Remove unbooked files of an ended run; a failure is logged so that it does not hide the run's own error."""
        try:
            self._remove_unbooked()
        except OSError as error:
            log.warning("%s: temporary files could not be removed (%s)", self._staging_dir, error.strerror)

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
        """Give the resumable files of a run stopped by a limit second names; return None if nothing is kept."""
        kept = self._staging_dir / KEPT
        if not self.is_resumed or json.loads((self.path / MANIFEST_NAME).read_bytes())["truncated"] is None:
            return None
        _, records = read_journal(self._staging_dir)
        # Files in a store are not moved.
        entries = (entry for record in records for entry in record.files if not isinstance(entry, StoredEntry))
        files = [self._staging_dir / entry.path for entry in entries]
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
            log.warning(
                "%s: second names for files cannot be created (%s): the run cannot be resumed", kept, error.strerror
            )
            shutil.rmtree(kept, ignore_errors=True)
            return None
        return kept

    def _keep(self, kept: Path | None) -> None:
        """Move the directory from `_linked` into the place of the published run."""
        if kept is None:
            return
        try:
            self._take_second_names()
        except OSError as error:
            log.warning("%s: the checkpoints are not in their place yet (%s)", self._staging_dir, error.strerror)

    def _take_second_names(self) -> None:
        """Restore the checkpoints of a published run, even if its process was killed before it could do so."""
        kept = self._staging_dir / KEPT
        if is_directory(kept) and not self.path.exists():
            os.rename(kept, self.path)
            sync(self._staging_dir)

    def _move_into_place(self) -> Path:
        directory = self.store.directory
        runs, pointer = directory / RUNS, self._staging_dir / LATEST
        _make_directory(runs)
        self._take_name(next_run_id(os.listdir(runs), datetime.now(UTC)))
        run = runs / self.run_id
        # A failed publication may be retried, so its pointer may exist already.
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(Path(RUNS) / self.run_id)
        os.rename(self.path, run)
        try:
            sync(runs)
            os.replace(pointer, directory / LATEST)
        except BaseException:
            if self.store.latest() != run:
                os.rename(run, self.path)
            raise
        self._published = run
        return run

    def _take_name(self, run_id: str) -> None:
        """Put the published name into report and manifest."""
        # Keep the originals: another attempt at publishing takes another name.
        self._named = self._named or {name: p.read_bytes() for name in _NAMED if (p := self.path / name).is_file()}
        files = renamed(self._named, MANIFEST_NAME, self.path.name, run_id)
        for name, content in files.items():
            (self.path / name).write_bytes(content)
            sync(self.path / name)
        self.run_id, self.manifest = run_id, files[MANIFEST_NAME]
        run_state.state.run = run_id


@contextmanager
def synced_beside(directory: Path) -> Iterator[None]:
    """Sync a directory and its current files in a thread during the context.

    The publication syncs it again, and has little left to write.

    Raises
    ------
    OSError
        A file could not be written to disk; raised at the end of the context.
    """
    # Several at once, because a disk handles queued requests faster than single ones.
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        synced = [pool.submit(sync, path) for path in (directory, *directory.rglob("*"))]
        try:
            yield
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        for each in synced:
            each.result()


def remove_leftovers(staging: Path, above: int, kept_days: float, but: Path | None = None) -> list[Path]:
    """Remove the staging directories of dead writers, below the descriptor `above` of `staging`.

    The store's lock is held, so no new directory appears. Resumable ones stay for `kept_days`; other entries stay.
    """
    removed = []
    for staging_dir in sorted(staging / name for name in os.listdir(above) if is_staging_name(name)):
        what = what_is_at(staging_dir.name, above)
        if what == LINK:
            refuse_other_than_directory(staging_dir)
        if staging_dir == but or what != "":
            continue
        with opened_directory(staging_dir.name, above) as within:
            if is_locked(LOCK, within):
                continue
        if is_unfinished(staging_dir) and time.time() - written_at(staging_dir) < kept_days * 86_400:
            continue
        log.info("removing leftovers of an unfinished run: %s", staging_dir)
        remove_tree(staging_dir, above)
        removed.append(staging_dir)
    return removed


def _remove_oldest(store: Store, keep_runs: int) -> None:
    latest = store.latest()
    others = [run for run in store.runs() if run != latest]
    for run in others[: max(0, len(others) + 1 - keep_runs)]:
        # Renamed first, so a reader sees the whole run or none, and an interrupted removal becomes an ordinary
        # leftover.
        name = run.name if is_run_id(run.name) else provisional_id(datetime.now(UTC))
        doomed = store.directory / STAGING / f"{name}{EXPIRED}"
        os.rename(run, doomed)
        with opened_directory(doomed.parent) as above:
            remove_tree(doomed, above)


def _make_directory(path: Path) -> None:
    """Make a directory if there is none; refuse a symbolic link in its place."""
    path.mkdir(exist_ok=True)
    refuse_other_than_directory(path)


def _sync_tree(directory: Path) -> None:
    # The order does not matter, because nothing is visible yet.
    with synced_beside(directory):
        pass
