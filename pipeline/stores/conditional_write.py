"""One object whose content is replaced on the condition that it is what it was: the pointer to the latest run.

Object stores have a conditional write for that. File systems have, at best, a name that only one writer can take: there
the pointer is a directory of numbered files, the greatest number is what it says, and to replace number 7 is to take
number 8. A number is removed once there are eight greater ones, so whoever takes one and sees no such number was the
first to take it, and has won, though others may have followed; else it was taken and removed before.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure
from mbe_stage.pipeline.stores.objects_below import ObjectsBelow

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.objects import Objects

__all__ = ["Cell", "ConditionalCell", "NumberedCell"]

log = logging.getLogger(__name__)

_NUMBER = re.compile(r"\d{8,}")
# A reader that has listed them reads the greatest a moment later, in which there are not so many publications.
_KEPT = 8
_MOST_LOOKS = 10
# What a driver says that has no such function, or does not take what it is given.
_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP)


class Cell(Protocol):
    """What can be replaced by one writer at a time."""

    def read(self) -> tuple[bytes, Any] | None:
        """The content, and its version for `write`; None where nothing was written yet.

        Raises
        ------
        StoreFailure
        """

    def write(self, content: bytes, before: Any) -> None:
        """Replace what had this version; None where nothing was written yet.

        Raises
        ------
        StoreConflict
            Somebody else has written it meanwhile.
        """

    def check(self, scratch: str) -> None:
        """Try what `write` needs, with an object of another name, which is removed again.

        Raises
        ------
        StoreFailure
            Two writers could undo each other's work, or nothing can be written there at all.
        """


class ConditionalCell:
    """An object, by the conditional writes of an object store."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name

    def read(self) -> tuple[bytes, Any] | None:
        """See `Cell.read`."""
        return self._objects.read_version(self._name)

    def write(self, content: bytes, before: Any) -> None:
        """See `Cell.write`."""
        if before is None:
            self._objects.create(self._name, content)
        else:
            self._objects.replace(self._name, content, before)

    def check(self, scratch: str) -> None:
        """See `Cell.check`."""
        objects = self._objects
        first = objects.create(scratch, b"first")
        try:
            holds = _is_refused(lambda: objects.create(scratch, b"second"))
            objects.replace(scratch, b"third", first)
            holds &= _is_refused(lambda: objects.replace(scratch, b"fourth", first))
        finally:
            objects.delete([scratch])
        if not holds:
            reason = "the store does not keep the conditions of writes (If-None-Match, If-Match)"
            remedy = "choose one that does, or two writers could undo each other's runs: docs/how-to/object-stores.md"
            raise StoreFailure(errno.EOPNOTSUPP, reason, str(objects.address), remedy)


class NumberedCell:
    """A directory of numbered files, each of which one writer can create.

    Parameters
    ----------
    keeps_apart : bool
        Whether of two writers that create the same file at the same time one is sure to be refused.
    """

    def __init__(self, objects: ObjectsBelow, name: str, *, keeps_apart: bool) -> None:
        self._objects, self._name, self._keeps_apart = objects, name, keeps_apart

    def read(self) -> tuple[bytes, int] | None:
        """See `Cell.read`; the version is the number."""
        for _ in range(_MOST_LOOKS):
            numbers = self._numbers()
            if not numbers:
                return None
            content = self._objects.read(self._called(max(numbers)))
            if content is not None:
                return content, max(numbers)
        # Removed by others between two looks, again and again: as good as no answer.
        raise self._failure(errno.EIO, "is replaced all the time", "try again")

    def write(self, content: bytes, before: int | None) -> None:
        """See `Cell.write`."""
        number = 1 if before is None else before + 1
        try:
            self._objects.create(self._called(number), content)
        except StoreConflict as conflict:
            raise StoreConflict(self._place()) from conflict
        numbers = self._numbers()
        greatest = max(numbers, default=0)
        if greatest >= number + _KEPT:
            # Below a greater one it is never read.
            with suppress(StoreFailure):
                self._objects.delete([self._called(number)])
            raise StoreConflict(self._place())
        if greatest < number:
            raise self._failure(errno.EIO, "what was written is not listed", "try again")
        # What cannot be removed is the next writer's.
        with suppress(StoreFailure):
            self._objects.delete([self._called(each) for each in numbers if each <= number - _KEPT])

    def check(self, scratch: str) -> None:
        """See `Cell.check`; says so where two writers at the same time are not kept apart."""
        objects = self._objects
        try:
            objects.create(scratch, b"first")
        except StoreFailure as failure:
            if failure.errno not in _UNABLE:
                raise
            remedy = "publish to a directory, to an object store, or to a server that takes files"
            reason = "nothing can be written there by way of fsspec"
            raise StoreFailure(errno.EROFS, reason, str(objects.address), remedy) from failure
        try:
            holds = _is_refused(lambda: objects.create(scratch, b"second"))
            holds &= objects.read(scratch) == b"first"
            holds &= scratch in {each.name for each in objects.listed(scratch.rpartition("/")[0])}
        finally:
            objects.delete([scratch])
        if not holds:
            reason = "a file that is there is replaced where it should be refused, or is not listed"
            remedy = "choose another place, or two writers could undo each other's runs: docs/how-to/object-stores.md"
            raise StoreFailure(errno.EOPNOTSUPP, reason, str(objects.address), remedy)
        if not self._keeps_apart:
            log.warning(
                "%s: %s:// does not keep two writers apart that publish at the same time, and one could undo what the "
                "other has published: let one at a time publish there (docs/how-to/object-stores.md)",
                objects.address,
                objects.address.scheme,
            )

    def _numbers(self) -> list[int]:
        listed = (each.name.removeprefix(f"{self._name}/") for each in self._objects.listed(self._name))
        # Those of others, such as `.DS_Store` and `.nfs...`, come and go.
        names = [each for each in listed if not each.startswith(".")]
        numbers = [int(each) for each in names if _NUMBER.fullmatch(each)]
        # What another way of publishing has left there, a link to a run or a file, is not written into.
        if len(numbers) < len(names) or (not names and self._objects.size(self._name) is not None):
            remedy = "name a run below runs/ yourself; to publish there, move it away, or choose another directory"
            raise self._failure(errno.EEXIST, "is no directory of numbered pointers to runs", remedy)
        return numbers

    def _called(self, number: int) -> str:
        return f"{self._name}/{number:08}"

    def _place(self) -> str:
        return str(self._objects.address / self._name)

    def _failure(self, number: int, reason: str, remedy: str) -> StoreFailure:
        return StoreFailure(number, reason, self._place(), remedy)


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except StoreConflict:
        return True
    return False
