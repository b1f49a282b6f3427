"""Workers of a cluster write what they find: the sink of a run for one lease, where whoever publishes finds it.

That is a directory which all of them share, or, where the run goes to an object store and a worker does not see the
directory, the store itself, which the worker writes with credentials of its own environment. What a worker has written
counts once the process that publishes has taken it over: has moved it below its run, or has booked it
(`pipeline.stored_parts`). What a lease that comes late, or of which the worker was lost, has left is taken by nobody,
and removed with the directory, or with the other parts in the store.

A part in the store is fetched where its rows are needed before the run is published: at once, to be put in order and
for derived outputs; before the comparison with the run before, for lists of the report that were not kept in passing,
and when the run is gone on with, as sums are made of the rows once more. Checksums are the workers' own.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbe_stage.errors import StageError
from mbe_stage.options import Execution
from pipeline.backends.arrow.order import Spill
from pipeline.errors import PublishError
from pipeline.manifest import file_entry
from pipeline.publish import as_publish_errors
from pipeline.stored_parts import StoredEntry, forget_stored
from pipeline.stores import part_objects
from pipeline.stores.address import is_address, parse_address, place_of
from pipeline.stores.failures import StoreFailure, as_store_publish_errors
from pipeline.stores.mirror import Mirror
from pipeline.stores.opening import objects_at

if TYPE_CHECKING:
    from pipeline.backends.arrow.row_sink import RowSink
    from pipeline.publication import Collecting

__all__ = ["Proof", "StoredParts", "WorkerParts", "Written", "parts_of"]

log = logging.getLogger(__name__)

# A worker without credentials may look for those of its machine for minutes.
_PROVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What a worker has left to be found.

    Attributes
    ----------
    name, text : str
        Of a file, or of an object, and what is in it.
    is_stored : bool
        Whether it is an object.
    why_not : str
        Why nothing was left; empty where something was.
    """

    name: str
    text: str
    is_stored: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class StoredParts:
    """Where in a store workers may write.

    Attributes
    ----------
    address : str
        Of the output directory. No credentials: each process has its own, or none.
    below : str
        A name relative to it, of this attempt at the run alone.
    """

    address: str
    below: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a lease has left.

    Attributes
    ----------
    files : mapping of str to tuple of (Path, int)
        Complete parts and their bytes, by data set.
    spills : tuple of Spill
        The rows in the place of parts, where they will be sorted.
    summary
        Of all of them, as the problem sums up.
    derived : tuple of dict
        What derived outputs sum up of all of them, where there are no files that they could be made of.
    stored : tuple of StoredEntry
        Of files that are in a store, parts by data set and name, and spills by the paths that these state; then `files`
        are none.
    """

    files: dict[str, tuple[tuple[Path, int], ...]]
    spills: tuple[Spill, ...]
    summary: Any
    derived: tuple[dict[str, Any], ...] = ()
    stored: tuple[StoredEntry, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Of all files."""
        n_bytes = sum(size for parts in self.files.values() for _, size in parts)
        return n_bytes + sum(entry.bytes for entry in self.stored) + sum(spill.n_bytes for spill in self._spills_here)

    def check_arrived(self) -> None:
        """Refuse what is not here yet, or not whole, of what is to be here.

        Raises
        ------
        PublishError
            With the file.
        """
        for each in self.files.values():
            for path, n_bytes in each:
                _check_arrived(path, n_bytes)
        for spill in self._spills_here:
            _check_arrived(spill.path, spill.n_bytes)

    @property
    def _spills_here(self) -> tuple[Spill, ...]:
        return () if self.stored else self.spills


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """See `mbe_stage.runners.parts.PartMaker`.

    Attributes
    ----------
    directory : Path
        Absolute; here and where the workers are.
    sink : callable
        Takes a directory, and what `RowSink` says of memory and spills, and gives the sink that writes there, as that
        of the run does; it is pickled.
    run_path : Path or None
        Of the run, here.
    derived : tuple of callable
        Of a run without rows, for each derived output: what makes something that sums up for it, with `accept` and
        `sums`.
    has_rows : bool
        Whether anything is written. Otherwise a worker needs neither the directory nor a store.
    store : StoredParts or None
        For workers that do not see the directory.
    """

    directory: Path
    sink: Callable[..., RowSink[Any]] = field(repr=False)
    run_path: Path | None = None
    store: StoredParts | None = None
    derived: tuple[Callable[[], Any], ...] = ()
    has_rows: bool = True

    @contextmanager
    def directory_made(self) -> Iterator[None]:
        """The directory is there for as long as the context, and gone afterwards with all that nobody has moved.

        So it is with what workers store, and nobody has booked.
        """
        with as_publish_errors(self.directory):
            self.directory.mkdir()
        try:
            with nullcontext() if self.store is None else self._store_opened(self.store):
                yield
        finally:
            # Whoever comes late finds no directory by that name, and so writes nothing while it is removed.
            gone = self.directory.with_name(f"{self.directory.name}.{uuid.uuid4().hex}")
            self.directory.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    @contextmanager
    def _store_opened(self, store: StoredParts) -> Iterator[None]:
        assert self.run_path is not None
        objects = objects_at(parse_address(store.address))
        with as_publish_errors(self.run_path), as_store_publish_errors():
            # Of an attempt before this one, of which a journal has kept what counts.
            forget_stored(self.run_path)
            objects.create(f"{store.below}/{part_objects.OPEN}", b"parts of a run are taken over\n")
        try:
            yield
        finally:
            part_objects.remove_unbooked(objects, store.below, self.run_path)

    def prove(self) -> Proof:
        """In a worker: write a file, or else an object; nothing where nothing will be written."""
        name, text, host = f"worker-{uuid.uuid4().hex}", uuid.uuid4().hex, socket.gethostname()
        if not self.has_rows:
            return Proof(name, text)
        try:
            (self.directory / name).write_text(text)
        except OSError as error:
            if self.store is not None:
                return self._stored_proof(self.store, Proof(name, text, is_stored=True), host)
            why_not = f"{self.directory}: cannot be written on {host} ({os.strerror(error.errno or 0)})"
            return Proof(name, text, why_not=why_not)
        return Proof(name, text)

    def _stored_proof(self, store: StoredParts, proof: Proof, host: str) -> Proof:
        said: list[str] = []

        def write() -> None:
            try:
                objects_at(parse_address(store.address)).create(f"{store.below}/{proof.name}", proof.text.encode())
                said.append("")
            except StoreFailure as failure:
                said.append(failure.reason)
            except StageError as error:
                said.append(str(error))

        thread = threading.Thread(target=write, name="prove", daemon=True)
        thread.start()
        thread.join(_PROVE_SECONDS)
        reason = said[0] if said else f"no answer within {_PROVE_SECONDS:.0f} s"
        why_not = f"{store.address}: cannot be written from {host} ({reason})" if reason else ""
        return replace(proof, why_not=why_not)

    def is_proven(self, proof: Proof | None) -> bool:
        """Whether the file is here, or the object there, with what the worker says that it wrote."""
        if proof is None or proof.why_not:
            return False
        if not self.has_rows:
            return True
        path = self.directory / proof.name
        if proof.is_stored and not (self.store is not None and _brought(self.store, proof, path)):
            return False
        try:
            return path.is_file() and path.read_text() == proof.text
        except (OSError, UnicodeError):
            return False

    def what_is_sent(self, proof: Proof | None) -> str:
        """For people."""
        place, sharing = str(self.directory), "share the output directory"
        unseen = f"{place}: is another directory there, or what is written there cannot be read here"
        if self.store is not None:
            unseen = f"{self.store.address}: what is written there cannot be read here"
            sharing = "give it the store's credentials and the extra that reads it"
        why = unseen if proof is None or not proof.why_not else proof.why_not
        return f"{why}; what it finds is sent here, and written here; {sharing} to spare that"

    @contextmanager
    def open(self, name: str, execution: Execution, proof: Proof) -> Iterator[_LeaseSink]:
        """In a worker: the sink of a lease.

        Raises
        ------
        PublishError
            The directory, or the store, cannot be written: no word of the cluster, which would have the lease done
            again elsewhere.
        """
        store = self.store if proof.is_stored else None
        derived = [_SummedUp(make()) for make in self.derived]
        with self._room(name, store) as room:
            with as_publish_errors(room):
                sink = self.sink(
                    room,
                    spills=True,
                    block_bytes=execution.block_bytes,
                    memory_budget=execution.memory_budget_bytes,
                    derived=derived,
                )
            lease = _LeaseSink(sink)
            with sink:
                yield lease
            lease.made = replace(_written(room, sink), derived=tuple(each.sums() for each in derived))
            if store is not None:
                lease.made = _stored(store, name, room, lease.made)

    @contextmanager
    def _room(self, name: str, store: StoredParts | None) -> Iterator[Path]:
        """A new directory for a lease; where it goes to a store, a temporary one of this host."""
        if not self.has_rows:
            yield self.directory / name
            return
        if store is None:
            room = self.directory / name
            with as_publish_errors(self.directory):
                room.mkdir()
            yield room
            return
        with Mirror(parse_address(store.address)) as mirror:
            room = mirror.root / "lease"
            with as_publish_errors(room):
                room.mkdir()
            yield room

    def fetched(self, written: Written) -> Written:
        """What a worker has stored, with all files in the directory here, and no more in the store.

        Raises
        ------
        PublishError
            As `pipeline.stores.part_objects.fetched`.
        """
        assert self.store is not None
        objects, room = objects_at(parse_address(self.store.address)), self.directory / f"fetched-{uuid.uuid4().hex}"
        part_objects.fetched(objects, written.stored, room)
        with as_store_publish_errors():
            objects.delete([entry.name for entry in written.stored])
        spills = tuple(replace(spill, path=room / spill.path) for spill in written.spills)
        of_spills = {spill.path.as_posix() for spill in written.spills}
        files: dict[str, tuple[tuple[Path, int], ...]] = {}
        for entry in written.stored:
            if entry.path not in of_spills:
                name = entry.path.partition("/")[0]
                files[name] = (*files.get(name, ()), (room / entry.path, entry.bytes))
        return replace(written, files=files, spills=spills, stored=())


