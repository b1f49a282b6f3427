"""The pointer of a store to the run published last, and to some before it: JSON (see `conditional_write`)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.run_ids import is_run_id

__all__ = ["Pointer", "pointer_behind"]

# A writer whose answer was lost finds its run among these, unless so many others have published since.
_PREVIOUS = 20


@dataclass(frozen=True, slots=True)
class Pointer:
    """What `latest` says.

    Attributes
    ----------
    sequence : int
        1 for the first run that was published there.
    previous : tuple of str
        The names of some runs that were published before it, the newest first.
    version
        Of the object that holds it, for its replacement.
    """

    run_id: str
    sequence: int
    manifest_sha256: str
    previous: tuple[str, ...]
    version: Any

    @classmethod
    def read(cls, content: bytes, version: Any, place: str) -> Pointer:
        """The pointer that an object holds.

        Raises
        ------
        PublishError
            It holds something else.
        """
        try:
            values = json.loads(content)
            run_id, sequence, sha256 = (values[name] for name in ("run_id", "sequence", "manifest_sha256"))
            # Pointers of earlier versions name no others.
            previous = tuple(values.get("previous", ()))
            if not all(map(is_run_id, (run_id, *previous))) or type(sequence) is not int or sequence < 1:
                raise ValueError
            return cls(run_id, sequence, str(sha256), previous, version)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise PublishError(
                f"{place}: is no pointer to a run; expected JSON with run_id, sequence and manifest_sha256; move it "
                "away, or choose another output directory"
            ) from None

    def has_published(self, run_id: str, before: Pointer | None) -> bool | None:
        """Whether a run was published behind `before`; None where too many others have been since to know it."""
        known = (self.run_id, *self.previous)
        if run_id in known:
            return True
        n_since = self.sequence - (0 if before is None else before.sequence)
        return False if n_since <= len(known) else None


def pointer_behind(before: Pointer | None, run_id: str, manifest: bytes) -> bytes:
    """What `latest` is to say of the next run.

    Parameters
    ----------
    before : Pointer or None
        What it says now.
    """
    values = {
        "run_id": run_id,
        "sequence": 1 if before is None else before.sequence + 1,
        "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
        "previous": [] if before is None else [before.run_id, *before.previous][:_PREVIOUS],
    }
    return f"{json.dumps(values, indent=2)}\n".encode()
