"""Parts of a run that cluster workers write for one lease each, where the publishing process reads them.

That place is a directory which all workers share. If the run goes to an object store and a worker does not see the
directory, it is the store itself, which the worker accesses with credentials from its own environment. A worker's parts
only count once the publishing process has moved them below its run, or recorded them (`pipeline.publish.stored_parts`).
Parts of late leases or lost workers are not taken, and are removed with the directory or the store's other parts.

A part in the store is fetched if its rows are needed before publication. Sorting and derived outputs need them at once.
The comparison with an earlier run that differs, report lists that were not collected during the search, and resuming
need them later. Checksums are the workers' own.

A failure in the shared directory affects everyone, and ends the run. A failure between a worker and the store, or on
its host's disk, affects only that worker. It is reported to the search (`mbe_stage.runners.parts.PartFailed`), which
then lets that worker send its results.
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
from mbe_stage.pipeline.backends.arrow.written import WorkerSink, WorkerSums, Written
from mbe_stage.pipeline.errors import ConfigError, PublishError
from mbe_stage.pipeline.execution.output_limit import bytes_below
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.stores import part_objects
from mbe_stage.pipeline.stores.address import is_address, parse_address, place_of
from mbe_stage.pipeline.stores.failures import StoreFailure
from mbe_stage.pipeline.stores.local_copies import LocalCopies
from mbe_stage.pipeline.stores.part_objects import StoredParts
from mbe_stage.runners.parts import PartFailed

if TYPE_CHECKING:
    from mbe_stage.pipeline.problems.base import Collecting

_Sink = TypeVar("_Sink", bound=WorkerSink)

# A worker without credentials may try to find those of its machine for minutes.
_PROVE_SECONDS = 10.0

log = logging.getLogger(__name__)
MOST_HELD_BYTES = 1 << 30
"""Limit for the files of a lease on its host, where temporary files may be in memory; at the limit the lease ends."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A worker's proof of access.

    Attributes
    ----------
    name : str
        Name of the file, or in the store; unique to the worker.
    text : str
        Content of the file.
    is_stored : bool
        True if it is in a store.
    why_not : str
        Why there is no proof; empty if there is one.
    """

    name: str
    text: str
    is_stored: bool = False
    why_not: str = ""


def left_by_worker(directory: Path, store: StoredParts | None) -> Proof:
    """Write a file from a worker or, if that fails, register the worker in the store."""
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
    """Return the workers whose file or store entry this publishing process can see.

    The store is queried once for all of them.
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
    """Explain why a worker may not write, and how to allow it, in two clauses."""
    unseen = f"{directory}: is another directory there, or files written there cannot be read here"
    remedy = "share the output directory"
    if store is not None:
        unseen = f"{store.address}: objects written there cannot be read here"
        remedy = "give it the store's credentials and the extra that reads it"
    why = unseen if proof is None or not proof.why_not else proof.why_not
    return f"{why}; its results are sent and written here; {remedy} to avoid that"


def _is_here(directory: Path, proof: Proof) -> bool:
    path = directory / proof.name
    try:
        return path.is_file() and path.read_text() == proof.text
    except (OSError, UnicodeError):
        return False


