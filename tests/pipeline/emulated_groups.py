"""Compare the groups of emulated device blocks with those of the host's sink; NumPy replaces CuPy.

Run as a script with a directory: prints a JSON line for each kind of groups once the tables are equal.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mbe_stage import BicliqueBlock, TableSink, enumerate_into
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.pipeline import Config, EdgeData
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.installed import derived_of
from tests.mbe_stage.emulated_device import use_the_emulator
from tests.pipeline.groups_support import EDGES, settings

N_BLOCKS = 4


@dataclass(frozen=True, eq=False)
class DeviceEdges:
    """The part of the device backend's edges that groups use."""

    host: EdgeData
    hashes: Any = None
    half_later: Any = None

    @property
    def events(self) -> Any:
        return self.host.events

    def key_hashes(self) -> Any:
        return self.host.key_hashes()

    def to_host(self) -> EdgeData:
        assert self.hashes is not None
        return replace(self.host, hashes=self.hashes)


def published(config: Config, backend: Any, edges: Any, graph: Any, blocks: Any, run_path: Path) -> dict[str, Any]:
    """Return every table and the counts that a collector makes of blocks."""
    (output,) = derived_of(config)
    run_path.mkdir(parents=True)
    with output.collector(Collecting(run_path, config, edges, graph, backend)) as collector:
        for block, keys in blocks:
            collector.accept(block, keys)
        counts = collector.finish()
    return {"counts": counts} | {path.name: pq.read_table(path) for path in sorted(run_path.iterdir())}


def main(directory: Path) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    from tests.mbe_stage import device_checks

    for kind in ("both", "short_list"):
        config = settings(directory, groups={"kind": kind})
        edges = ingest(config.input, EDGES)
        graph = edges.graph()
        found = TableSink()
        enumerate_into(found, graph, engine="reference")
        table = found.table()
        lists = table.left_offsets, table.left_members, table.right_offsets, table.right_members
        cuts = np.linspace(0, len(table), N_BLOCKS + 1).astype(int).tolist()
        whole = device_checks.DeviceBlock(*lists)
        on_device = [whole.part(*bounds) for bounds in itertools.pairwise(cuts)]
        on_host: list[BicliqueBlock] = [device_checks.to_host(block) for block in on_device]
        keys = [biclique_keys(block, *edges.key_hashes()) for block in on_host]
        wanted = published(config, ARROW, edges, graph, zip(on_host, keys, strict=True), directory / kind / "host")
        backend, blocks = SimpleNamespace(name="cudf"), zip(on_device, keys, strict=True)
        ours = published(config, backend, DeviceEdges(edges), graph, blocks, directory / kind / "device")
        assert ours.keys() == wanted.keys(), (list(ours), list(wanted))
        for name, other in wanted.items():
            assert ours[name] == other, name
        print(json.dumps({"kind": kind, "tables": list(wanted), "groups": wanted["counts"]["groups"]}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
