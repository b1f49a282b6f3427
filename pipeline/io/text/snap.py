"""SNAP edge lists: lines of ids, with comments that begin with `#`."""

from __future__ import annotations

from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.io.raw import RawEdges
from mbe_stage.pipeline.io.text.konect import read_lines

__all__ = ["read"]


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a SNAP edge list."""
    return read_lines(path, config, "snap", "#")