def _why_not_known(store: StoredParts, name: str) -> str:
    """Register a worker in a store; return the reason for a failure, or empty text."""
    said: list[str] = []

    def write() -> None:
        try:
            store.make_known(name)
            said.append("")
        except StoreFailure as failure:
            said.append(failure.reason)
        except StageError as error:
            said.append(str(error))
        except BaseException as error:  # noqa: BLE001 - the text of a library's error may repeat its arguments
            said.append(type(error).__name__)

    thread = threading.Thread(target=write, name="prove", daemon=True)
    thread.start()
    thread.join(_PROVE_SECONDS)
    return f"no answer within {_PROVE_SECONDS:.0f} s" if thread.is_alive() else said[0]


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """See `mbe_stage.runners.parts.PartMaker`.

    Attributes
    ----------
    directory : Path
        Absolute; the same here and for the workers.
    sink : callable
        Takes a directory and `RowSink`'s settings for memory and spills, and returns a sink that writes there like that
        of the run; it is pickled.
    run_path : Path or None
        The run, in the publishing process.
    store : StoredParts or None
        The store, for workers that do not see the directory.
    """

    directory: Path
    sink: Callable[..., WorkerSink] = field(repr=False)
    run_path: Path | None = None
    store: StoredParts | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the directory for the context; afterwards remove it with all files that were not moved.

        Unrecorded objects of workers in the store are removed, too.
        """
        with as_publish_errors(self.directory):
            self.directory.mkdir()
        try:
            with nullcontext() if self.store is None else self._store_opened(self.store):
                yield
        finally:
            # Under the new name late workers find no directory, so nothing is written during removal.
            gone = self.directory.with_name(f"{self.directory.name}.{uuid.uuid4().hex}")
            self.directory.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    @contextmanager
    def _store_opened(self, store: StoredParts) -> Iterator[None]:
        assert self.run_path is not None
        with store.opened(self.run_path):
            yield

    def prove(self) -> Proof:
        """Write a file from a worker, or register it in the store."""
        return left_by_worker(self.directory, self.store)

    def proven(self, proofs: Mapping[str, Proof | None]) -> set[str]:
        """Return the workers whose files are here, or that are registered in the store."""
        return proven(self.directory, self.store, proofs)

    def what_is_sent(self, proof: Proof | None) -> str:
        """Explain for people what is sent."""
        return why_unproven(self.directory, self.store, proof)

    @contextmanager
    def open(self, name: str, execution: Execution, proof: Proof) -> Iterator[_LeaseSink]:
        """Open the sink of a lease in a worker.

        Raises
        ------
        PublishError
            The directory cannot be written. A cluster error would repeat the lease elsewhere, in vain.
        PartFailed
            The store, or the disk of this host, cannot be written.
        """
        if proof.is_stored and self.store is not None:
            with self._in_store(self.store, name, execution) as lease:
                yield lease
            return
        directory = self.directory / name
        with as_publish_errors(self.directory):
            directory.mkdir()
        with self._written_in(directory, execution, None) as lease:
            yield lease

    @contextmanager
    def _in_store(self, store: StoredParts, name: str, execution: Execution) -> Iterator[_LeaseSink]:
        """Write to a temporary directory of this host, and then to the store."""
        with _as_part_failed(), LocalCopies(parse_address(store.address)) as copies:
            directory = copies.root / "lease"
            with as_publish_errors(directory):
                directory.mkdir()
            with self._written_in(directory, execution, MOST_HELD_BYTES) as lease:
                yield lease
            written = lease.made
            assert written is not None
            if written.paths:
                lease.made = written.in_store(store.store(name, directory, written.paths), directory)

    @contextmanager
    def _written_in(self, directory: Path, execution: Execution, most_bytes: int | None) -> Iterator[_LeaseSink]:
        with as_publish_errors(directory):
            sink = self.sink(
                directory, spills=True, block_bytes=execution.block_bytes, memory_budget=execution.memory_budget_bytes
            )
        lease = _LeaseSink(sink, directory, most_bytes)
        with sink:
            yield lease
        lease.made = Written.by(sink, directory)

    def fetched(self, written: Written) -> Written:
        """Fetch a worker's stored files into the directory here.

        Raises
        ------
        PublishError
            See `pipeline.stores.part_objects.fetch`.
        """
        assert self.store is not None
        directory = self.directory / f"fetched-{uuid.uuid4().hex}"
        self.store.fetch(written.stored, directory)
        return written.fetched(directory)


class _LeaseSink:
    """See `mbe_stage.runners.parts.PartSink`."""

    def __init__(self, sink: WorkerSink, directory: Path, most_bytes: int | None) -> None:
        self.accept = sink.accept
        self.made: Written | None = None
        self._directory, self._most_bytes = directory, most_bytes

    @property
    def is_full(self) -> bool:
        """True if the files exceed their limit; a shared directory has no limit."""
        return self._most_bytes is not None and bytes_below(self._directory) > self._most_bytes

    def part(self) -> tuple[Written, int]:
        """Return the written files, and their bytes."""
        assert self.made is not None
        return self.made, self.made.n_bytes


def sink_within(collecting: Collecting, sink: Callable[..., _Sink], *, has_rows: bool = True) -> _Sink:
    """Make the sink of a run with the sizes of its configuration.

    Parameters
    ----------
    sink : callable
        Makes the sink, here and in workers.
    has_rows : bool
        See `parts_of`.
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
    collecting: Collecting, sink: Callable[..., WorkerSink], *, has_rows: bool = True
) -> WorkerParts | WorkerSums | None:
    """Return how workers write; None if this process searches, or derived outputs take results without rows.

    Parameters
    ----------
    sink : callable
        See `WorkerParts`.
    has_rows : bool
        True if it writes rows, which derived outputs read back.
    """
    if collecting.config.execution.runner == "local":
        return None
    if not has_rows:
        summing: Sequence[Any] = collecting.derived
        derived = tuple(each.for_workers() for each in summing)
        if None in derived:
            log.info("a derived output needs every result, and no rows are written: workers send their results")
            return None
        return WorkerSums(sink, derived)
    run_path = collecting.run_path.resolve()
    # Workers of a killed run may still write to their own attempt.
    attempt = uuid.uuid4().hex[:8]
    directory = run_path.with_name(f"{run_path.name}.{attempt}.parts")
    return WorkerParts(directory, sink, run_path, _stored_parts(collecting, run_path, attempt))


def _stored_parts(collecting: Collecting, run_path: Path, attempt: str) -> StoredParts | None:
    """Return the place for workers in the output's store; None if the output is a directory."""
    place = place_of(collecting.config.output.directory)
    if not is_address(place):
        return None
    return StoredParts(str(parse_address(str(place))), f"{part_objects.parts_below(run_path.parent.name)}/{attempt}")


@contextmanager
def _as_part_failed() -> Iterator[None]:
    """Turn refusals while a part is saved into a failure of this worker alone; errors of the search pass through."""
    try:
        yield
    except (PublishError, ConfigError) as error:
        cause = error.__cause__
        # Messages of these errors describe the outcome of a whole run, which has not ended here.
        if isinstance(cause, StoreFailure):
            raise PartFailed(f"{cause.place}: {cause.reason}") from None
        if isinstance(cause, OSError) and cause.errno:
            raise PartFailed(f"{cause.filename or 'a temporary file'}: {os.strerror(cause.errno)}") from None
        raise PartFailed(str(error)) from None
