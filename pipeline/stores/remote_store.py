"""Published runs at an address in an object store; copies of runs are also read through fsspec.

::

    ADDRESS/latest                    JSON: the run published last, its number and its manifest's checksum
    ADDRESS/runs/<run_id>/            the files of a run; uploading the manifest, which comes last, publishes it
    ADDRESS/.staging/<run_id>         claims a name while its run is uploaded
    ADDRESS/.staging/<name>.parts/    results of cluster workers for a run in progress (`part_objects`)

`latest` is written on the condition that it has not changed since the upload began (`pipeline.stores.latest_pointer`).
If two write concurrently, one wins; the other removes its upload and fails. So names sort in the order of publication,
and each number is used once. A store without conditional writes is refused before any work.

Through fsspec, the run whose name sorts last is the latest, because a copied directory has no pointer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import (
    ABANDONED_AFTER,
    KEPT_DAYS,
    LATEST,
    MANIFEST_NAME,
    RUN_ID,
    RUNS,
    STAGING,
    as_publish_errors,
    is_run_id,
    provisional_id,
)
from mbe_stage.pipeline.publish.staging import Staging
from mbe_stage.pipeline.safe_paths import is_path_within
from mbe_stage.pipeline.stores.address import Address, check_output, parse_address
from mbe_stage.pipeline.stores.failures import as_store_publish_errors
from mbe_stage.pipeline.stores.latest_pointer import ConditionalObject, Pointer
from mbe_stage.pipeline.stores.local_copies import LocalCopies, remove_staging, unfinished_staging
from mbe_stage.pipeline.stores.objects import Objects
from mbe_stage.pipeline.stores.opening import files_at
from mbe_stage.pipeline.stores.part_objects import PARTS, group_of, remove_parts
from mbe_stage.pipeline.stores.transfers import MovedBytes, StoredObject
from mbe_stage.pipeline.wording import bytes_text

log = logging.getLogger(__name__)

_AT_ONCE = 8
# Claims, probes, clocks and parts of runs.
_OURS = re.compile(rf"{re.escape(STAGING)}/{RUN_ID}(-probe|-[0-9a-f]{{8}}-clock|{re.escape(PARTS)}/.+)?")


class RemoteStore:
    """See `pipeline.publish.staging.Store`.

    Raises
    ------
    ConfigError
        The address cannot be used, or its package is not installed.

    Attributes
    ----------
    files : RemoteFiles
        The files, for reading.
    copies : LocalCopies
        Copies of opened runs, and staging directories of new ones; removed with the store.
    """

    def __init__(self, address: str) -> None:
        self._address = parse_address(address)
        self.files = files_at(self._address)
        self.copies = LocalCopies(self._address)
        self._listed: list[StoredObject] | None = None
        self._is_checked = False

    @property
    def address(self) -> str:
        """The user's name of the store."""
        return str(self._address)

    @property
    def objects(self) -> Objects:
        """The same objects as `files`, for writing.

        Raises
        ------
        ConfigError
            Runs are not published there.
        """
        return self.files if isinstance(self.files, Objects) else Objects(self._address)

    @property
    def latest_pointer(self) -> ConditionalObject:
        """The object that holds the pointer to the latest run."""
        return ConditionalObject(self.objects, LATEST)

    @property
    def directory(self) -> Path:
        """The temporary directory that holds staging directories of new runs."""
        return self.copies.root

    def check_writable(self) -> None:
        """Check that the store can be reached and supports conditional writes; creates and removes a small object.

        Raises
        ------
        PublishError
        ConfigError
            Runs are not published there.
        """
        if self._is_checked:
            return
        check_output(self.address)
        self._refuse_among_published()
        with as_store_publish_errors():
            self.pointer()
            self.latest_pointer.check(f"{STAGING}/{provisional_id(datetime.now(UTC))}-probe")
        self._is_checked = True

    def check_listed(self) -> None:
        """Refuse anything but an output directory: a run, or an address with nothing below it.

        Raises
        ------
        PublishError
        """
        if self.is_run():
            raise PublishError(f"{self.address}: is a run; expected its output directory; name that")
        if self.latest() is None and not self.names() and not self.unfinished():
            raise PublishError(
                f"{self.address}: contains no run; expected an output directory, as after mbe enumerate --out "
                f"{self.address}"
            )

    def unfinished(self) -> list[Path]:
        """List the staging directories of resumable runs on this machine, newest last."""
        return unfinished_staging(self._address)

    def begin(self, kept_days: float = KEPT_DAYS, staging_dir: Path | None = None) -> Staging:
        """Return the local staging of a new run, which is created when its context is entered.

        Parameters
        ----------
        kept_days : float
            Age at which other resumable runs on this machine are removed.
        staging_dir : Path, optional
            One of `unfinished`, to resume.

        Raises
        ------
        PublishError
            See `check_writable`.
        """
        from mbe_stage.pipeline.stores.remote_staging import RemoteStaging

        self.check_writable()
        return RemoteStaging(self, kept_days, staging_dir)

    def clean(self) -> list[str]:
        """Remove leftovers of incomplete uploads, and checkpoints on this machine.

        Uploads of the last day may still be in progress.

        Raises
        ------
        PublishError
            It cannot be removed.
        """
        with as_store_publish_errors("not all was removed"):
            removed = [f"{self.address}/{name}" for name in self.remove_leftovers(ABANDONED_AFTER)]
            return [*removed, *self.remove_staging(0.0)]

    def remove_staging(self, kept_days: float, but: Path | None = None) -> list[str]:
        """Remove checkpoints on this machine (`local_copies.remove_staging`), and the workers' parts of these runs.

        Returns
        -------
        list of str
            Paths and addresses.

        Raises
        ------
        StoreFailure
        """
        staging_dirs = remove_staging(self._address, kept_days, but)
        stored = [
            f"{self.address}/{name}"
            for staging_dir in staging_dirs
            for name in remove_parts(self.objects, staging_dir.name)
        ]
        return [*map(str, staging_dirs), *stored]

    def latest(self) -> Path | None:
        """Return the run published last, with its manifest; or None."""
        if not self._address.is_in_store:
            return self.opened(self.run_called(names[-1])) if (names := self.names()) else None
        with as_store_publish_errors("nothing was changed"):
            pointer = self.pointer()
            if pointer is None:
                return None
            found = self.files.read(f"{RUNS}/{pointer.run_id}/{MANIFEST_NAME}")
        if found is None or hashlib.sha256(found).hexdigest() != pointer.manifest_sha256:
            return None
        return self._keep_manifest(pointer.run_id, found)

    def runs(self) -> list[Path]:
        """List the published runs in the order of publication; nothing is copied yet."""
        return [self.run_called(name) for name in self.names()]

    def directories(self) -> list[Path]:
        """List the published runs with their manifests; a run without a manifest is not published."""
        runs = self.runs()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self.opened, runs))

    def close(self) -> None:
        """Remove the copies of runs."""
        self.copies.close()

    def opened(self, run: Path) -> Path:
        """Return a run with its manifest, or without it if another writer has removed the run."""
        if not (run / MANIFEST_NAME).exists():
            with as_store_publish_errors("nothing was changed"):
                found = self.files.read(f"{RUNS}/{run.name}/{MANIFEST_NAME}")
            if found is not None:
                self._keep_manifest(run.name, found)
        return run

    def whole(self, run: Path) -> Path:
        """Return a run with all of its files.

        Raises
        ------
        PublishError
            It cannot be read, or this disk is full.
        """
        with as_store_publish_errors("nothing was changed"):
            of_run = self.files.listed(f"{RUNS}/{run.name}")
        return self._fetched(run, of_run)

    def with_files(self, run: Path, names: Sequence[str]) -> Path:
        """Return a run with its files of these names; missing ones are left out.

        Raises
        ------
        PublishError
            See `whole`.
        """
        wanted = {f"{RUNS}/{run.name}/{name}" for name in names}
        return self._fetched(run, [each for each in self.listed() if each.name in wanted])

    def _fetched(self, run: Path, wanted: Sequence[StoredObject]) -> Path:
        """Return a run with some of its objects as files; files that are already here are not fetched again."""
        paths = {each: self.copies.root / each.name for each in wanted}
        missing = {
            each.name: path for each, path in paths.items() if not (path.exists() and path.stat().st_size == each.size)
        }
        n_bytes = sum(each.size for each in wanted if each.name in missing)
        below = f"{RUNS}/{run.name}"
        log.info("fetching %s/%s: %s", self.address, below, bytes_text(n_bytes))
        with as_publish_errors(self.copies.root, "nothing was changed"), as_store_publish_errors("nothing was changed"):
            self.files.download(missing, MovedBytes(f"fetching {below}", n_bytes))
        return run

    def with_source(self, run: Path) -> Path:
        """Return a complete run and, in the same directory, the run it was made from, if that exists."""
        made_of = json.loads((run / MANIFEST_NAME).read_bytes()).get("made_of")
        if isinstance(made_of, str) and made_of in self.names():
            self.whole(self.run_called(made_of))
        return run

    def sizes(self, run: Path) -> Callable[[str], int | None]:
        """Return a function from a path within a run to the size of the file."""
        below = f"{RUNS}/{run.name}/"
        found = {each.name.removeprefix(below): each.size for each in self.listed() if each.name.startswith(below)}
        return found.get

    def is_run(self) -> bool:
        """Return whether the address is itself a run."""
        with as_store_publish_errors("nothing was changed"):
            return self.files.size(MANIFEST_NAME) is not None

    def pointer(self) -> Pointer | None:
        """Read `latest`; None before the first run.

        Raises
        ------
        PublishError
            The object has other content.
        StoreFailure
        """
        found = self.latest_pointer.read()
        return None if found is None else Pointer.read(*found, f"{self.address}/{LATEST}")

    def names(self) -> list[str]:
        """List the names of published runs, ascending: those with a manifest."""
        return [name for name, files in self.uploads().items() if any(_is_manifest(each.name) for each in files)]

    def uploads(self, *, again: bool = False) -> dict[str, list[StoredObject]]:
        """Return the objects of every run, published or not, by the run's name, ascending."""
        found: dict[str, list[StoredObject]] = {}
        for each in self.listed(again=again):
            found.setdefault(each.name.split("/")[1], []).append(each)
        return dict(sorted(found.items()))

    def listed(self, *, again: bool = False) -> list[StoredObject]:
        """Return every object of every run, from the first listing or a new one."""
        if self._listed is None or again:
            with as_store_publish_errors("nothing was changed"):
                found = [each for each in self.files.listed(RUNS) if each.name.count("/") > 1]
            self._listed = [each for each in found if is_path_within(each.name)]
            if odd := next((each.name for each in found if not is_path_within(each.name)), None):
                log.warning("%s: %r is not a valid file name of a run, and is left out", self.address, odd)
        return self._listed

    def run_called(self, name: str) -> Path:
        """Return the path of a run's local copy, which may not exist yet."""
        return self.copies.root / RUNS / name

    def remove_leftovers(self, older_than: timedelta = ABANDONED_AFTER) -> list[str]:
        """Remove leftovers of incomplete uploads without recent additions.

        Returns
        -------
        list of str
            The names of the objects.

        Raises
        ------
        StoreFailure
        """
        left = self._older_than(datetime.now(UTC) - older_than)
        if left:
            # This machine's clock may be wrong, and another writer may still be uploading.
            now = self._time_there()
            left = [] if now is None else self._older_than(now - older_than)
        if left:
            log.info("removing leftovers of unfinished uploads: %d objects", len(left))
            self.objects.delete(left)
        return left

    def _older_than(self, before: datetime) -> list[str]:
        """Return the objects that belong to no published run and have no additions since that time."""

        def is_old(each: StoredObject) -> bool:
            return each.modified is not None and each.modified < before

        staged: dict[str, list[StoredObject]] = {}
        for each in filter(lambda each: _OURS.fullmatch(each.name), self.objects.listed(STAGING)):
            staged.setdefault(group_of(each.name), []).append(each)
        # Parts of a run stay while new ones are added.
        left = [each.name for together in staged.values() if all(map(is_old, together)) for each in together]
        published = set(self.names())
        for name, files in self.uploads().items():
            if is_run_id(name) and name not in published and all(map(is_old, files)):
                left += [each.name for each in files]
        return left

    def _time_there(self) -> datetime | None:
        """Return the store's clock, which dates its objects; None if it gives no dates."""
        name = f"{STAGING}/{provisional_id(datetime.now(UTC))}-{secrets.token_hex(4)}-clock"
        self.objects.create(name, b"what time it is\n")
        try:
            return next((each.modified for each in self.objects.listed(STAGING) if each.name == name), None)
        finally:
            self.objects.delete([name])

    def remove_oldest(self, keep_runs: int) -> None:
        """Remove the oldest runs beyond a number, never the latest; the manifest first.

        Raises
        ------
        StoreFailure
        """
        self.listed(again=True)
        pointer = self.pointer()
        others = [name for name in self.names() if pointer is None or name != pointer.run_id]
        for name in others[: max(0, len(others) + 1 - keep_runs)]:
            self.remove_run(name)

    def remove_run(self, name: str) -> None:
        """Remove a run or its rest, the manifest first: without that it is not a run."""
        below = f"{RUNS}/{name}"
        self.objects.delete([f"{below}/{MANIFEST_NAME}"])
        self.objects.delete([each.name for each in self.objects.listed(below)])

    def _keep_manifest(self, name: str, content: bytes) -> Path:
        run = self.run_called(name)
        with as_publish_errors(self.copies.root, "nothing was changed"):
            run.mkdir(parents=True, exist_ok=True)
            (run / MANIFEST_NAME).write_bytes(content)
        return run

    def _refuse_among_published(self) -> None:
        parts = self._address.key.split("/")
        for at, part in enumerate(parts):
            above = Address(self._address.root, "/".join(parts[:at]))
            if part == RUNS and _has_pointer(above):
                raise PublishError(
                    f"{self.address}: lies in {above / RUNS}, the directory of published runs; expected a place "
                    f"outside it; choose {above}, or another"
                )


