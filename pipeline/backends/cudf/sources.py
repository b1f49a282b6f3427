"""Files as cuDF is given them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

__all__ = ["opened"]

# fsspec, which cuDF uses to open files, reads these characters as patterns, chains or protocols.
_SPECIAL = frozenset("*?[]:~")


def opened(paths: Sequence[Path]) -> list[str] | list[io.BytesIO]:
    """Return the files' names or, if a name could be misread, their contents."""
    if any(_SPECIAL & set(str(path)) for path in paths):
        return [io.BytesIO(path.read_bytes()) for path in paths]
    return [str(path.absolute()) for path in paths]
