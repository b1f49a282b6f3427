"""What workers bring to a store for one attempt at a run: from when somebody takes it over until nobody does.

An object says so for that time (`part_objects.OPEN`). A worker looks at it before it writes anything, and once more
when it has: where it is gone by then, the worker removes what it has written. The run removes that object first when it
ends, and lists what is there then. So one of the two finds everything that was written, whoever was faster; only what a
worker was writing that died of it stays, until what killed processes leave is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import file_entry
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.stored_parts import StoredEntry, stored_entries
from mbe_stage.pipeline.stores.address import parse_address
from mbe_stage.pipeline.stores.failures import StoreFailure, as_store_publish_errors
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.part_objects import OPEN, fetch

__all__ = ["StoredParts"]

log = logging.getLogger(__name__)

_WORKERS = "workers"
# Objects that workers were writing while the first listing was made are in the second, unless they are very late.
_LISTINGS = 3


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

    @property
    def objects(self) -> Objects:
        """Reached with what the environment of this process says.

        Raises
        ------
        ConfigError
            What reaches them is not installed here.
        """
        return Objects(parse_address(self.address))

    @contextmanager
    def opened(self, run_path: Path) -> Iterator[None]:
        """In the process that publishes: workers may write for as long as the context.

        Afterwards nothing is left that the run has not booked.

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
        """By what those workers are known that have written where this process reads; none where it cannot read."""
        below = f"{self.below}/{_WORKERS}"
        try:
            return {each.name.removeprefix(f"{below}/") for each in self.objects.listed(below)}
        except StoreFailure as failure:
            log.info("%s: cannot be read (%s)", failure.place, failure.reason)
            return set()

    def make_known(self, worker: str) -> None:
        """In a worker: have it be among `known`.

        Raises
        ------
        StoreFailure, ConfigError
            It cannot write there.
        PublishError
            The run is over.
        """
        objects, name = self.objects, f"{self.below}/{_WORKERS}/{worker}"
        self._while_open(objects, [name], lambda: objects.create(name, b"a worker can write here\n"))

    def store(self, lease: str, directory: Path, files: Sequence[Path]) -> tuple[StoredEntry, ...]:
        """In a worker: write the files of a lease, which are below a directory, where whoever publishes finds them.

        Returns
        -------
        tuple of StoredEntry
            With paths relative to the directory.

        Raises
        ------
        PublishError
            The store cannot be written, or the run is over; then nothing of them is left.
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
        """Have what a worker has written below a directory here, and no more in the store.

        Raises
        ------
        PublishError
            As `pipeline.stores.part_objects.fetch`.
        """
        objects = self.objects
        fetch(objects, entries, directory)
        try:
            objects.delete([entry.name for entry in entries])
        except StoreFailure as failure:
            # Nobody has booked them: they go with all that is left, at the end.
            log.info("%s: parts that were fetched could not be removed yet (%s)", failure.place, failure.reason)

    def _while_open(self, objects: Objects, names: list[str], write: Callable[[], object]) -> None:
        """Write some objects of these names, which stay only where somebody takes parts over all the while."""
        self._check_open(objects)
        try:
            write()
            self._check_open(objects)
        except BaseException:
            # Also of what failed half way: a run that goes on would find it only at its end.
            try:
                objects.delete(names)
            except StoreFailure as failure:
                log.info("%s: what was written could not be removed (%s)", failure.place, failure.reason)
            raise

    def _check_open(self, objects: Objects) -> None:
        if objects.size(f"{self.below}/{OPEN}") is None:
            raise PublishError(f"{self.address}/{self.below}: nobody takes parts over any more; the run is over")

    def _close(self, objects: Objects, run_path: Path) -> None:
        """Let nobody write any more, and remove what the run has not booked."""
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
