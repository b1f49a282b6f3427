"""Many runs in one process: memory, threads and open files are the same after two hundred runs as after forty."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import Config, RunStore, run
from tests.pipeline.output_support import assert_nothing_staged, crown_pairs
from tests.pipeline.resume_support import Killed, whatever_they_cost

__all__ = ["whatever_they_cost"]

N_BEFORE, N_RUNS = 40, 200
# Freed pages kept by the allocator vary; a leak would add a run's megabytes each time.
MOST_GROWTH = 24 << 20

ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"output": {"sort": True, "members": True}},
    {"groups": {}},
    {"groups": {}, "output": {"bicliques": False}},
    {"problem": "cliques", "cliques": {"project": "left"}},
    {"problem": "pq_counts", "pq_counts": {"p": 4, "q": 4, "table": True}},
    {"execution": {"max_bicliques": 700}},
)


def held() -> tuple[int, int, int]:
    """Return the bytes of memory, threads and open files of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), threading.active_count(), len(os.listdir("/proc/self/fd"))


def configs(out: Path, edges: Path) -> Iterator[Config]:
    """Yield every kind of run in turn, into one directory."""
    while True:
        for asked in ASKED:
            values = {
                **asked,
                "input": {"path": str(edges), "header": True},
                "execution": {"engine": "cpu", "threads": 2, "block_bytes": 2000, **asked.get("execution", {})},
                "output": {
                    "directory": str(out),
                    "keep_runs": 2,
                    "keep_unfinished_days": 0,
                    "checkpoint_seconds": 0.003,
                    **asked.get("output", {}),
                },
            }
            yield Config.from_mapping(values)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here, which tells what is held")
def test_two_hundred_runs_in_one_process(tmp_path: Path) -> None:
    edges, out = tmp_path / "edges.csv", tmp_path / "out"
    edges.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u, v in crown_pairs(11)))
    every, before, seen = configs(out, edges), (0, 0, 0), []
    for number in range(N_RUNS):
        config = next(every)
        if number % 10 == 9 and config.problem == "bicliques":
            ended(config)
            run(config, resume=True)
        else:
            run(config)
        if number == N_BEFORE:
            before = held()
        seen.append(held())
    assert len(RunStore(out).runs()) == 2
    after = held()
    assert after[1:] == before[1:], f"threads and files: {before[1:]} and then {after[1:]}"
    assert after[0] - before[0] < MOST_GROWTH, [n_bytes >> 20 for n_bytes, _, _ in seen[:: N_RUNS // 20]]
    run(next(every))
    assert_nothing_staged(out)


def ended(config: Config) -> None:
    """End a run in the middle, after a checkpoint if it has any."""

    def on_progress(_: object) -> None:
        if RunStore(config.output.directory).unfinished():
            raise Killed

    try:
        run(config, on_progress=on_progress)
    except Killed:
        return
