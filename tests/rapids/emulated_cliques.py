"""Run cliques on the tier `rapids` without a GPU: kernels on the emulator, cuDF over Arrow. A script.

Blocks come from the reference in the form of the engine `cuda`; several devices search on the emulator. Everything
after them is the tier's own: pieces, keys, sums, order, parts, tables; and the library. Prints a JSON line per case
whose tables equal the host's.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.cliques import engine_cuda, reference
from mbe_stage.cliques.results import CliqueTableSink, Detail
from mbe_stage.options import Execution
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.steps import enumerate_to
from mbe_stage.pipeline.problems.installed import reading_of
from tests.mbe_stage.cliques.emulated_cliques import SMALL, use_the_emulator
from tests.mbe_stage.emulated_devices import fake_devices
from tests.rapids import frames_on_arrow

Ends = tuple[list[Any], list[Any]]
TABLES = ("cliques", "vertices.parquet", "size_histogram.parquet")


def random_ends(seed: int, n: int, n_rows: int, name: Any = int) -> Ends:
    """Return pairs, some repeated, reversed or with equal ends."""
    dice = np.random.default_rng(seed)
    first, second = dice.integers(0, n, (2, n_rows)).tolist()
    return [name(u) for u in first], [name(v) for v in second]


def cases() -> list[tuple[str, Ends, dict[str, Any], dict[str, Any], int]]:
    """Yield name, rows, clique options, output options and bytes of device memory."""
    integers, texts = random_ends(1, 24, 130), random_ends(2, 18, 90, "ü{}".format)
    plenty, little = 1 << 30, 1 << 12
    return [
        ("as found", integers, {}, {}, plenty),
        ("as found, of little memory", integers, {}, {"compression": "none"}, little),
        ("sorted", integers, {}, {"sort": True}, plenty),
        ("sorted on the host", integers, {}, {"sort": True, "compression": "snappy"}, little),
        ("text", texts, {"min_size": 3}, {"sort": True}, plenty),
        ("sizes", texts, {"min_size": 2, "max_size": 3}, {"sort": True}, plenty),
        ("members", integers, {"containing": [5]}, {"sort": True}, plenty),
        ("right side", random_ends(3, 14, 60, "{}!".format), {"project": "right", "min_shared": 2}, {}, plenty),
        ("left side", random_ends(4, 14, 60), {"project": "left"}, {"sort": True}, plenty),
        ("vertices alone", ([3, 1, 2], [3, 1, 2]), {}, {}, plenty),
        ("none", integers, {"min_size": 20}, {}, plenty),
        ("none, sorted", integers, {"min_size": 20}, {"sort": True}, plenty),
        ("two devices", integers, {}, {"sort": True}, plenty),
        ("two devices, members", integers, {"containing": [5]}, {}, plenty),
    ]


def device_blocks(graph: Any, query: Any, execution: Execution, tasks: Any = None) -> Iterator[Any]:
    """Return the reference's results in blocks of a few cliques, in the engine's form."""
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    sink = CliqueTableSink()
    for found in reference.run(graph, query, execution, Detail.MEMBERS, tasks):
        sink.accept(found)
    whole = sink.table()
    block = DeviceCliqueBlock(whole.sizes.astype(np.int32), whole.members)
    for first in range(0, len(block), 40):
        yield block.part(first, min(len(block), first + 40))
    yield DeviceCliqueBlock.empty(work_done=1.0)


def config(name: str, asked: dict[str, Any], output: dict[str, Any]) -> Config:
    execution = {"devices": [0, 1]} if name.startswith("two devices") else {}
    return Config.from_mapping({"problem": "cliques", "cliques": asked, "output": output, "execution": execution})


def table(run_path: Path, name: str) -> pa.Table:
    read = pq.read_table(run_path / name)
    return read.sort_by("clique_key") if name == "cliques" else read


def published(edges: Any, asked: Config, run_path: Path, engine: str, backend: Any) -> Any:
    run_path.mkdir(parents=True)
    return enumerate_to(edges, asked, run_path, engine=engine, backend=backend)


def compared(name: str, facts: tuple[Any, Any], paths: tuple[Path, Path], *, is_sorted: bool) -> dict[str, Any]:
    ours, theirs = facts
    assert ours.counts == theirs.counts, (name, ours.counts, theirs.counts)
    assert ours.content_fingerprint == theirs.content_fingerprint, name
    assert {"plan", "name", "write"} <= ours.seconds.keys(), name
    for each in TABLES:
        found, wanted = (table(path, each) for path in paths)
        assert found.schema == wanted.schema, (name, each)
        assert found.equals(wanted), (name, each)
    parts = sorted((paths[0] / "cliques").iterdir())
    keys = np.concatenate([pq.read_table(part)["clique_key"].to_numpy() for part in parts])
    assert not is_sorted or (keys[1:] > keys[:-1]).all(), name
    assert not (paths[0] / ".sort").exists(), name
    return {"case": name, "cliques": ours.counts["cliques"], "parts": len(parts)}


class Said(logging.Handler):
    """New log lines since the last call."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    @classmethod
    def of(cls, name: str) -> Said:
        """Collect the lines logged below a name from now on."""
        said, log = cls(), logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.addHandler(said)
        return said

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def took(self, text: str) -> bool:
        lines, self._lines = self._lines, []
        return any(text in line for line in lines)


