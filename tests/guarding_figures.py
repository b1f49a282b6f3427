"""Record figures of ten small graphs that change only with the code: nodes, bytes of arenas and tables, machine code.

The script prints them as JSON; with ``record`` it writes them to `guarding_figures.json`. The search uses one thread,
and no figure depends on time. Registers and spills of kernels have their own record,
`tests/mbe_stage/cuda_resources.json`.
"""

from __future__ import annotations

import csv
import json
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage import Execution
from mbe_stage.engines import get_engine
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import publication_of, reading_of
from mbe_stage.pq_counts.cpu.layout import BYTES_HELD
from mbe_stage.pq_counts.cpu.workers import Counting
from mbe_stage.runtime import code_cache
from mbe_stage.search.cpu import quanta
from mbe_stage.search.cpu.pool import WorkerPool

RECORD = Path(__file__).with_name("guarding_figures.json")
EMITTED = "bytes of files"
"""Depends on the version of pyarrow, unlike the bytes of the tables in memory."""
ASKED: dict[str, dict[str, Any]] = {
    "bicliques": {"output": {"members": True}},
    "cliques": {"cliques": {"min_size": 1}},
    "pq_counts": {"pq_counts": {"p": 4, "q": 4, "table": True}},
}
# Small outputs and initial arenas, so that arena growth shows.
_BLOCK_BYTES = 1 << 12
_FIRST_SIZES, _FIRST_CAPACITY = (64, 64, 2), 16
Pairs = list[tuple[Any, Any]]


def graphs() -> dict[str, Pairs]:
    """Return ten edge lists. The clique engine reads them as undirected graphs."""
    with (Path(__file__).parents[1] / "pipeline" / "demo" / "southern_women.csv").open() as file:
        women = [(row["woman"], row["event"]) for row in csv.DictReader(file)]
    planted = _random(3, 300, 300, 0.01)
    for k in range(6):
        planted += [(30 * k + u, 40 * k + v) for u in range(12) for v in range(9 + k)]
    return {
        "southern women": women,
        "crown of 11": [(u, v) for u in range(11) for v in range(11) if u != v],
        "half graph of 70": [(u, v) for u in range(70) for v in range(u + 1)],
        "cycle of 300": [(u, (u + k) % 300) for u in range(300) for k in range(2)],
        "disjoint blocks": [(20 * k + u, 20 * k + v) for k in range(1, 15) for u in range(k) for v in range(20 - k)],
        "random dense": _random(1, 45, 45, 0.5),
        "random sparse": _random(2, 900, 900, 0.01),
        "planted blocks": planted,
        "few columns": _random(4, 1500, 14, 0.3),
        "hubs": _hubs(5, 400, 90.0),
    }


def _random(seed: int, n_left: int, n_right: int, density: float) -> Pairs:
    # Python's generator gives the same numbers in every version; NumPy's do not.
    number = random.Random(seed).random
    return [(u, v) for u in range(n_left) for v in range(n_right) if number() < density]


def _hubs(seed: int, n: int, mean: float) -> Pairs:
    number = random.Random(seed).random
    return [(u, v) for u in range(1, n) for v in range(1, n) if number() < mean / u / v]


def figures() -> dict[str, Any]:
    """Return the figures by graph; `cold` is true if code was compiled, which counts other functions."""
    loaded, missing = _noting_code()
    peak = _noting_arenas()
    found: dict[str, Any] = {}
    for name, pairs in graphs().items():
        source = tuple(list(side) for side in zip(*pairs, strict=True))
        found[name] = {}
        for problem, asked in ASKED.items():
            peak["bytes"] = 0
            found[name] |= {f"{problem}: visited nodes": _visited(problem, asked, source)}
            found[name] |= {f"{problem}: peak arena bytes": peak["bytes"]}
            files, tables = _emitted(problem, asked, source)
            found[name] |= {f"{problem}: {EMITTED}": files, f"{problem}: bytes of tables": tables}
    found["all of them"] = {f"compiled functions of {package}": n for package, n in sorted(Counter(loaded).items())}
    return {"pyarrow": pa.__version__, "cold": bool(missing), "figures": found}


