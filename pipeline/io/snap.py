"""SNAP edge lists: lines `left right [weight [timestamp]]`, comments begin with `#`; ids are kept as they stand."""

from __future__ import annotations

import functools
from pathlib import Path

from pipeline.config import InputConfig
from pipeline.io.raw import RawEdges
from pipeline.io.text import open_text
from pipeline.io.whitespace import read_fields

__all__ = ["read"]


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a SNAP edge list."""
    return read_fields(functools.partial(open_text, path, config), str(path), "snap", b"#", config)
