"""A run written on this machine and then uploaded: the manifest last, then the pointer by a conditional write."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import (
    ABANDONED_AFTER,
    KEPT_DAYS,
    MANIFEST_NAME,
    RUNS,
    STAGING,
    as_publish_errors,
    next_run_id,
)
from mbe_stage.pipeline.publish.staging import Staging
from mbe_stage.pipeline.publish.stored_parts import stored_entries
from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure, as_store_publish_errors
from mbe_stage.pipeline.stores.latest_pointer import pointer_behind
from mbe_stage.pipeline.stores.local_copies import adopt
from mbe_stage.pipeline.stores.part_objects import copy_into_run, remove_parts
from mbe_stage.pipeline.stores.transfers import MovedBytes
from mbe_stage.pipeline.wording import bytes_text

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.latest_pointer import Pointer
    from mbe_stage.pipeline.stores.remote_store import RemoteStore

log = logging.getLogger(__name__)

# Attempts at names that other writers have just claimed; more collisions are not due to chance.
_MOST_CLAIMS = 20


class RemoteStaging(Staging):
    """The local staging directory of one run of a remote store, until it is uploaded; see `Staging`.

    Parameters
    ----------
    kept_days : float
        See `RemoteStore.begin`.
    staging_dir : Path, optional
        A run to resume; it is moved to this store's local copies.
    """

    leftovers_after = ABANDONED_AFTER

    def __init__(self, store: RemoteStore, kept_days: float = KEPT_DAYS, staging_dir: Path | None = None) -> None:
        super().__init__(store, kept_days, staging_dir)
        self._remote, self._given = store, staging_dir
        self._pointing = False

    @contextmanager
    def noted_by_interrupts(self) -> Iterator[None]:
        """Make Ctrl-C after publication report that the run is published; wraps all work for the run."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            if self._published is not None:
                interrupt.add_note(f"{self._remote.address}/{RUNS}/{self.run_id} is published")
            raise

    @run_state.at_step("publish")
    def publish(self, keep_runs: int | None = None) -> Path:
        """Upload the run, and point `latest` at it unless another writer has published in the meantime.

        Parameters
        ----------
        keep_runs : int, optional
            Afterwards remove the oldest runs beyond this many; never the latest.

        Returns
        -------
        Path
            The copy of the run on this machine; it exists as long as the store object.

        Raises
        ------
        PublishError
            The run has no manifest, the store cannot be written, or another run was published since the upload began.
            Nothing is published unless the message says so.
        """
        run = self._published or self._upload()
        place = f"{self._remote.address}/{RUNS}/{self.run_id}"
        with as_store_publish_errors(f"{place} is published, but older runs could not be removed"):
            self._remote.remove_leftovers(self.leftovers_after)
            if keep_runs is not None:
                self._remote.remove_oldest(keep_runs)
        with as_publish_errors(self._staging_dir, f"{place} is published"):
            self._remove()
        return run

    def _make(self) -> None:
        if self._given is not None:
            adopt(self._given, self._staging_dir)
        with as_store_publish_errors():
            self._remote.remove_staging(self._kept_days, self._staging_dir)
        super()._make()

    def _remove(self) -> None:
        # The parts of a resumed run are no longer listed.
        has_parts = self._staging_dir.exists() and (self._given is not None or bool(stored_entries(self.path)))
        super()._remove()
        if not has_parts or self._staging_dir.exists():
            return
        try:
            remove_parts(self._remote.objects, self._staging_dir.name)
        except StoreFailure as failure:
            log.warning("%s: parts could not be removed (%s); a later run removes them", failure.place, failure.reason)

    def _upload(self) -> Path:
        if not (self.path / MANIFEST_NAME).is_file():
            raise PublishError(f"{self.path}: has no {MANIFEST_NAME}; expected a finished run; call steps.finish first")
        self._pointing = False
        with as_store_publish_errors():
            before = self._remote.pointer()
            claim = self._claim(before)
            try:
                self._send(before)
            except BaseException as error:
                # The answer may have been lost: the pointer says whether the run is published.
                is_published = self._is_published(before)
                if is_published is None and self._pointing:
                    # The pointer may lead to this run.
                    self._leave_as_it_is(error)
                    raise
                if not is_published:
                    self._withdraw(claim)
                    raise
                if not isinstance(error, Exception):
                    self._settle(claim)
                    raise
            return self._settle(claim)

    def _claim(self, before: Pointer | None) -> str:
        """Claim a name that sorts after every run and that no other writer takes."""
        taken = list(self._remote.uploads(again=True))
        taken += [] if before is None else [before.run_id]
        for _ in range(_MOST_CLAIMS):
            run_id = next_run_id(taken, datetime.now(UTC))
            try:
                self._remote.objects.create(f"{STAGING}/{run_id}", b"the claim of a writer\n")
            except StoreConflict:
                taken.append(run_id)
                continue
            with as_publish_errors(self._staging_dir):
                self._take_name(run_id)
            return f"{STAGING}/{run_id}"
        raise PublishError(
            f"{self._remote.address}: {_MOST_CLAIMS} names were just taken by other writers; nothing was "
            "published; expected few writers at once; run it again"
        )

    def _send(self, before: Pointer | None) -> None:
        objects, below = self._remote.objects, f"{RUNS}/{self.run_id}"
        names = sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file())
        names.remove(MANIFEST_NAME)
        # Workers' parts are copied within the store, even if they were fetched for reading; few stores do not support
        # that.
        in_store = {path.removeprefix(f"{self.path.name}/") for path in stored_entries(self.path)}
        names = sorted({*names} - in_store | {*copy_into_run(objects, self.path, below)})
        n_bytes = sum((self.path / name).stat().st_size for name in names)
        log.info("uploading %s/%s: %s", self._remote.address, below, bytes_text(n_bytes))
        objects.upload(self.path, names, below, MovedBytes(f"uploading {self.run_id}", n_bytes))
        self._check_there(below)
        objects.create(f"{below}/{MANIFEST_NAME}", self.manifest)
        content = pointer_behind(before, self.run_id, self.manifest)
        self._pointing = True
        try:
            self._remote.latest_pointer.write(content, None if before is None else before.version)
        except StoreConflict as conflict:
            conflict.reason = "another run was published while this one was uploaded"
            raise

    def _check_there(self, below: str) -> None:
        """Refuse to publish if the store's listing differs: a copy may fail silently."""
        files = json.loads(self.manifest)["files"]
        found = {each.name: each.size for each in self._remote.objects.listed(below)}
        for name, n_bytes in ((f"{below}/{entry['path']}", entry["bytes"]) for entry in files):
            if found.get(name) != n_bytes:
                size = f"has {found[name]:,} bytes" if name in found else "is not listed"
                reason = f"{size} after it was copied or uploaded, of {n_bytes:,} bytes"
                raise StoreFailure(errno.EIO, reason, f"{self._remote.address}/{name}", "try again")

    def _is_published(self, before: Pointer | None) -> bool | None:
        """Return whether the pointer names this run, now or earlier; None if the store does not answer."""
        with suppress(StoreFailure, PublishError):
            pointer = self._remote.pointer()
            return pointer is not None and pointer.has_published(self.run_id, before)
        return None

    def _leave_as_it_is(self, error: BaseException) -> None:
        place = f"{self._remote.address}/{RUNS}/{self.run_id}"
        if isinstance(error, StoreFailure):
            raise PublishError(
                f"{place}: {error.reason}, while the pointer to it was written; the run is complete, but may not "
                f"be published: check with mbe runs {self._remote.address}; {error.remedy}"
            ) from error
        log.warning("%s may be published: check with mbe runs %s", place, self._remote.address)

    def _withdraw(self, claim: str) -> None:
        """Remove the upload, the manifest first. Leftovers are not a run, and the next writer removes them."""
        place = f"{self._remote.address}/{RUNS}/{self.run_id}"
        try:
            self._remote.remove_run(self.run_id)
            self._remote.objects.delete([claim])
        except StoreFailure as failure:
            log.warning("%s: its files could not be removed (%s); a later run removes them", place, failure.reason)

    def _settle(self, claim: str) -> Path:
        """Move the published run's copy to the store's copies, and release the claim."""
        run = self._remote.run_called(self.run_id)
        with as_publish_errors(self._staging_dir, f"{self._remote.address}/{RUNS}/{self.run_id} is published"):
            run.parent.mkdir(parents=True, exist_ok=True)
            kept = self._linked()
            os.rename(self.path, run)
            self._keep(kept)
        self._published = run
        try:
            self._remote.objects.delete([claim])
        except StoreFailure as failure:
            log.warning("%s/%s could not be removed (%s)", self._remote.address, claim, failure.reason)
        return run
