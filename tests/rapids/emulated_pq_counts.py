"""Compare (p, q)-counts of the device library with the host's, without a GPU: kernels on the emulator, cuDF over Arrow.

Counts come from the reference in the form of the engine `cuda`. Everything after them is the library's own. A script;
prints a JSON line per case whose frames equal the tables of a host run.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pq_counts import engine_cuda, reference
from tests.mbe_stage.emulated_device import use_the_emulator
from tests.pipeline.output_support import random_pairs
from tests.rapids import frames_on_arrow

TABLES = {
    None: ("pq_counts",),
    "vertices": ("pq_counts", "pq_vertices"),
    "edges": ("pq_counts", "pq_vertices", "pq_edges"),
}
# One left vertex of 140: C(140, 70) has 41 digits.
STAR = pa.table({"l": [7] * 140, "r": list(range(140))})


def random_table(seed: int, *, is_text: bool) -> pa.Table:
    pairs = random_pairs(seed, n_left=9, n_right=7)
    left = [f"ü{name}" if is_text else int(name.split()[1]) for name, _ in pairs]
    return pa.table({"l": left, "r": [right for _, right in pairs]})


def cases() -> list[tuple[str, pa.Table, dict[str, Any]]]:
    """Yield name, edges and options."""
    text, integers = random_table(1, is_text=True), random_table(2, is_text=False)
    return [
        ("counts alone", text, {"p": 3, "q": 3, "table": True}),
        ("vertices", integers, {"p": 2, "q": 2, "local": "vertices"}),
        ("edges", text, {"p": 3, "q": 2, "table": True, "local": "edges"}),
        ("members", integers, {"p": 2, "q": 2, "local": "edges", "containing_right": (integers["r"][0].as_py(),)}),
        ("none", integers, {"p": 40, "q": 2, "local": "edges"}),
        ("beyond 38 digits", STAR, {"p": 1, "q": 70, "local": "edges"}),
    ]


def frames_of(found: Any, local: str | None) -> dict[str, pa.Table]:
    if local is None:
        return {"pq_counts": found.to_arrow(preserve_index=False)}
    assert (found.pq_edges is None) == (local == "vertices")
    return {name: getattr(found, name).to_arrow(preserve_index=False) for name in TABLES[local]}


def published(source: pa.Table, asked: dict[str, Any], out: Path) -> dict[str, pa.Table]:
    values = {"execution": {"engine": "reference"}, "output": {"directory": str(out), "report": False}}
    run_dir = run(Config.from_mapping({**values, "problem": "pq_counts", "pq_counts": asked}), source).run_dir
    return {name: pq.read_table(run_dir / f"{name}.parquet") for name in TABLES[asked.get("local")]}


def refusal(library: Any, **asked: Any) -> str:
    try:
        library.count_pq_bicliques(None, local="edges", table=True, p=30, q=30, **asked)
    except MemoryBudgetExceeded as error:
        return str(error)
    raise AssertionError("expected a refusal")


def main(directory: Path) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    use_the_emulator()
    frames_on_arrow.install()
    from mbe_stage.pipeline.backends.cudf.edges import DeviceEdges
    from mbe_stage.pipeline.problems.pq_counts import cudf_library as library

    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.compile_steps = reference.compile_steps
    engine_cuda.device = lambda _: "the emulator"
    engine_cuda.run = reference.run
    for name, source, asked in cases():
        edges = DeviceEdges.from_host(ingest(Config().input, source))
        library.ingest = lambda *_, edges=edges: edges
        found = frames_of(library.count_pq_bicliques(None, **asked), asked.get("local"))
        wanted = published(source, asked, directory / name)
        for each, table in wanted.items():
            assert found[each].column_names == table.column_names, (name, each)
            assert found[each].schema.field("count").type == pa.decimal128(38, 0), (name, each)
            assert found[each].to_pylist() == table.to_pylist(), (name, each)
        nulls = sum(table["count"].null_count for table in found.values())
        print(json.dumps({"case": name, "rows": sum(map(len, found.values())), "nulls": nulls}), flush=True)
    print(json.dumps({"case": "refused", "message": refusal(library, memory_budget=1000)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
