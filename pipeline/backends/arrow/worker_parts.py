"""Workers of a cluster write what they find: the sink of a run for one lease, where whoever publishes finds it.

That is a directory which all of them share, or, where the run goes to an object store and a worker does not see the
directory, the store itself, which the worker writes with credentials of its own environment. What a worker has written
counts once the process that publishes has taken it over: has moved it below its run, or has booked it
(`pipeline.publish.stored_parts`). What a lease that comes late, or of which the worker was lost, has left is taken
by nobody, and removed with the directory, or with the other parts in the store.

A part in the store is fetched where its rows are needed before the run is published: at once, to be put in order and
for derived outputs; before the comparison with the run before, where the two differ, for lists of the report that were
not kept in passing, and when the run is gone on with, as sums are made of the rows once more. Checksums are the
workers' own.

What goes wrong in the directory goes wrong for all who share it, and ends the run. What goes wrong between a worker and
the store, or on the disk of its host, is its own: it is told to whoever asks for the search
(`mbe_stage.runners.parts.PartFailed`), which has that worker send what it finds.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mbe_stage.errors import StageError
from mbe_stage.options import Execution
from mbe_stage.pipeline.backends.arrow.worker_sums import WorkerSums
from mbe_stage.pipeline.backends.arrow.written import Written
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.execution.output_limit import bytes_below
from mbe_stage.pipeline.publish.run_store import as_publish_errors
from mbe_stage.pipeline.stores import part_objects
from mbe_stage.pipeline.stores.address import is_address, parse_address, place_of
from mbe_stage.pipeline.stores.attempt_parts import StoredParts
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.local_copies import Mirror
from mbe_stage.runners.parts import PartFailed

if TYPE_CHECKING:
    from mbe_stage.pipeline.backends.arrow.row_sink import RowSink
    from mbe_stage.pipeline.problems.base import Collecting

__all__ = [
    "MOST_HELD_BYTES",
    "Proof",
    "WorkerParts",
    "left_by_worker",
    "parts_of",
    "proven",
    "sink_within",
    "why_unproven",
]

_Sink = TypeVar("_Sink", bound="RowSink[Any]")

# A worker without credentials may look for those of its machine for minutes.
_PROVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What a worker has left to be found.

    Attributes
    ----------
    name : str
        Of a file, or in a store; no other worker has it.
    text : str
        What is in the file.
    is_stored : bool
        Whether it is in a store.
    why_not : str
        Why nothing was left; empty where something was.
    """

    name: str
    text: str
    is_stored: bool = False
    why_not: str = ""


def left_by_worker(directory: Path, store: StoredParts | None) -> Proof:
    """In a worker: write a file, or else make the worker known in the store."""
    proof, host = Proof(f"worker-{uuid.uuid4().hex}", uuid.uuid4().hex), socket.gethostname()
    try:
        (directory / proof.name).write_text(proof.text)
    except OSError as error:
        if store is None:
            why_not = f"{directory}: cannot be written on {host} ({os.strerror(error.errno or 0)})"
            return replace(proof, why_not=why_not)
    else:
        return proof
    reason = _why_not_known(store, proof.name)
    why_not = f"{store.address}: cannot be written from {host} ({reason})" if reason else ""
    return replace(proof, is_stored=True, why_not=why_not)


def proven(directory: Path, store: StoredParts | None, proofs: Mapping[str, Proof | None]) -> set[str]:
    """In the process that publishes: the workers of which the file is here, or the name in the store.

    The store is asked once for all of them.
    """
    left = {worker: proof for worker, proof in proofs.items() if proof is not None and not proof.why_not}
    of_store = {worker: proof for worker, proof in left.items() if proof.is_stored}
    known = store.known() if store is not None and of_store else set()
    return {
        worker
        for worker, proof in left.items()
        if (proof.name in known if worker in of_store else _is_here(directory, proof))
    }


def why_unproven(directory: Path, store: StoredParts | None, proof: Proof | None) -> str:
    """Why a worker may not write, and how it may, in two clauses."""
    unseen = f"{directory}: is another directory there, or what is written there cannot be read here"
    remedy = "share the output directory"
    if store is not None:
        unseen = f"{store.address}: what is written there cannot be read here"
        remedy = "give it the store's credentials and the extra that reads it"
    why = unseen if proof is None or not proof.why_not else proof.why_not
    return f"{why}; what it finds is sent here, and written here; {remedy} to spare that"


def _is_here(directory: Path, proof: Proof) -> bool:
    path = directory / proof.name
    try:
        return path.is_file() and path.read_text() == proof.text
    except (OSError, UnicodeError):
        return False


def _why_not_known(store: StoredParts, name: str) -> str:
    """Have a worker known in a store; why that cannot be done, empty where it is."""
    said: list[str] = []

    def write() -> None:
        try:
            store.make_known(name)
            said.append("")
        except StoreFailure as failure:
            said.append(failure.reason)
        except StageError as error:
            said.append(str(error))
        except BaseException as error:  # noqa: BLE001 - of what a library raises, its text may hold what it was given
            said.append(type(error).__name__)

    thread = threading.Thread(target=write, name="prove", daemon=True)
    thread.start()
    thread.join(_PROVE_SECONDS)
    return f"no answer within {_PROVE_SECONDS:.0f} s" if thread.is_alive() else said[0]


log = logging.getLogger(__name__)