def check_library(name: str, edges: Any, asked: dict[str, Any], run_path: Path) -> None:
    """Check that frames equal the published tables, also piece by piece."""
    from mbe_stage.pipeline.problems.cliques import cudf_library as library

    library.ingest = lambda *_: edges
    pieces: list[Any] = []
    tables = library.enumerate_cliques(None, **asked)
    taken = library.enumerate_cliques(None, **asked, on_frame=pieces.append)
    wanted = {each.partition(".")[0]: table(run_path, each).to_pylist() for each in TABLES}
    found = {each: getattr(tables, each).to_arrow(preserve_index=False) for each in wanted}
    assert found["cliques"].sort_by("clique_key").to_pylist() == wanted["cliques"], name
    assert all(found[each].to_pylist() == wanted[each] for each in ("vertices", "size_histogram")), name
    assert tables.n_cliques == taken.n_cliques == sum(map(len, pieces)) == len(wanted["cliques"]), name
    assert len(taken.cliques) == 0, name
    few = library.enumerate_cliques(None, **asked, max_cliques=2)
    n_few = min(2, len(wanted["cliques"]))
    assert len(few.cliques) == few.n_cliques == n_few, name
    assert few.truncated == ("stopped at max_cliques = 2" if len(wanted["cliques"]) > 2 else None), name


def main(directory: Path) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    fake_devices()
    use_the_emulator()
    frames_on_arrow.install()
    from mbe_stage.pipeline.backends.arrow.backend import ARROW
    from mbe_stage.pipeline.backends.cudf import plan
    from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
    from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges
    from mbe_stage.pipeline.execution import steps
    from mbe_stage.runners.devices import DeviceRunner

    sizes = SMALL | {"n_blocks": 1, "quantum_seconds": 0.01}
    steps.DeviceRunner = lambda devices: DeviceRunner(devices, options={"sizes": sizes})
    # So that small results make several pieces and parts.
    plan._SMALLEST_PART = plan._LARGEST_PART = 1 << 8
    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.compile_steps = lambda *_: ()
    engine_cuda.device = lambda _: "the emulator"
    engine_cuda.device_blocks = device_blocks
    said = Said.of("mbe_stage.pipeline")
    for name, ends, asked, output, limit in cases():
        of_run = config(name, asked, output)
        edges = ingest(reading_of(of_run), ends)
        on_device = DeviceEdges.from_host(edges)
        paths = directory / name / "device", directory / name / "host"
        facts = (
            published(on_device, of_run, paths[0], "cuda", CudfBackend(frames_on_arrow.pool(limit))),
            published(edges, config("", asked, output), paths[1], "reference", ARROW),
        )
        line = compared(name, facts, paths, is_sorted=of_run.output.sort)
        line["ranks"] = len(facts[0].ranks.each) if facts[0].ranks else 0
        line["sorted on the host"] = said.took("sorting on the host")
        check_library(name, on_device, asked, paths[1])
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
