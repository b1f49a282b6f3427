"""The JSON object `latest`: the run published last and some earlier ones, replaced by conditional writes.

If several writers replace it at the same time, only one succeeds.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_files import is_run_id
from mbe_stage.pipeline.stores.failures import StoreConflict, StoreFailure

if TYPE_CHECKING:
    from mbe_stage.pipeline.stores.objects import Objects

# A writer that lost the answer looks for its run among these. If more runs were published since, it cannot tell.
_PREVIOUS = 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """The content of `latest`.

    Attributes
    ----------
    sequence : int
        1 for the first run published there.
    previous : tuple of str
        The names of some earlier runs, newest first.
    version
        Version of the object, for its replacement.
    """

    run_id: str
    sequence: int
    manifest_sha256: str
    previous: tuple[str, ...]
    version: Any

    @classmethod
    def read(cls, content: bytes, version: Any, place: str) -> Pointer:
        """Return the pointer in an object.

        Raises
        ------
        PublishError
            The object has other content.
        """
        try:
            values = json.loads(content)
            run_id, sequence, sha256 = (values[name] for name in ("run_id", "sequence", "manifest_sha256"))
            # Pointers of earlier versions name no other runs.
            previous = tuple(values.get("previous", ()))
            if not all(map(is_run_id, (run_id, *previous))) or type(sequence) is not int or sequence < 1:
                raise ValueError
            return cls(run_id, sequence, str(sha256), previous, version)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise PublishError(
                f"{place}: is not a pointer to a run; expected JSON with run_id, sequence and manifest_sha256; "
                "move it away, or choose another output directory"
            ) from None

    def has_published(self, run_id: str, before: Pointer | None) -> bool | None:
        """Return whether a run was published after `before`; None if too many runs followed to tell."""
        known = (self.run_id, *self.previous)
        if run_id in known:
            return True
        n_since = self.sequence - (0 if before is None else before.sequence)
        return False if n_since <= len(known) else None


def pointer_behind(before: Pointer | None, run_id: str, manifest: bytes) -> bytes:
    """Return the content of `latest` that names the next run.

    Parameters
    ----------
    before : Pointer or None
        The current pointer.
    """
    values = {
        "run_id": run_id,
        "sequence": 1 if before is None else before.sequence + 1,
        "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
        "previous": [] if before is None else [before.run_id, *before.previous][:_PREVIOUS],
    }
    return f"{json.dumps(values, indent=2)}\n".encode()


class ConditionalObject:
    """An object that is replaced only if it has not changed."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name

    def read(self) -> tuple[bytes, Mapping[str, Any]] | None:
        """Return the content, and its version for `write`; None before the first write.

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
            Another writer has written it in the meantime.
        """
        if before is None:
            self._objects.create(self._name, content)
        else:
            self._objects.replace(self._name, content, before)

    def check(self, scratch: str) -> None:
        """Test conditional writes with an object of another name, then remove it.

        Raises
        ------
        StoreFailure
            Conditional writes do not work, or nothing can be written there.
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
            reason = "the store ignores the conditions of writes (If-None-Match, If-Match)"
            remedy = (
                "choose a store with conditional writes, so that writers cannot undo each other's runs: "
                "docs/how-to/object-stores.md"
            )
            raise StoreFailure(errno.EOPNOTSUPP, reason, str(objects.address), remedy)


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except StoreConflict:
        return True
    return False
