"""Derived outputs of bicliques for a program whose tables are in device memory: what is published, as cuDF frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mbe_stage.graphs.bipartite import BipartiteCSR
from pipeline.backends.cudf.backend import CudfBackend
from pipeline.backends.cudf.edges import DeviceEdges
from pipeline.backends.cudf.frames import Frame
from pipeline.backends.cudf.parquet import read_frame
from pipeline.config import Config
from pipeline.outputs.derived import GuardedCollector, derived_collectors
from pipeline.publication import Collecting

__all__ = ["DerivedFrames", "derived_frames"]


@dataclass(frozen=True, slots=True)
class DerivedFrames:
    """The derived outputs that a configuration asks for, none among them.

    Attributes
    ----------
    collectors : sequence of GuardedCollector
        They take blocks in.
    directory : Path
        Where they write.
    """

    collectors: Sequence[GuardedCollector]
    directory: Path

    def finish(self) -> dict[str, Frame]:
        """Their tables by name, once all blocks were taken in."""
        for each in self.collectors:
            each.finish()
        return {path.stem: read_frame(path) for path in sorted(self.directory.glob("*.parquet"))}


@contextmanager
def derived_frames(config: Config, edges: DeviceEdges, graph: BipartiteCSR) -> Iterator[DerivedFrames]:
    """Begin them; the files that their tables pass through are gone with the context.

    Collectors write files, whatever the backend, and these tables are made on the host: reading them back costs little.
    """
    with TemporaryDirectory(prefix="mbe-") as directory, ExitStack() as ends:
        collecting = Collecting(Path(directory), config, edges, graph, CudfBackend())
        collectors = tuple(ends.enter_context(each) for each in derived_collectors(collecting))
        yield DerivedFrames(collectors, Path(directory))
