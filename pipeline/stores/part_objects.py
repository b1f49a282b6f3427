"""Parts that workers of a cluster bring to an object store themselves, until the run that they are of is published.

::

    ADDRESS/.staging/<room>.parts/<attempt>/open             there for as long as somebody takes parts over
    ADDRESS/.staging/<room>.parts/<attempt>/workers/...      by what workers are known that can write there
    ADDRESS/.staging/<room>.parts/<attempt>/<lease>/...      what a worker has found below the roots of a lease

A part counts once the process that publishes has booked it. What nobody has booked is removed when its search is over
(`pipeline.stores.attempt_parts`); what is booked goes to `runs/<run_id>/` by a copy within the store, and is removed
when the run is published, or left to be gone on with. What a killed process leaves has the time that unfinished uploads
have (`remove_leftovers`).
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import sha256_of
from mbe_stage.pipeline.publish.run_files import STAGING, as_publish_errors, sync
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, stored_entries
from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.failures import StoreFailure, as_store_publish_errors
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.transfers import MovedBytes, Stopped, StoredObject, check_names, side_by_side
from mbe_stage.pipeline.wording import bytes_text, found_bytes_text

__all__ = [
    "OPEN",
    "PARTS",
    "copy_into_run",
    "fetch",
    "fetch_kept",
    "fetch_missing",
    "group_of",
    "parts_below",
    "remove_fetched",
    "remove_parts",
]

log = logging.getLogger(__name__)

OPEN, PARTS = "open", ".parts"


def parts_below(room: str) -> str:
    """Where all parts of a run are, by the name of its room."""
    return f"{STAGING}/{room}{PARTS}"


def group_of(name: str) -> str:
    """What is removed together with an object below `STAGING`: all parts of a run, or the object alone."""
    below, _, rest = name.removeprefix(f"{STAGING}/").partition("/")
    return f"{STAGING}/{below}" if rest and below.endswith(PARTS) else name


def remove_parts(objects: Objects, room: str) -> list[str]:
    """Remove all parts of a run, booked or not, what lets workers bring more of them first; gives their names.

    Raises
    ------
    StoreFailure
    """
    names = sorted(
        (each.name for each in objects.listed(parts_below(room))), key=lambda name: not name.endswith(f"/{OPEN}")
    )
    objects.delete(names)
    return names


def fetch(objects: Objects, entries: Sequence[StoredEntry], directory: Path) -> None:
    """Copy parts to their paths below a directory: each is there whole and with its checksum, or is not there.

    Raises
    ------
    PublishError
        One is missing or has changed, the store cannot be read, or this disk is full.
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
    """Have all parts of a run that is about to be published here, for whoever reads its rows; most are here already.

    Raises
    ------
    PublishError
        As `fetch`; what has come whole until then stays, and nothing else.
    """
    room = run_path.parent
    if missing := _missing(stored_entries(run_path).values(), room):
        fetch(Objects(parse_address(missing[0].store)), missing, room)


def fetch_kept(entries: Sequence[StoredEntry], room: Path) -> None:
    """Have parts that a journal has booked here, on the disk, to be gone on with; those that are lost are left out.

    Whether they are as they were the journal sees.

    Raises
    ------
    PublishError
        The store cannot be read, or this disk is full.
    """
    if not (missing := _missing(entries, room)):
        return
    objects = Objects(parse_address(missing[0].store))
    with as_publish_errors(room), as_store_publish_errors():
        there = {each.name: each.size for each in objects.listed(parts_below(room.name))}
    left = [entry for entry in missing if there.get(entry.name) == entry.bytes]
    with _arriving(objects, left, room) as arriving:
        for entry in left:
            sync(arriving / entry.path)
            _move(arriving / entry.path, room / entry.path)


def remove_fetched(entries: Sequence[StoredEntry], room: Path) -> None:
    """Remove all parts of a run that is gone on with, which are here by now or lost, with what was never booked."""
    try:
        remove_parts(Objects(parse_address(entries[0].store)), room.name)
    except StoreFailure as failure:
        log.warning("%s: parts could not be removed (%s); a later run removes them", failure.place, failure.reason)


def copy_into_run(objects: Objects, run_path: Path, below: str) -> list[str]:
    """Have the store copy the parts of a run to where it is published; gives those, by path, that are to be uploaded.

    Parameters
    ----------
    below : str
        The name of the published run.

    Raises
    ------
    PublishError
        A part is missing or has another size than its worker said.
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
                f"{entry.store}/{entry.name}: {found_bytes_text(size)}; expected {entry.bytes:,} bytes, which a "
                "worker has stored; nothing was published; run it again, with --resume where something is kept"
            )


def _missing(entries: Iterable[StoredEntry], room: Path) -> list[StoredEntry]:
    """Those that are not here, told before they are fetched."""

    def is_here(entry: StoredEntry) -> bool:
        path = room / entry.path
        return path.is_file() and path.stat().st_size == entry.bytes

    missing = [entry for entry in entries if not is_here(entry)]
    if missing:
        log.info("fetching %s of parts that workers have stored", bytes_text(sum(entry.bytes for entry in missing)))
    return missing


@contextmanager
def _arriving(objects: Objects, entries: Sequence[StoredEntry], directory: Path) -> Iterator[Path]:
    """Objects as files at their paths below a directory of their own, which goes with the context.

    It is on the disk of the directory where they belong: nobody takes what is torn or has changed for a part.
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
