"""End runs on the tier `rapids` after a checkpoint and resume them, without a GPU: cuDF over Arrow.

Blocks come from the reference, task by task, with barriers in between as in the engine `cuda`. Everything after them is
the tier's own. A script; takes a directory and the part ``some`` or ``others`` and prints a JSON line per case whose
tables equal those of an uninterrupted host run.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage import run_limits
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.results import Detail
from mbe_stage.cliques import engine_cuda as clique_engine
from mbe_stage.cliques import reference as clique_reference
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.pipeline import Config
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import begun_journal, read_journal
from mbe_stage.pipeline.execution.steps import enumerate_to
from mbe_stage.pipeline.execution.unfinished import header_of
from mbe_stage.pipeline.problems.groups import searched
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.mbe_stage.emulated_device import use_the_emulator
from tests.pipeline.emulated_resume import MARKERS, PATIENCE, noting
from tests.pipeline.resume_support import Killed
from tests.rapids import frames_on_arrow
from tests.rapids.emulated_cliques import Said, random_ends
from tests.rapids.emulated_devices import degrees_only, ends

PLENTY, LITTLE = 1 << 30, 1 << 16
N_TASKS = 9
CLIQUES: dict[str, Any] = {"problem": "cliques"}
GROUPS: dict[str, Any] = {"groups": {"chance_copies": 1}, "output": {"bicliques": False}}
Case = tuple[str, dict[str, Any], str, str]
# Name, options, first tier, resuming tier.
CASES: dict[str, list[Case]] = {
    "some": [
        ("as found", {"output": {"members": True}}, "device", "device"),
        ("sorted", {"output": {"sort": True}}, "device", "device"),
        ("sorted in less memory than before", {"output": {"sort": True}}, "device", "little"),
        ("groups alone", GROUPS, "device", "device"),
        ("cliques", CLIQUES, "device", "host"),
    ],
    "others": [
        ("sorted in little memory", {"output": {"sort": True}}, "little", "little"),
        ("sorted, in long form", {"output": {"sort": True, "members": True}}, "device", "device"),
        ("gone on with on the host", {"output": {"members": True}}, "device", "host"),
        ("gone on with on the host, sorted", {"output": {"sort": True}}, "device", "host"),
        ("begun on the host", {"output": {"members": True}}, "host", "device"),
        ("begun on the host, sorted", {"output": {"sort": True}}, "host", "device"),
        ("groups of rows", {"groups": {}}, "device", "device"),
        ("groups alone, gone on with on the host", GROUPS, "device", "host"),
        ("groups alone, begun on the host", GROUPS, "host", "device"),
        ("cliques, sorted", CLIQUES | {"output": {"sort": True}}, "little", "device"),
    ],
}


class Places:
    """Directories of a run's tables, and the engine that works there."""

    def __init__(self) -> None:
        from mbe_stage.pipeline.backends.arrow.backend import ARROW
        from mbe_stage.pipeline.backends.cudf.backend import CudfBackend
        from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges

        self._host, self._cudf, self._edges = ARROW, CudfBackend, DeviceEdges

    def published(self, place: str, edges: Any, asked: Config, run_path: Path, **options: Any) -> Any:
        if place == "host":
            return enumerate_to(edges, asked, run_path, engine="reference", backend=self._host, **options)
        backend = self._cudf(frames_on_arrow.pool(LITTLE if place == "little" else PLENTY))
        on_device = self._edges.from_host(edges)
        return enumerate_to(on_device, asked, run_path, engine="cuda", backend=backend, **options)


def with_barriers(specification: ModuleType, detail: Any, of_block: Callable[[Any], Any]) -> Callable[..., Any]:
    """Yield an engine's results by task, a few per block, with a barrier between tasks."""

    def blocks(
        graph: Any, query: Any, execution: Any, tasks: Any = None, *_: Any, barrier: Any = None
    ) -> Iterator[Any]:
        left = list(specification.tasks_of(graph, query, N_TASKS) if tasks is None else tasks)
        while left:
            task = left.pop(0)
            for found in specification.run(graph, query, execution, detail, [task]):
                yield of_block(found)
            if barrier is not None and barrier.is_requested and left:
                yield of_block(type(found).empty(detail, 0.5, tuple(left)))
                barrier.reached()

    return blocks


