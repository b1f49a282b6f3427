"""Sums of a run whose results are not written: all that was summed up so far in one file, which the journal names.

A file of the newest record takes the place of that of the record before: there is one record, of all that is done.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mbe_stage.pipeline.backends.arrow.parts import next_number
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.run_store import as_publish_errors
from mbe_stage.tasks import Task

__all__ = ["Arrays", "book_sums", "can_be_kept", "restore", "taken_back", "together"]

Arrays = dict[str, np.ndarray]
"""Whatever was summed up, as arrays by name: of numbers, and none of objects."""

_OWN = "run"  # No derived output: sections and problems are called otherwise.


def book_sums(
    journal: Journal, remaining: Sequence[Task], work_done: float, sums: Callable[[], Arrays], n_items: int
) -> None:
    """Have the journal say that all but these tasks is done, and what it came to.

    Parameters
    ----------
    remaining : sequence of Task
        At least one.
    work_done : float
        As `Journal.add` takes it.
    sums : callable
        Gives what was summed up, by this process and earlier ones; it is called once.
    n_items : int
        Results in it.

    Raises
    ------
    PublishError
        It cannot be written.
    """
    directory = journal.room / "sums"
    with as_publish_errors(directory):
        directory.mkdir(exist_ok=True)
        path = directory / f"sums-{next_number(directory):05d}.npz"
        np.savez(path, **cast(Any, sums()))
        journal.add(remaining, work_done, [path], n_items, is_whole=True)


def taken_back(journal: Journal | None) -> Arrays | None:
    """What the file of the journal holds; None where none is booked.

    Raises
    ------
    PublishError
        It cannot be read, though its checksum is right.
    """
    if journal is None or not journal.files:
        return None
    (path,) = journal.files
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise PublishError(
            f"{path}: cannot be read ({error}); expected the sums of a run; begin anew, without --resume"
        ) from None


def can_be_kept(derived: Sequence[Any]) -> bool:
    """Whether what some derived outputs have taken in can be kept, and taken back by another process."""
    return all(each.gives_sums for each in derived)


def together(own: Arrays, derived: Sequence[Any]) -> Arrays:
    """The sums of a run and those of its derived outputs, in one."""
    every = {_OWN: own, **{each.name: each.sums() for each in derived}}
    return {f"{name}/{key}": array for name, arrays in every.items() for key, array in arrays.items()}


def restore(sums: Arrays, own: Callable[[Arrays], None], derived: Sequence[Any]) -> None:
    """Hand on what `together` has put together: to what takes the run's own, and to its derived outputs."""
    own(_of(_OWN, sums))
    for each in derived:
        each.restore(_of(each.name, sums))


def _of(name: str, sums: Arrays) -> Arrays:
    return {key.removeprefix(f"{name}/"): array for key, array in sums.items() if key.startswith(f"{name}/")}