MOST_HELD_BYTES = 1 << 30
"""Of files of one lease on the disk of its host alone, where temporary files may be in memory: then the lease ends."""


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
    store : StoredParts or None
        For workers that do not see the directory.
    """

    directory: Path
    sink: Callable[..., RowSink[Any]] = field(repr=False)
    run_path: Path | None = None
    store: StoredParts | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
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
        with store.opened(self.run_path):
            yield

    def prove(self) -> Proof:
        """In a worker: write a file, or else have it known in the store."""
        return left_by_worker(self.directory, self.store)

    def proven(self, proofs: Mapping[str, Proof | None]) -> set[str]:
        """The workers whose files are here, or which are known in the store."""
        return proven(self.directory, self.store, proofs)

    def what_is_sent(self, proof: Proof | None) -> str:
        """For people."""
        return why_unproven(self.directory, self.store, proof)

    @contextmanager
    def open(self, name: str, execution: Execution, proof: Proof) -> Iterator[_LeaseSink]:
        """In a worker: the sink of a lease.

        Raises
        ------
        PublishError
            The directory cannot be written: no word of the cluster, which would have the lease done again elsewhere.
        PartFailed
            The store, or the disk of this host, cannot be written.
        """
        if proof.is_stored and self.store is not None:
            with self._in_store(self.store, name, execution) as lease:
                yield lease
            return
        room = self.directory / name
        with as_publish_errors(self.directory):
            room.mkdir()
        with self._written_in(room, execution, None) as lease:
            yield lease

    @contextmanager
    def _in_store(self, store: StoredParts, name: str, execution: Execution) -> Iterator[_LeaseSink]:
        """In a temporary directory of this host, and then in the store."""
        with _as_part_failed(), Mirror(parse_address(store.address)) as mirror:
            room = mirror.root / "lease"
            with as_publish_errors(room):
                room.mkdir()
            with self._written_in(room, execution, MOST_HELD_BYTES) as lease:
                yield lease
            written = lease.made
            assert written is not None
            if written.paths:
                lease.made = written.in_store(store.store(name, room, written.paths), room)

    @contextmanager
    def _written_in(self, room: Path, execution: Execution, most_bytes: int | None) -> Iterator[_LeaseSink]:
        with as_publish_errors(room):
            sink = self.sink(
                room, spills=True, block_bytes=execution.block_bytes, memory_budget=execution.memory_budget_bytes
            )
        lease = _LeaseSink(sink, room, most_bytes)
        with sink:
            yield lease
        lease.made = Written.by(sink, room)

    def fetched(self, written: Written) -> Written:
        """What a worker has stored, with all files in the directory here.

        Raises
        ------
        PublishError
            As `pipeline.stores.part_objects.fetch`.
        """
        assert self.store is not None
        room = self.directory / f"fetched-{uuid.uuid4().hex}"
        self.store.fetch(written.stored, room)
        return written.fetched(room)


class _LeaseSink:
    """See `mbe_stage.runners.parts.PartSink`."""

    def __init__(self, sink: RowSink[Any], room: Path, most_bytes: int | None) -> None:
        self.accept = sink.accept
        self.made: Written | None = None
        self._room, self._most_bytes = room, most_bytes

    @property
    def is_full(self) -> bool:
        """Whether the files have more bytes than they may; a directory that is shared has no such bound."""
        return self._most_bytes is not None and bytes_below(self._room) > self._most_bytes

    def part(self) -> tuple[Written, int]:
        """What was written, and its bytes."""
        assert self.made is not None
        return self.made, self.made.n_bytes


def sink_within(collecting: Collecting, sink: Callable[..., _Sink], *, has_rows: bool = True) -> _Sink:
    """The sink of a run within what its configuration gives it.

    Parameters
    ----------
    collecting : Collecting
    sink : callable
        Makes it; workers make theirs with it too.
    has_rows : bool
        As of `parts_of`.
    """
    execution = collecting.config.execution
    return sink(
        collecting.run_path,
        block_bytes=execution.block_bytes,
        memory_budget=execution.memory_budget,
        derived=collecting.derived,
        journal=collecting.journal,
        parts=parts_of(collecting, sink, has_rows=has_rows),
    )


def parts_of(
    collecting: Collecting, sink: Callable[..., RowSink[Any]], *, has_rows: bool = True
) -> WorkerParts | WorkerSums | None:
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
    if not has_rows:
        summing: Sequence[Any] = collecting.derived
        derived = tuple(each.for_workers() for each in summing)
        if None in derived:
            log.info("a derived output takes every result in, and no rows are written: workers send what they find")
            return None
        return WorkerSums(sink, derived)
    run_path = collecting.run_path.resolve()
    # Workers of a run that was killed may still write where it told them to.
    attempt = uuid.uuid4().hex[:8]
    directory = run_path.with_name(f"{run_path.name}.{attempt}.parts")
    return WorkerParts(directory, sink, run_path, _stored_parts(collecting, run_path, attempt))


def _stored_parts(collecting: Collecting, run_path: Path, attempt: str) -> StoredParts | None:
    """Where workers may write into the output's store; None where it is in none that copies its objects itself.

    A file system of another machine would have every part fetched and written once more, which takes longer than to
    have results sent.
    """
    place = place_of(collecting.config.output.directory)
    if not is_address(place) or not (address := parse_address(str(place))).is_in_store:
        return None
    return StoredParts(str(address), f"{part_objects.parts_below(run_path.parent.name)}/{attempt}")


@contextmanager
def _as_part_failed() -> Iterator[None]:
    """Turn what is refused while a part is kept into the failure of this worker alone; what a search says stays."""
    try:
        yield
    except (PublishError, ConfigError) as error:
        cause = error.__cause__
        # Those say what becomes of a run, and of this one nothing has.
        if isinstance(cause, StoreFailure):
            raise PartFailed(f"{cause.place}: {cause.reason}") from None
        if isinstance(cause, OSError) and cause.errno:
            raise PartFailed(f"{cause.filename or 'a temporary file'}: {os.strerror(cause.errno)}") from None
        raise PartFailed(str(error)) from None