def use_the_specification() -> None:
    """Replace both `cuda` engines by the reference, with barriers, so that the host has checkpoints too."""
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    pairs = (
        (engine_cuda, reference, Detail.MEMBERS, DeviceBlock.from_host),
        (clique_engine, clique_reference, CliqueDetail.MEMBERS, DeviceCliqueBlock.from_host),
    )
    for engine, specification, detail, of_block in pairs:
        engine.device_blocks = with_barriers(specification, detail, of_block)  # type: ignore[attr-defined]
        engine.unavailable_reason = lambda: None  # type: ignore[attr-defined]
        engine.compile_steps = lambda *_: ()  # type: ignore[attr-defined]
        engine.device = lambda _: "the specification"  # type: ignore[attr-defined]
    # Host runs use the reference as their engine: `run` has the same arguments, except the detail.
    run = with_barriers(reference, Detail.MEMBERS, lambda block: block)
    original = reference.run

    def of_host(graph: Any, query: Any, execution: Any, detail: Any, tasks: Any = None, **barrier: Any) -> Any:
        if barrier:
            return run(graph, query, execution, tasks, **barrier)
        return original(graph, query, execution, detail, tasks)

    reference.run, reference.TAKES_BARRIER = of_host, True  # type: ignore[attr-defined]


def rows_of(run_path: Path, name: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    read = pq.read_table(run_path / name)
    return read.schema, sorted(read.to_pylist(), key=repr)


def ended_and_resumed(places: Places, directory: Path, said: Said, case: Case) -> dict[str, Any]:
    name, sections, begun_at, resumed_at = case
    output = {"two_hop_steps": 0, "checkpoint_seconds": 1e-6, **sections.get("output", {})}
    execution = {"block_bytes": 16000}
    asked = Config.from_mapping({**sections, "output": output, "execution": execution})
    edges = ingest(reading_of(asked), random_ends(1, 24, 130) if "problem" in sections else ends(1, 24, 18, 0.3))
    staging_dir = directory / name / "room"
    run_path = staging_dir / staging_dir.name
    run_path.mkdir(parents=True)
    header = header_of(asked, "memory", edges.facts.fingerprint)
    # Sums have one record for everything done so far.
    n_wanted = 1 if "bicliques" in output else 2

    def on_progress(_: object) -> None:
        # A thread next to the search records checkpoints.
        until = time.monotonic() + PATIENCE
        while len(MARKERS) >= n_wanted and time.monotonic() < until:
            if (staging_dir / JOURNAL_NAME).exists() and len(read_journal(staging_dir)[1]) >= n_wanted:
                raise Killed
            time.sleep(0.01)

    MARKERS.clear()
    try:
        places.published(
            begun_at, edges, asked, run_path, on_progress=on_progress, journal=begun_journal(staging_dir, header)
        )
    except Killed:
        pass
    else:
        return {"case": name, "said": "not ended"}
    journal = begun_journal(staging_dir, header)
    n_kept, n_records = journal.n_found, len(journal.records)
    said.took("")
    ours = places.published(resumed_at, edges, asked, run_path, journal=journal)
    whole = directory / name / "whole"
    whole.mkdir()
    theirs = places.published("host", edges, asked, whole)
    assert (ours.counts, ours.content_fingerprint) == (theirs.counts, theirs.content_fingerprint), name
    assert ours.derived == theirs.derived, name
    for each in sorted(path.name for path in whole.iterdir()):
        assert rows_of(run_path, each) == rows_of(whole, each), (name, each)
    if asked.output.sort:
        data_set, key = ("cliques", "clique_key") if "problem" in sections else ("bicliques", "biclique_key")
        keys = np.concatenate([pq.read_table(part)[key].to_numpy() for part in sorted((run_path / data_set).iterdir())])
        assert (keys[1:] > keys[:-1]).all(), name
    assert not (run_path / ".sort").exists(), name
    on_host = said.took("sorting on the host")
    return {
        "case": name,
        "sorted on the host": on_host,
        "kept": n_kept,
        "records": n_records,
        "of": ours.counts[next(iter(ours.counts))],
    }


def main(directory: Path, part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    frames_on_arrow.install()
    from mbe_stage.pipeline.backends.cudf import backend, plan

    backend.graph_facts = degrees_only
    # So that small results make several pieces and parts.
    plan._SMALLEST_PART = plan._LARGEST_PART = 1 << 12
    # Random copies are searched completely, however slow the emulator.
    searched.MOST_SECONDS = 1e6
    # A checkpoint between any two tasks, however slowly the first starts.
    run_limits._TIMES_ITS_COST = run_limits._SHARE_OF_TIME = 0.0
    run_limits.Checkpoints.note = noting(run_limits.Checkpoints.note)  # type: ignore[method-assign]
    use_the_specification()
    said = Said.of("mbe_stage.pipeline")
    places = Places()
    for case in CASES[part]:
        print(json.dumps(ended_and_resumed(places, directory, said, case)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