def found_run(place: str) -> tuple[str, str]:
    """Resolve an address of a run, or of an output directory for its latest run, to output directory and run name.

    Raises
    ------
    PublishError
        There is no run; the message describes what was found.
    """
    named = _run_named(parse_address(place))
    if named is not None:
        return named
    store = RemoteStore(without_latest(place))
    with store.copies:
        latest, names = store.latest(), store.names()
    if latest is not None:
        return store.address, latest.name
    if names:
        example = f"{store.address}/{RUNS}/{names[-1]}"
        raise PublishError(f"{place}: its pointer 'latest' does not lead to a run; name a run, for example {example}")
    raise PublishError(f"{place}: holds no published run; publish one first: mbe enumerate INPUT --out {place}")


def _has_pointer(address: Address) -> bool:
    with as_store_publish_errors():
        return Objects(address).read(LATEST) is not None


def without_latest(place: str) -> str:
    """Return the output directory for an address of it or of its pointer."""
    return place.rstrip("/").removesuffix(f"/{LATEST}")


def _run_named(address: Address) -> tuple[str, str] | None:
    """Find the run at an address, as `found_run`; None if it is not a run, such as another object below `runs`."""
    above, _, name = address.key.rpartition("/")
    if above.rpartition("/")[2] != RUNS or name == LATEST:
        return None
    store = RemoteStore(str(Address(address.root, above.rpartition("/")[0])))
    with store.copies:
        names = store.names()
    if name in names:
        return store.address, name
    if names:
        raise PublishError(f"{address}: no such run; expected a run listed by mbe runs {store.address}; name it")
    return None


def _is_manifest(name: str) -> bool:
    return name.split("/")[2:] == [MANIFEST_NAME]
