"""Atomic publication: a run is written outside the published ones, synced, renamed, and then pointed at.

::

    OUT/latest                    relative symbolic link to the run that was published last
    OUT/runs/<run_id>/            published runs, complete and never changed again
    OUT/.staging/.lock            held for moments: while a run begins, and while one is moved into place
    OUT/.staging/<run_id>/.lock   held by the process that writes this run, for as long as it lives
    OUT/.staging/<run_id>/<run_id>/   the run as it grows
    OUT/.staging/<run_id>/scratch/    temporary files
    OUT/.staging/<run_id>/journal     checkpoints of the run, once there are any (`pipeline.execution.journal`)

A killed process loses its lock, so the next `RunStore.begin` can tell its leftovers from a run in progress. It removes
them, except those with a journal, which stay for some days. The staging directory of a run stopped by a limit stays
too. The files in its journal have two names, in the published run and in the staging directory, and use disk space
once.

Of several concurrent runs, the last to *publish* is `latest`. A process killed between the two renames leaves a
complete run that `RunStore.runs` lists while `latest` still names the previous one.

A run gets its name while it is moved into place, under the store's lock, so names sort in the order of publication.
Until then its report and manifest have a provisional name, which is then replaced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.locks import locked, opened_lock
from mbe_stage.pipeline.publish.run_files import (
    KEPT_DAYS,
    LATEST,
    LOCK,
    MANIFEST_NAME,
    RUNS,
    STAGING,
    as_publish_errors,
    is_run_id,
    is_staging_name,
    refuse_other_than_directory,
    resumable_in,
    sizes_of,
    written_at,
)
from mbe_stage.pipeline.safe_paths import is_directory, is_file_within, is_path_within, odd_entry, opened_directory
from mbe_stage.pipeline.stores.address import is_address, place_of

if TYPE_CHECKING:
    from mbe_stage.pipeline.publish.staging import Staging

__all__ = [
    "MANIFEST_NAME",
    "RunStore",
    "as_publish_errors",
    "refuse_among_published",
    "resolve_run",
]


def refuse_among_published(path: Path) -> None:
    """Refuse to write into a published run, which never changes, or next to it, where the output would look like a run.

    Raises
    ------
    PublishError
    """
    place = path.resolve()
    for above in (place, *place.parents):
        if above.name == RUNS and _latest_in(above.parent)[0] is not None:
            raise PublishError(
                f"{path}: lies in {above}, the directory of published runs; expected a place outside it; choose "
                f"{above.parent}, or another"
            )


class RunStore:
    """An output directory: published runs, the latest of them, and the staging of the next.

    Parameters
    ----------
    directory : path
        Created by the first `begin`.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @property
    def address(self) -> str:
        """The user's name of the store."""
        return str(self.directory)

    def check_writable(self) -> None:
        """Refuse early a directory that `begin` would refuse; nothing is created.

        Raises
        ------
        PublishError
            A file is in the way, this user may not write there, or it is inside another directory's published runs.
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
        latest = self.directory / LATEST
        if latest.exists() and not latest.is_symlink():
            raise PublishError(
                f"{latest}: is not a symbolic link; expected the pointer to the latest run; move it away, or "
                "choose another output directory"
            )
        self.latest()

    def _check_places(self) -> None:
        """Refuse anything but directories in the places of this store."""
        for name in (STAGING, RUNS):
            refuse_other_than_directory(self.directory / name)

    def check_listed(self) -> None:
        """Refuse anything but an output directory.

        Raises
        ------
        PublishError
            There is no such directory, or it is a run itself.
        """
        directory = self.directory
        if (directory / MANIFEST_NAME).exists():
            raise PublishError(f"{directory}: is a run; expected its output directory; name that")
        if not directory.is_dir():
            what = "is a file" if directory.exists() else "does not exist"
            raise PublishError(f"{directory}: {what}; expected an output directory, as after mbe enumerate --out DIR")

    def begin(self, kept_days: float = KEPT_DAYS, staging_dir: Path | None = None) -> Staging:
        """Return the staging of a new run, which is created when its context is entered.

        Parameters
        ----------
        kept_days : float
            Age at which leftovers of interrupted runs, including resumable ones, are removed.
        staging_dir : Path, optional
            One of `unfinished`, to resume.

        Raises
        ------
        PublishError
            The directory cannot be written.
        """
        # Readers start faster without the code for writing runs.
        from mbe_stage.pipeline.publish.staging import Staging

        self.check_writable()
        return Staging(self, kept_days, staging_dir)

    def unfinished(self) -> list[Path]:
        """List the staging directories of resumable runs and of running ones with checkpoints, the newest last."""
        return sorted(resumable_in(self.directory / STAGING), key=written_at)

    def clean(self) -> list[str]:
        """Remove the leftovers of interrupted runs, including resumable ones; return the removed paths.

        Raises
        ------
        PublishError
            It cannot be removed.
        """
        from mbe_stage.pipeline.publish.staging import remove_leftovers  # as above

        self.check_listed()
        self._check_places()
        staging = self.directory / STAGING
        with as_publish_errors(staging, "not all was removed"):
            if not self._holds_output():
                raise PublishError(
                    f"{self.directory}: contains no runs; expected an output directory, as after mbe enumerate "
                    "--out DIR; name that"
                )
            if not is_directory(staging):
                return []
            with opened_directory(staging) as above, locked(opened_lock(staging / LOCK, above)):
                return [str(staging_dir) for staging_dir in remove_leftovers(staging, above, 0.0)]

    def _holds_output(self) -> bool:
        """Return whether the directory is empty or holds runs."""
        names = set(os.listdir(self.directory))
        staged = set(os.listdir(self.directory / STAGING)) if STAGING in names else set()
        if not (names - {STAGING} or staged) or LOCK in staged or any(map(is_staging_name, staged)):
            return True
        return self.latest() is not None or any(is_run_id(run.name) for run in self.runs())

    def latest(self) -> Path | None:
        """Return the run published last, or None.

        Raises
        ------
        PublishError
            The pointer does not lead to a run of this directory.
        """
        run, target = _latest_in(self.directory)
        if run is None and target is not None and not _is_of_a_run(target):
            raise PublishError(
                f"{self.directory / LATEST}: does not point to a run but to {target}; expected {RUNS}/RUN; "
                "remove it, or choose another output directory"
            )
        return run

    def runs(self) -> list[Path]:
        """List the published runs in the order of publication, which is that of their names, newest last.

        A renamed directory is sorted by its new name.
        """
        return [run for run in self.directories() if (run / MANIFEST_NAME).exists()]

    def directories(self) -> list[Path]:
        """List the directories of published runs, in the same order; one may have lost its manifest."""
        refuse_other_than_directory(self.directory / RUNS)
        return sorted(path for path in (self.directory / RUNS).glob("*") if is_directory(path))

    def close(self) -> None:
        """Do nothing: there are no copies."""

    def opened(self, run: Path) -> Path:
        """Return the run, which has its manifest."""
        return run

    def whole(self, run: Path) -> Path:
        """Return the run, which has all its files."""
        return run

    def with_files(self, run: Path, _names: Sequence[str]) -> Path:
        """Return the run with its files; see `whole`."""
        return run

    def sizes(self, run: Path) -> Callable[[str], int | None]:
        """Return a function from a path within a run to the size of the file; None if there is no file."""
        return sizes_of(run)


def resolve_run(path: str | Path, *, may_be_odd: bool = False) -> Path:
    """Return the run directory for `path`: itself, or the latest run of an output directory.

    Parameters
    ----------
    path : path
    may_be_odd : bool
        Accept a run with symbolic links or special files, for a check that reports them.

    Raises
    ------
    PublishError
        It is neither; the message describes what was found.
    """
    path = place_of(path)
    if is_address(path):
        raise PublishError(
            f"{path}: is an address; expected a path of this machine; copy it: with mbe_stage.pipeline.opened_run(...)"
        )
    run = _run_at(Path(path))
    odd = None if may_be_odd else odd_entry(run)
    if odd is not None:
        raise PublishError(f"{run}/{odd}; expected only the files of a run; see mbe verify")
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
        raise PublishError(f"{path}: its pointer 'latest' does not lead to a run; name a run, for example {runs[-1]}")
    raise PublishError(f"{path}: holds no {MANIFEST_NAME} and no published run; publish one first: mbe enumerate")


def _is_of_a_run(target: str) -> bool:
    above, _, name = target.partition("/")
    return above == RUNS and "/" not in name and is_path_within(name)


def _latest_in(directory: Path) -> tuple[Path | None, str | None]:
    """Return the run that a directory's pointer leads to, or None; and the text of the link, or None."""
    pointer = directory / LATEST
    if not pointer.is_symlink():
        return None, None
    target = os.readlink(pointer)
    run = directory / target
    is_run = _is_of_a_run(target) and is_directory(run.parent) and is_directory(run)
    return run if is_run and is_file_within(run, MANIFEST_NAME) else None, target
