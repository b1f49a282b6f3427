"""One variant of the ablation: count each graph, print seconds, bicliques and visited nodes as JSON.

A process of its own, because switches are read when the engine is imported.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution
from mbe_stage.bicliques import engine_cpu
from pipeline.config import InputConfig
from pipeline.ingest import ingest


def main(arguments: list[str]) -> None:
    """``REPEATS LIMIT_SECONDS FILE ...``"""
    repeats, limit = int(arguments[0]), float(arguments[1])
    # Compiles everything, the merging of twins included.
    _count(BipartiteCSR.from_edges([0, 0, 1, 2], [0, 1, 1, 1]), limit)
    found: dict[str, Any] = {}
    for path in map(Path, arguments[2:]):
        graph = ingest(InputConfig(path=str(path))).graph()
        runs: list[dict[str, Any]] = []
        while len(runs) < repeats and not (runs and runs[-1]["truncated"]):
            runs.append(_count(graph, limit))
        found[path.stem] = min(runs, key=lambda run: run["seconds"])
    print(json.dumps(found))


def _count(graph: BipartiteCSR, limit: float) -> dict[str, Any]:
    visited: list[int] = []
    start = time.perf_counter()
    n_bicliques, truncated = 0, False
    blocks = engine_cpu.run(graph, BicliqueQuery(), Execution(threads=1), Detail.COUNT, on_visited=visited.append)
    with closing(blocks):  # type: ignore[type-var]
        for block in blocks:
            n_bicliques += block.n_bicliques
            truncated = time.perf_counter() - start > limit and block.work_done < 1.0
            if truncated:
                break
    return {
        "seconds": time.perf_counter() - start,
        "bicliques": n_bicliques,
        "nodes": sum(visited),
        "truncated": truncated,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