class _SummedUp:
    """Takes blocks in for a derived output, from any of the sink's threads, one at a time."""

    def __init__(self, collector: Any) -> None:
        self._collector, self._lock = collector, threading.Lock()
        self.sums = collector.sums

    def accept(self, block: Any, keys: Any) -> None:
        with self._lock:
            self._collector.accept(block, keys)


class _LeaseSink:
    """See `mbe_stage.runners.parts.PartSink`."""

    def __init__(self, sink: RowSink[Any]) -> None:
        self.accept = sink.accept
        self.made: Written | None = None

    def part(self) -> tuple[Written, int]:
        """What was written, and its bytes."""
        assert self.made is not None
        return self.made, self.made.n_bytes


def parts_of(collecting: Collecting, sink: Callable[..., RowSink[Any]], *, has_rows: bool = True) -> WorkerParts | None:
    """How workers write; None where this process does the search, or derived outputs take in results without rows.

    Parameters
    ----------
    collecting : Collecting
    sink : callable
        As of `WorkerParts`.
    has_rows : bool
        Whether it writes any, which derived outputs read back.
    """
    if collecting.config.execution.runner == "local":
        return None
    summing: Sequence[Any] = () if has_rows else collecting.derived
    derived = tuple(each.for_workers() for each in summing)
    if None in derived:
        log.info("a derived output takes every result in, and no rows are written: workers send what they find")
        return None
    run_path = collecting.run_path.resolve()
    # Workers of a run that was killed may still write where it told them to.
    attempt = uuid.uuid4().hex[:8]
    place, store = place_of(collecting.config.output.directory), None
    if has_rows and is_address(place):
        below = f"{part_objects.parts_below(run_path.parent.name)}/{attempt}"
        store = StoredParts(str(parse_address(str(place))), below)
    directory = run_path.with_name(f"{run_path.name}.{attempt}.parts")
    return WorkerParts(directory, sink, run_path, store, derived, has_rows)


