"""Runs of cliques and counts on the emulated engine `cuda`, ended after a checkpoint and resumed.

Run as a script with a directory and a problem. Prints a JSON line for each run: whether its output equals that of the
engine `cpu`, and how much was saved when the run was ended.
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mbe_stage import run_limits
from mbe_stage.pipeline import Config, RunStore, run
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from tests.mbe_stage.cliques import emulated_cliques
from tests.mbe_stage.pq_counts import emulated_counts
from tests.pipeline.resume_support import Killed

ASKED: dict[str, dict[str, Any]] = {
    "cliques": {"problem": "cliques"},
    "counts": {"problem": "pq_counts", "pq_counts": {"p": 3, "q": 3, "table": True}},
    "counts of vertices": {"problem": "pq_counts", "pq_counts": {"p": 3, "q": 3, "local": "vertices"}},
}


PATIENCE = 20.0
# Blocks that marked a barrier.
MARKERS: list[Any] = []


def noting(note: Any) -> Any:
    """Wrap a method of `run_limits.Checkpoints` so that it notes the blocks that mark a barrier."""

    def noted(checkpoints: Any, block: Any, *others: Any) -> None:
        note(checkpoints, block, *others)
        if getattr(block, "remaining", None):
            MARKERS.append(block)

    return noted


def use_short_quanta(problem: str) -> None:
    """Let the emulated engine run here with little memory and short quanta."""
    short = {"quantum_seconds": 0.005}
    if problem == "cliques":
        emulated_cliques.use_the_emulator()
        from mbe_stage.cliques import engine_cuda
        from mbe_stage.cliques.cuda import session

        session.plan_memory = planned(session.plan_memory, emulated_cliques.SMALL | short)
    else:
        emulated_counts.use_the_emulator()
        from mbe_stage.pq_counts import engine_cuda  # type: ignore[no-redef]
        from mbe_stage.pq_counts.cuda import as_given, searches
        from mbe_stage.pq_counts.cuda.local import memory_plan
        from mbe_stage.pq_counts.cuda.local import session as local_session

        for module in (searches, memory_plan):
            module.plan_memory = planned(module.plan_memory, short)
        # This faster search ends within seconds and has no barrier; the search by nodes has barriers.
        as_given.as_given = lambda _job, **_: None  # type: ignore[assignment]
        local_session.ROUND_SECONDS = local_session.TIMES_ITS_BEGINNING = 0.0
    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.device = lambda _execution: "cuda, emulated"
    engine_cuda.compile_steps = lambda *_: ()
    run_limits._TIMES_ITS_COST = run_limits._SHARE_OF_TIME = 0.0
    run_limits.Checkpoints.note = noting(run_limits.Checkpoints.note)  # type: ignore[method-assign]


def planned(plan_memory: Any, sizes: dict[str, Any]) -> Any:
    """Wrap `plan_memory` to replace some of its sizes."""
    return lambda *arguments: replace(plan_memory(*arguments), **sizes)


def input_of(problem: str, directory: Path) -> Path:
    """Write a graph with a few dozen more edges than the engine has warps; return its path."""
    dice, path = random.Random(7), directory / f"{problem}.csv"
    if problem == "cliques":
        pairs = [(f"v{u}", f"v{v}") for u in range(80) for v in range(u) if dice.random() < 0.06]
    else:
        pairs = [(f"u{u}", f"v{v}") for u in range(50) for v in range(40) if dice.random() < 0.1]
    path.write_text("a,b\n" + "".join(f"{one},{other}\n" for one, other in pairs))
    return path


def resumed(name: str, directory: Path) -> dict[str, Any]:
    """End a run after its first checkpoint and resume it."""
    asked = ASKED[name]
    source = input_of(asked["problem"], directory)

    def config_for(engine: str, checkpoint_seconds: float | None = None) -> Config:
        output = {
            "directory": str(directory / name / engine),
            "report": False,
            "checkpoint_seconds": checkpoint_seconds,
        }
        execution = {"engine": engine, "threads": 1}
        values = {"input": {"path": str(source), "header": True}, "execution": execution, "output": output}
        return Config.from_mapping({**values, **asked})

    config = config_for("cuda", 0.0001)

    def on_progress(_: object) -> None:
        # A thread beside the search writes the checkpoint; the next block raises its failure.
        until = time.perf_counter() + PATIENCE
        while MARKERS and time.perf_counter() < until:
            staging_dirs = RunStore(config.output.directory).unfinished()
            if staging_dirs and read_journal(staging_dirs[-1])[1]:
                raise Killed
            time.sleep(0.01)

    MARKERS.clear()
    try:
        run(config, on_progress=on_progress)
    except Killed:
        pass
    else:
        return {"case": name, "same": False, "said": "no checkpoint"}
    (begun,) = list_unfinished(config.output.directory)
    result, wanted = run(config_for("cuda", 0.5), resume=True).manifest, run(config_for("cpu")).manifest
    return {
        "case": name,
        "same": result.content_fingerprint == wanted.content_fingerprint and result.counts == wanted.counts,
        "engine": result.engine,
        "kept": begun.n_found,
        "has_open_work": any(record.saved is not None for record in begun.records),
        "work_done": begun.work_done,
        "resumed": any("and resumed:" in text for text in result.warnings),
    }


def main(directory: Path, problem: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_short_quanta(problem)
    for name, asked in ASKED.items():
        if asked["problem"] == problem:
            print(json.dumps(resumed(name, directory)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
