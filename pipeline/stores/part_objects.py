"""Parts that cluster workers write to an object store, until their run is published.

::

    ADDRESS/.staging/<name>.parts/<attempt>/open             present while a process accepts parts
    ADDRESS/.staging/<name>.parts/<attempt>/workers/...      marks of workers that can write there
    ADDRESS/.staging/<name>.parts/<attempt>/<lease>/...      a worker's results for a lease

A part counts once the publishing process has booked it. Parts that are not booked are removed after the search. Booked
parts are copied within the store to `runs/<run_id>/`. They are removed when the run is published, and stay if it can be
resumed. Parts of a killed process expire like unfinished uploads (`remove_leftovers`).
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import file_entry, sha256_of
from mbe_stage.pipeline.publish.run_files import STAGING, as_publish_errors, sync
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, stored_entries
from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.failures import StoreFailure, as_store_publish_errors
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.transfers import MovedBytes, Stopped, StoredObject, check_names, side_by_side
from mbe_stage.pipeline.wording import bytes_text, found_bytes_text

log = logging.getLogger(__name__)
OPEN, PARTS = "open", ".parts"
_WORKERS = "workers"
# The second listing includes objects that workers were writing during the first, unless they are very late.
_LISTINGS = 3


def parts_below(staging_dir: str) -> str:
    """Return the prefix of all parts of a run, by the name of its staging directory."""
    return f"{STAGING}/{staging_dir}{PARTS}"


def group_of(name: str) -> str:
    """Return the objects below `STAGING` to remove together: all parts of a run, or the object alone."""
    below, _, rest = name.removeprefix(f"{STAGING}/").partition("/")
    return f"{STAGING}/{below}" if rest and below.endswith(PARTS) else name


def remove_parts(objects: Objects, staging_dir: str) -> list[str]:
    """Remove all parts of a run, booked or not, and return their names; the permission to write goes first.

    Raises
    ------
    StoreFailure
    """
    names = sorted(
        (each.name for each in objects.listed(parts_below(staging_dir))), key=lambda name: not name.endswith(f"/{OPEN}")
    )
    objects.delete(names)
    return names


def fetch(objects: Objects, entries: Sequence[StoredEntry], directory: Path) -> None:
    """Copy parts to their paths below a directory; each arrives complete and with its checksum, or not at all.

    Raises
    ------
    PublishError
        A part is missing or has changed, the store cannot be read, or this disk is full.
    """
    with _arriving(objects, entries, directory) as arriving:
        for entry in entries:
            if (found := sha256_of(arriving / entry.path)) != entry.sha256:
                raise PublishError(
                    f"{entry.store}/{entry.name}: has changed since a worker wrote it (sha256 {found}); expected "
                    f"{entry.sha256}; nothing was published; run it again"
                )
            _move(arriving / entry.path, directory / entry.path)


def fetch_missing(run_path: Path) -> None:
    """Download the missing parts of a run before publishing, for steps that read its rows.

    Raises
    ------
    PublishError
        See `fetch`; only parts that arrived completely stay.
    """
    staging_dir = run_path.parent
    if missing := _missing(stored_entries(run_path).values(), staging_dir):
        fetch(Objects(parse_address(missing[0].store)), missing, staging_dir)


def fetch_kept(entries: Sequence[StoredEntry], staging_dir: Path) -> None:
    """Download the parts that a journal has booked, to resume the run; lost parts are left out.

    The journal checks whether they have changed.

    Raises
    ------
    PublishError
        The store cannot be read, or this disk is full.
    """
    if not (missing := _missing(entries, staging_dir)):
        return
    objects = Objects(parse_address(missing[0].store))
    with as_publish_errors(staging_dir), as_store_publish_errors():
        there = {each.name: each.size for each in objects.listed(parts_below(staging_dir.name))}
    left = [entry for entry in missing if there.get(entry.name) == entry.bytes]
    with _arriving(objects, left, staging_dir) as arriving:
        for entry in left:
            sync(arriving / entry.path)
            _move(arriving / entry.path, staging_dir / entry.path)


def remove_fetched(entries: Sequence[StoredEntry], staging_dir: Path) -> None:
    """Remove all parts of a resumed run from the store: they are local by now, lost, or were never booked."""
    try:
        remove_parts(Objects(parse_address(entries[0].store)), staging_dir.name)
    except StoreFailure as failure:
        log.warning("%s: parts could not be removed (%s); a later run removes them", failure.place, failure.reason)


def copy_into_run(objects: Objects, run_path: Path, below: str) -> list[str]:
    """Copy a run's parts within the store to the published run; return the parts to upload instead, by path.

    Parameters
    ----------
    below : str
        The prefix of the published run.

    Raises
    ------
    PublishError
        A part is missing or has another size than its worker reported.
    StoreFailure
    """
    entries = {path.removeprefix(f"{run_path.name}/"): entry for path, entry in stored_entries(run_path).items()}
    if not entries:
        return []
    _check_there({each.name: each for each in objects.listed(parts_below(run_path.name))}, entries.values())
    log.info("copying %s of parts within the store", bytes_text(sum(entry.bytes for entry in entries.values())))
    refused: list[str] = []

    def copy(path: str, stop: threading.Event) -> None:
        if stop.is_set():
            raise Stopped
        try:
            objects.copy(entries[path].name, f"{below}/{path}")
        except StoreFailure as failure:
            if failure.errno != errno.EOPNOTSUPP:
                raise
            refused.append(path)

    side_by_side(list(entries), copy)
    if refused:
        fetch_missing(run_path)
    return refused


def _check_there(found: dict[str, StoredObject], entries: Iterable[StoredEntry]) -> None:
    for entry in entries:
        size = found[entry.name].size if entry.name in found else None
        if size != entry.bytes:
            raise PublishError(
                f"{entry.store}/{entry.name}: {found_bytes_text(size)}; expected {entry.bytes:,} bytes, as "
                "stored by a worker; nothing was published; run it again, with --resume if there are checkpoints"
            )


def _missing(entries: Iterable[StoredEntry], staging_dir: Path) -> list[StoredEntry]:
    """Return the parts that are not on this machine, and report them before the download."""

    def is_here(entry: StoredEntry) -> bool:
        path = staging_dir / entry.path
        return path.is_file() and path.stat().st_size == entry.bytes

    missing = [entry for entry in entries if not is_here(entry)]
    if missing:
        log.info("fetching %s of parts stored by workers", bytes_text(sum(entry.bytes for entry in missing)))
    return missing


@contextmanager
def _arriving(objects: Objects, entries: Sequence[StoredEntry], directory: Path) -> Iterator[Path]:
    """Download objects to their paths below a temporary directory for the context.

    The copy is synced to the target directory's disk, so a torn or changed file never counts as a part.
    """
    arriving = directory / f"arriving-{uuid.uuid4().hex}"
    moved = MovedBytes("fetching parts", sum(entry.bytes for entry in entries))
    try:
        with as_publish_errors(directory), as_store_publish_errors():
            check_names(objects.address, [entry.path for entry in entries])
            objects.download({entry.name: arriving / entry.path for entry in entries}, moved)
            yield arriving
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def _move(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, to)


@dataclass(frozen=True, slots=True)
class StoredParts:
    """The place in a store where workers write.

    Attributes
    ----------
    address : str
        Address of the output directory. It has no credentials: each process has its own, or none.
    below : str
        A relative name, unique to this attempt at the run.
    """

    address: str
    below: str

    @property
    def objects(self) -> Objects:
        """Return the objects, with the environment of this process.

        Raises
        ------
        ConfigError
            The library for the store is not installed here.
        """
        return Objects(parse_address(self.address))

    @contextmanager
    def opened(self, run_path: Path) -> Iterator[None]:
        """Allow workers to write during the context; for the publishing process.

        Afterwards only booked parts remain.

        Raises
        ------
        PublishError
            The store cannot be written.
        """
        objects = self.objects
        with as_store_publish_errors():
            objects.create(f"{self.below}/{OPEN}", b"parts of a run are taken over\n")
        try:
            yield
        finally:
            self._close(objects, run_path)

    def known(self) -> set[str]:
        """Return the marks of workers that write where this process reads; none if it cannot read."""
        below = f"{self.below}/{_WORKERS}"
        try:
            return {each.name.removeprefix(f"{below}/") for each in self.objects.listed(below)}
        except StoreFailure as failure:
            log.info("%s: cannot be read (%s)", failure.place, failure.reason)
            return set()

    def make_known(self, worker: str) -> None:
        """Add a worker's mark to `known`; for the worker.

        Raises
        ------
        StoreFailure, ConfigError
            It cannot write there.
        PublishError
            The run has ended.
        """
        objects, name = self.objects, f"{self.below}/{_WORKERS}/{worker}"
        self._while_open(objects, [name], lambda: objects.create(name, b"a worker can write here\n"))

    def store(self, lease: str, directory: Path, files: Sequence[Path]) -> tuple[StoredEntry, ...]:
        """Upload a lease's files from a worker for the publishing process.

        Returns
        -------
        tuple of StoredEntry
            Entries with paths relative to the directory.

        Raises
        ------
        PublishError
            The store cannot be written, or the run has ended; nothing of them remains.
        """
        objects, below = self.objects, f"{self.below}/{lease}"
        with as_publish_errors(directory), as_store_publish_errors():
            entries = tuple(
                StoredEntry(**entry.model_dump(), store=self.address, name=f"{below}/{entry.path}")
                for entry in (file_entry(directory, path) for path in files)
            )
            paths, names = [entry.path for entry in entries], [entry.name for entry in entries]
            self._while_open(objects, names, lambda: objects.upload(directory, paths, below))
        return entries

    def fetch(self, entries: Sequence[StoredEntry], directory: Path) -> None:
        """Move a worker's files from the store to a directory here.

        Raises
        ------
        PublishError
            See `pipeline.stores.part_objects.fetch`.
        """
        objects = self.objects
        fetch(objects, entries, directory)
        try:
            objects.delete([entry.name for entry in entries])
        except StoreFailure as failure:
            # They are not in the journal, so the final clean-up removes them.
            log.info("%s: fetched parts could not be removed yet (%s)", failure.place, failure.reason)

    def _while_open(self, objects: Objects, names: list[str], write: Callable[[], object]) -> None:
        """Write objects; they stay only if a process accepts parts throughout."""
        self._check_open(objects)
        try:
            write()
            self._check_open(objects)
        except BaseException:
            # Also after a partial failure: a run in progress would find the rest only at its end.
            try:
                objects.delete(names)
            except StoreFailure as failure:
                log.info("%s: written objects could not be removed (%s)", failure.place, failure.reason)
            raise

    def _check_open(self, objects: Objects) -> None:
        if objects.size(f"{self.below}/{OPEN}") is None:
            raise PublishError(f"{self.address}/{self.below}: no process accepts parts any more; the run has ended")

    def _close(self, objects: Objects, run_path: Path) -> None:
        """Stop accepting parts, and remove parts that are not booked."""
        try:
            objects.delete([f"{self.below}/{OPEN}"])
            booked = {entry.name for entry in stored_entries(run_path).values()}
            for _ in range(_LISTINGS):
                left = [each.name for each in objects.listed(self.below) if each.name not in booked]
                if not left:
                    return
                objects.delete(left)
        except StoreFailure as failure:
            log.warning("%s: parts could not be removed (%s); a later run removes them", failure.place, failure.reason)