def _written(room: Path, sink: RowSink[Any]) -> Written:
    summary, spills = sink.summary, sink.spills
    files: dict[str, tuple[tuple[Path, int], ...]] = {}
    # One without rows is there only so that a data set can be read.
    if summary.fingerprint.n_items and not spills and room.is_dir():
        with as_publish_errors(room):
            files = {
                directory.name: tuple((path, path.stat().st_size) for path in sorted(directory.glob("*.parquet")))
                for directory in sorted(room.iterdir())
            }
    return Written(files, spills, summary)


def _stored(store: StoredParts, name: str, room: Path, written: Written) -> Written:
    """What is written in a room of this host alone, once it is in the store."""
    paths = [path for parts in written.files.values() for path, _ in parts] + [spill.path for spill in written.spills]
    if not paths:
        return written
    objects, below = objects_at(parse_address(store.address)), f"{store.below}/{name}"
    with as_publish_errors(room):
        entries = tuple(
            StoredEntry(**entry.model_dump(), store=store.address, name=f"{below}/{entry.path}")
            for entry in (file_entry(room, path) for path in paths)
        )
        with as_store_publish_errors():
            if objects.size(f"{store.below}/{part_objects.OPEN}") is None:
                raise PublishError(f"{store.address}/{store.below}: nobody takes parts over any more; the run is over")
            objects.upload(room, [entry.path for entry in entries], below)
    spills = tuple(replace(spill, path=spill.path.relative_to(room)) for spill in written.spills)
    return replace(written, files={}, spills=spills, stored=entries)


def _brought(store: StoredParts, proof: Proof, path: Path) -> bool:
    """Whether the object of a proof is there; then it is here too."""
    try:
        objects_at(parse_address(store.address)).download({f"{store.below}/{proof.name}": path})
    except StoreFailure as failure:
        log.info("%s: cannot be read (%s)", failure.place, failure.reason)
        return False
    return True


def _check_arrived(path: Path, n_bytes: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != n_bytes:
        raise PublishError(
            f"{path}: {'is missing' if found is None else f'has {found:,} bytes'}; expected {n_bytes:,} bytes, which a "
            "worker has written; see what its host and this one share, or have results sent: workers that cannot write "
            "there do that"
        )
