"""Runs of bicliques on the emulated engine `cuda`, ended at random moments and resumed from saved work.

Run as a script with a directory and a number of rounds: prints a JSON line for each run.
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mbe_stage import run_limits
from mbe_stage.errors import StageError
from mbe_stage.pipeline import Config, RunStore, run
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish.manifest import sha256_of
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator
from tests.pipeline.emulated_resume import MARKERS, PATIENCE, noting, planned
from tests.pipeline.output_support import published_rows
from tests.pipeline.resume_support import Killed
from tests.pipeline.test_hostile_journal import rewritten


def use_short_quanta() -> Any:
    launcher = install_emulator()
    from mbe_stage.bicliques import engine_cuda
    from mbe_stage.bicliques.cuda import search

    # Fewer warps than roots, and more roots than a checkpoint could wait for.
    search.plan_memory = planned(search.plan_memory, {"n_blocks": 1, "quantum_seconds": 0.005})
    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.device = lambda _execution: "cuda, emulated"
    engine_cuda.compile_steps = lambda *_: ()
    run_limits._TIMES_ITS_COST = run_limits._SHARE_OF_TIME = 0.0
    run_limits.Checkpoints.note = noting(run_limits.Checkpoints.note)  # type: ignore[method-assign]
    return launcher


def input_of(seed: int, directory: Path) -> Path:
    """Write a graph with a right vertex that has all left neighbours; return its path."""
    matrix = np.concatenate([graphs.random_matrix(seed, 60, 7, 0.6), np.ones((60, 1), bool)], axis=1)
    path = directory / "edges.csv"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u, v in zip(*np.nonzero(matrix), strict=True)))
    return path


def config_for(source: Path, out: Path, engine: str, *, with_rows: bool = True, **output: Any) -> Config:
    output |= {} if with_rows else {"bicliques": False}
    written = {"directory": str(out), "report": False, "checkpoint_seconds": 0.0001, **output}
    execution = {"engine": engine, "threads": 1, "block_bytes": 2000}
    values = {"query": {}, "input": {"path": str(source), "header": True}, "execution": execution, "output": written}
    return Config.from_mapping(values if with_rows else {**values, "groups": {}})


def ended(config: Config, n_markers: int, *, resume: bool) -> Any:
    """Run until `n_markers` checkpoints are in the journal; return the result, or None if the run was ended."""
    MARKERS.clear()
    before = sum(len(each.records) for each in list_unfinished(config.output.directory))
    # Each record of sums replaces the one before.
    n_records = before + n_markers if config.output.bicliques else 1

    def on_progress(_: object) -> None:
        until = time.perf_counter() + PATIENCE
        while len(MARKERS) >= n_markers and time.perf_counter() < until:
            if sum(len(each.records) for each in list_unfinished(config.output.directory)) >= n_records:
                raise Killed
            time.sleep(0.01)

    with suppress(Killed):
        return run(config, on_progress=on_progress, resume=resume)
    return None


def published(result: Any) -> tuple[int, str]:
    """Return the number of rows, which must be distinct, and their fingerprint."""
    has_rows = result.manifest.config.output.bicliques
    keys = [row["biclique_key"] for row in published_rows(result.run_dir)] if has_rows else []
    assert len(keys) == len(set(keys))
    return len(keys), result.manifest.content_fingerprint


def rounds(directory: Path, launcher: Any, n: int) -> Iterator[dict[str, Any]]:
    for seed in range(n):
        launcher.seed, dice = seed, random.Random(seed)
        source, out = input_of(seed, directory / str(seed)), directory / str(seed) / "out"
        output: dict[str, Any] = ({}, {"sort": True}, {"with_rows": False})[seed % 3]
        config = config_for(source, out, "cuda", **output)
        wanted = published(run(config_for(source, directory / str(seed) / "cpu", "cpu", **output)))
        n_ended, result = 0, ended(config, dice.randrange(1, 4), resume=False)
        while result is None:
            n_ended += 1
            (begun,) = list_unfinished(out)
            assert all(each.saved is not None for each in begun.records)
            result = ended(config, dice.randrange(1, 4), resume=True)
        same, n_found = published(result) == wanted, result.manifest.counts.bicliques
        yield {"case": seed, "same": same, "found": n_found, "ended": n_ended}


def refused(directory: Path, launcher: Any) -> Iterator[dict[str, Any]]:
    """Yield the refusals of resuming on another engine, and of saved work changed together with its checksum."""
    launcher.seed = 0
    source = input_of(0, directory)
    config = config_for(source, directory / "out", "cuda")
    assert ended(config, 1, resume=False) is None
    for case in ("cpu", "changed"):
        if case == "changed":
            change_saved_work(*RunStore(directory / "out").unfinished())
        try:
            run(config_for(source, directory / "out", "cpu" if case == "cpu" else "cuda"), resume=True)
        except StageError as error:
            yield {"case": case, "said": str(error)}


def change_saved_work(staging_dir: Path) -> None:
    """Let the last stack claim an entry that it does not have."""
    path = staging_dir / read_journal(staging_dir)[1][-1].saved.file.path
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays["int_starts"][-1] += 1
    np.savez(path, **arrays)
    facts = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}

    def change(record: dict[str, Any]) -> None:
        if (staging_dir / record["saved"]["file"]["path"]) == path:
            record["saved"]["file"].update(facts)

    rewritten(staging_dir, change)


def main(directory: Path, n: int) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = use_short_quanta()
    for case in rounds(directory, launcher, n):
        print(json.dumps(case), flush=True)
    for case in refused(directory / "refused", launcher):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
