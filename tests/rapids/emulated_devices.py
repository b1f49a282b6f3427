"""Run bicliques on the tier `rapids` with several devices, without a GPU: kernels on the emulator, cuDF over Arrow.

Devices are threads that copy arrays to each other. A script; takes a directory and the part ``first`` or ``others`` and
prints a JSON line per case whose tables equal the host's.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage import run_limits
from mbe_stage.errors import DeviceLost, MemoryBudgetExceeded
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.backends.backend import GraphFacts
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import begun_journal, read_journal
from mbe_stage.pipeline.execution.steps import count, enumerate_to
from mbe_stage.pipeline.execution.unfinished import header_of
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.mbe_stage import emulated_devices, graphs
from tests.patience import PATIENCE
from tests.pipeline.emulated_resume import MARKERS, noting
from tests.pipeline.resume_support import Killed
from tests.rapids import frames_on_arrow

TABLES = ("bicliques", "left_vertices.parquet", "right_vertices.parquet", "size_histogram.parquet")
PLENTY, LITTLE = 1 << 30, 1 << 16
SIZES = {"n_blocks": 1, "quantum_seconds": 0.02}


def ends(seed: int, n_left: int, n_right: int, density: float, name: Any = int) -> tuple[list[Any], list[Any]]:
    left, right = np.nonzero(graphs.random_matrix(seed, n_left, n_right, density))
    return [name(u) for u in left.tolist()], [name(v) for v in right.tolist()]


def cases() -> list[tuple[str, dict[str, Any], dict[str, Any], int]]:
    """Yield name, execution options, output options and bytes of device memory."""
    return [
        ("as found", {"devices": [0, 1]}, {}, PLENTY),
        ("sorted", {"devices": "all"}, {"sort": True}, PLENTY),
        ("one twice", {"devices": [0, 0]}, {"sort": True}, PLENTY),
        ("none that holds the tables", {"devices": [1, 2]}, {"sort": True}, PLENTY),
        ("of little memory", {"devices": [0, 1, 2]}, {"compression": "none"}, LITTLE),
    ]


def config(execution: dict[str, Any], output: dict[str, Any]) -> Config:
    output = {"two_hop_steps": 0, **output}
    return Config.from_mapping({"execution": execution, "output": output, "query": {"min_left": 2}})


def table(run_path: Path, name: str) -> pa.Table:
    read = pq.read_table(run_path / name)
    return read.sort_by([(key, "ascending") for key in read.column_names if key != "left" and key != "right"])


def published(edges: Any, asked: Config, run_path: Path, engine: str, backend: Any) -> Any:
    run_path.mkdir(parents=True)
    return enumerate_to(edges, asked, run_path, engine=engine, backend=backend)


@contextmanager
def brought() -> Iterator[list[str]]:
    """Record the threads that copy blocks to the device of the tables."""
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock

    original, threads = DeviceBlock.brought_here, []

    def noted(self: Any) -> Any:
        threads.append(threading.current_thread().name)
        return original(self)

    DeviceBlock.brought_here = noted
    yield threads
    DeviceBlock.brought_here = original


class Runs:
    """Runs of both tiers, below a directory."""

    def __init__(self, directory: Path) -> None:
        from mbe_stage.pipeline.backends.arrow.backend import ARROW
        from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
        from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges

        self._directory, self._arrow, self._cudf = directory, ARROW, CudfBackend
        self._edges = ingest(Config().input, ends(1, 60, 40, 0.12, "k{}".format))
        self._on_device = DeviceEdges.from_host(self._edges)

    def on_devices(self, name: str, asked: Config, limit: int = PLENTY) -> tuple[Any, Path]:
        path = self._directory / name / "device"
        return published(self._on_device, asked, path, "cuda", self._cudf(frames_on_arrow.pool(limit))), path

    def counted(self, asked: Config) -> Any:
        return count(self._on_device, asked, engine="cuda", backend=self._cudf(frames_on_arrow.pool(PLENTY))).facts

    def resumed_on_two_devices(self, name: str) -> dict[str, Any]:
        """Resume on two devices a run that two devices started and that ended after a checkpoint."""
        staging_dir, host = self._directory / name / "room", self._directory / name / "host"
        run_path = staging_dir / staging_dir.name
        run_path.mkdir(parents=True)
        asked = config({"devices": [0, 1]}, {"sort": True, "checkpoint_seconds": 1e-6})
        header = header_of(asked, "memory", self._edges.facts.fingerprint)

        def on_progress(_: object) -> None:
            # A thread next to the search records checkpoints.
            until = time.monotonic() + PATIENCE
            while MARKERS and time.monotonic() < until:
                if (staging_dir / JOURNAL_NAME).exists() and read_journal(staging_dir)[1]:
                    raise Killed
                time.sleep(0.01)

        def go_on(**options: Any) -> Any:
            backend, journal = self._cudf(frames_on_arrow.pool(PLENTY)), begun_journal(staging_dir, header)
            options |= {"engine": "cuda", "backend": backend, "journal": journal}
            return enumerate_to(self._on_device, asked, run_path, **options)

        MARKERS.clear()
        with suppress(Killed):
            go_on(on_progress=on_progress)
        n_kept = begun_journal(staging_dir, header).n_found
        ours, theirs = go_on(), published(self._edges, config({}, {"sort": True}), host, "reference", self._arrow)
        assert (ours.counts, ours.content_fingerprint) == (theirs.counts, theirs.content_fingerprint)
        for each in TABLES:
            assert table(run_path, each).equals(table(host, each)), each
        return {"case": name, "kept": n_kept, "of": ours.counts["bicliques"], "warned": len(ours.warnings)}

    def compared(self, name: str, execution: dict[str, Any], output: dict[str, Any], limit: int) -> dict[str, Any]:
        with brought() as threads:
            ours, path = self.on_devices(name, config(execution, output), limit)
        host = self._directory / name / "host"
        asked = config({}, output)
        theirs = published(self._edges, asked, host, "reference", self._arrow)
        assert (ours.counts, ours.content_fingerprint) == (theirs.counts, theirs.content_fingerprint), name
        for each in TABLES:
            found, wanted = table(path, each), table(host, each)
            assert found.schema == wanted.schema, (name, each)
            assert found.equals(wanted), (name, each)
        keys = pq.read_table(path / "bicliques")["biclique_key"].to_numpy()
        assert not asked.output.sort or (keys[1:] > keys[:-1]).all(), name
        # Only the consumer's thread, which has the device of the tables.
        assert set(threads) == {threading.main_thread().name}, name
        ranks = ours.ranks
        assert ranks is not None
        assert sum(rank.found for rank in ranks.each) == ours.counts["bicliques"], name
        return {"case": name, "ranks": len(ranks.each), "blocks": len(threads), "warned": len(ours.warnings)}


@contextmanager
def failing(name: str, after: int) -> Iterator[None]:
    """Make the device of the named thread fail after some quanta."""
    from mbe_stage.bicliques.cuda.search import SharedSearch

    work, n_quanta = SharedSearch.work, 0

    def failing_work(self: Any, block_bytes: int) -> Iterator[list[Any]]:
        nonlocal n_quanta
        if threading.current_thread().name == name:
            n_quanta += 1
            if n_quanta > after:
                raise MemoryBudgetExceeded("the memory of this device has an error")
        yield from work(self, block_bytes)

    SharedSearch.work = failing_work
    yield
    SharedSearch.work = work


def other_cases(runs: Runs) -> Iterator[dict[str, Any]]:
    """A lost device, limits, counting only, and a failing consumer."""
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock

    everything = runs.counted(config({"devices": [0, 1]}, {})).n_found
    with failing("gpu-1-1", 1):
        yield runs.compared("lost", {"devices": [0, 1]}, {"sort": True}, PLENTY)
    with failing("gpu-1-1", 2):
        try:
            runs.on_devices("lost too late", config({"devices": [0, 1], "time_limit_seconds": 1e6}, {}))
        except DeviceLost as error:
            yield {"case": "lost too late", "told": str(error)}
    facts, path = runs.on_devices("few", config({"devices": [0, 1], "max_bicliques": 20}, {}))
    assert facts.truncated is not None
    yield {"case": "few", "rows": len(table(path, "bicliques")), "of": everything}

    yield runs.resumed_on_two_devices("gone on with")

    def broken(_self: Any) -> Any:
        raise KeyboardInterrupt

    original, DeviceBlock.brought_here = DeviceBlock.brought_here, broken
    try:
        runs.on_devices("interrupted", config({"devices": [0, 1]}, {}))
    except KeyboardInterrupt:
        yield {"case": "interrupted", "threads": [t.name for t in threading.enumerate() if t.name.startswith("gpu-")]}
    DeviceBlock.brought_here = original


def degrees_only(graph: Any, _most_steps: int, _memory_bytes: int) -> GraphFacts:
    """Return degrees, as cuGraph does."""
    return GraphFacts(np.diff(graph.left_offsets), np.diff(graph.right_offsets), None, None, {})


def main(directory: Path, part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = emulated_devices.install_devices()
    frames_on_arrow.install()
    from mbe_stage.bicliques import engine_cuda
    from mbe_stage.pipeline.backends.cudf import backend, plan
    from mbe_stage.pipeline.execution import steps
    from mbe_stage.runners.devices import DeviceRunner

    backend.graph_facts = degrees_only
    run_limits._TIMES_ITS_COST = run_limits._SHARE_OF_TIME = 0.0
    run_limits.Checkpoints.note = noting(run_limits.Checkpoints.note)  # type: ignore[method-assign]
    # So that small results make several pieces and parts.
    plan._SMALLEST_PART = plan._LARGEST_PART = 1 << 10
    engine_cuda.device = lambda _: "the emulator"
    steps.DeviceRunner = lambda devices: DeviceRunner(devices, options={"sizes": SIZES})
    runs = Runs(directory)
    for seed, case in enumerate(cases()):
        launcher.seed = seed
        if (part == "first") == (seed == 0):
            print(json.dumps(runs.compared(*case)), flush=True)
    for line in other_cases(runs) if part == "others" else ():
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
