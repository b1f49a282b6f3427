"""KONECT: a file `out.*`, on its own or inside its archive.

Lines are `left right [weight [timestamp]]`; comments begin with `%`. Ids count from 1, separately for the two sides,
and are kept.
"""

from __future__ import annotations

import logging
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import open_konect
from mbe_stage.pipeline.io.raw import RawEdges, refuse_two_sets
from mbe_stage.pipeline.io.text import snap

log = logging.getLogger(__name__)


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a KONECT file or archive or, in a directory, its `out.*` file."""
    if path.is_dir():
        path = _member(path)
    with open_konect(path) as stream:
        kind = stream.readline(1000).split()
    if kind[:2] == [b"%", b"bip"]:
        refuse_two_sets(config, str(path), "a bipartite graph (bip), whose two sides are counted separately")
    elif kind[:2] in ([b"%", b"sym"], [b"%", b"asym"]) and not config.is_undirected:
        log.warning(
            "%s is a graph with one kind of vertex (%s): its first column is taken as left, its second as right",
            path,
            kind[1].decode(),
        )
    return snap.read(path, config, "konect", "%")


def _member(directory: Path) -> Path:
    found = sorted(entry for entry in directory.iterdir() if entry.name.startswith("out."))
    if len(found) != 1:
        what, expected = f"a directory with {len(found)} files out.*", "one, as in an unpacked KONECT archive"
        raise InputError.at(directory, found=what, expected=expected, remedy="give the file with the edges")
    return found[0]
