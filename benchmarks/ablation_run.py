"""One variant of the ablation: count each graph, print seconds, results and visited nodes as JSON.

It needs a separate process, because the engine reads its switches when it is imported.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from mbe_stage import Execution
from mbe_stage.engines import get_engine
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import publication_of, reading_of


def main(arguments: list[str]) -> None:
    """``PROBLEM REPEATS LIMIT_SECONDS FILE ...``"""
    config = Config.from_mapping({"problem": arguments[0]})
    repeats, limit = int(arguments[1]), float(arguments[2])
    reading = reading_of(config)
    # Compiles everything, including the merging of twins.
    _count(config, ingest(reading, ([0, 0, 1, 2], [0, 1, 1, 1])), limit)
    found: dict[str, Any] = {}
    for path in map(Path, arguments[3:]):
        edges = ingest(reading, str(path))
        runs: list[dict[str, Any]] = []
        while len(runs) < repeats and not (runs and runs[-1]["truncated"]):
            runs.append(_count(config, edges, limit))
        found[path.stem] = min(runs, key=lambda run: run["seconds"])
    print(json.dumps(found))


def _count(config: Config, edges: Any, limit: float) -> dict[str, Any]:
    publication, engine = publication_of(config.problem), get_engine(config.problem, "cpu")
    graph, query = publication.graph(config, edges), publication.query(config.problem_section, edges)
    detail = publication.count_sink().detail
    visited: list[int] = []
    start = time.perf_counter()
    n_found, truncated = 0, False
    with closing(engine.run(graph, query, Execution(threads=1), detail, on_visited=visited.append)) as blocks:
        for block in blocks:
            n_found += len(block)
            truncated = time.perf_counter() - start > limit and block.work_done < 1.0
            if truncated:
                break
    return {
        "seconds": time.perf_counter() - start,
        "found": n_found,
        "nodes": sum(visited),
        "truncated": truncated,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
