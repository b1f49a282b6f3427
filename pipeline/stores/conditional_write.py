"""The conditional write: of several writers only one replaces an object, which is the pointer to the latest run."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.objects import Objects

__all__ = ["ConditionalObject"]


class ConditionalObject:
    """An object whose content is replaced on the condition that it is what it was."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name

    def read(self) -> tuple[bytes, Mapping[str, Any]] | None:
        """The content, and its version for `write`; None before the first write.

        Raises
        ------
        StoreFailure
        """
        return self._objects.read_version(self._name)

    def write(self, content: bytes, before: Mapping[str, Any] | None) -> None:
        """Replace the content that has this version; None before the first write.

        Raises
        ------
        StoreConflict
            Another writer has written it meanwhile.
        """
        if before is None:
            self._objects.create(self._name, content)
        else:
            self._objects.replace(self._name, content, before)

    def check(self, scratch: str) -> None:
        """Try conditional writes with an object of another name, and remove it.

        Raises
        ------
        StoreFailure
            Two writers could undo each other's work, or nothing can be written there at all.
        """
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


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except StoreConflict:
        return True
    return False