def _config(problem: str, asked: Mapping[str, Any], directory: str = "out") -> Config:
    output = {"directory": directory, "report": False, **asked.get("output", {})}
    execution = {"engine": "cpu", "threads": 1, "block_bytes": _BLOCK_BYTES}
    return Config.from_mapping({"problem": problem, **asked, "output": output, "execution": execution})


def _visited(problem: str, asked: Mapping[str, Any], source: object) -> int:
    config, publication = _config(problem, asked), publication_of(problem)
    edges = ingest(reading_of(config), source)
    graph, query = publication.graph(config, edges), publication.query(config.problem_section, edges)
    visited: list[int] = []
    detail, sizes = publication.count_sink().detail, {}
    if problem != "pq_counts":
        detail, sizes = type(detail).MEMBERS, {"first_sizes": _FIRST_SIZES}
    run_engine: Any = get_engine(problem, "cpu").run
    execution = Execution(threads=1, block_bytes=_BLOCK_BYTES)
    for _ in run_engine(graph, query, execution, detail, on_visited=visited.append, **sizes):
        pass
    return sum(visited)


def _emitted(problem: str, asked: Mapping[str, Any], source: object) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as directory:
        manifest = run(_config(problem, asked, directory), source).manifest
        tables = [Path(directory, "latest", file.path) for file in manifest.files if file.rows is not None]
        in_memory = sum(pq.read_table(table).nbytes for table in tables)
    return sum(file.bytes for file in manifest.files if file.rows is not None), in_memory


def _noting_code() -> tuple[list[str], list[str]]:
    """Record the package of each function whose machine code is requested, and cache misses."""
    loaded, missing, kept = [], [], code_cache.kept

    def noted(name: str, sources: Path | None = None) -> bytes | None:
        code = kept(name, sources)
        loaded.append(".".join(name.split(".")[:2]))
        if code is None:
            missing.append(name)
        return code

    code_cache.kept = noted
    return loaded, missing


def _noting_arenas() -> dict[str, int]:
    """Record the most arena bytes that a search holds at once."""
    peak, reserve, count = {"bytes": 0}, WorkerPool.reserve, Counting.run

    def noted(self: WorkerPool, n_bytes: int) -> int:
        refused = reserve(self, n_bytes)
        peak["bytes"] = max(peak["bytes"], self._bytes)
        return refused

    def counted(self: Counting, *arguments: Any) -> Iterator[Any]:
        yield from count(self, *arguments)
        # Never falls: workers keep their arenas.
        peak["bytes"] = max(peak["bytes"], sum(int(worker.control[BYTES_HELD]) for worker in self._workers))

    WorkerPool.reserve, Counting.run = noted, counted  # type: ignore[method-assign, assignment]
    Counting.__init__.__defaults__ = (_FIRST_CAPACITY,)
    return peak


def changes(record: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table of the figures that differ: graph, figure, record, now, change; empty if there are none."""
    rows = [
        (graph, figure, before, after)
        for graph in dict.fromkeys([*record, *now])
        for figure in dict.fromkeys([*record.get(graph, {}), *now.get(graph, {})])
        if (before := record.get(graph, {}).get(figure)) != (after := now.get(graph, {}).get(figure))
    ]
    if not rows:
        return ""
    cells = [
        ("graph", "figure", "record", "now", "change"),
        *((*row[:2], *map(_text, row[2:]), _change(*row[2:])) for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            text.ljust(width) if k < 2 else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(lines)


def _text(figure: int | None) -> str:
    return "none" if figure is None else f"{figure:,}"


def _change(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "new" if before is None else "gone"
    return f"{after - before:+,}" + (f" ({(after - before) / before:+.1%})" if before else "")


def main() -> None:
    # Otherwise timed deliveries would end tables at other places.
    quanta._REPORT_SECONDS = math.inf
    found = figures()
    text = json.dumps(found, indent=1) + "\n"
    if sys.argv[1:] != ["record"]:
        print(text)
    elif found.pop("cold"):
        sys.exit("machine code was compiled: run it again")
    else:
        RECORD.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
