"""Small graphs, and published runs read with plain tools, for tests of the output."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.pipeline import Config, EdgeData, InputFacts, RunStore
from mbe_stage.pipeline.execution.steps import enumerate_to, finish

Pair = tuple[object, object]


def crown_pairs(n: int) -> list[tuple[int, int]]:
    """Complete n x n without a perfect matching: 2**n - 2 maximal bicliques."""
    return [(u, v) for u in range(n) for v in range(n) if u != v]


def random_pairs(seed: int, n_left: int = 12, n_right: int = 10, share: float = 0.4) -> list[tuple[str, int]]:
    """A random graph whose left keys are strings and whose right keys are integers."""
    dice = random.Random(seed)
    pairs = [(f"person {u}", 100 * v - 300) for u in range(n_left) for v in range(n_right) if dice.random() < share]
    return pairs or [("person 0", 0)]


def edge_data(pairs: Iterable[Pair]) -> EdgeData:
    """Return the `EdgeData` that ingestion makes of these pairs."""
    distinct = set(pairs)
    left_keys, right_keys = (sorted({pair[side] for pair in distinct}) for side in (0, 1))
    ids = sorted((left_keys.index(left), right_keys.index(right)) for left, right in distinct)
    facts = InputFacts(
        source="memory:pairs",
        format="pairs",
        rows_read=len(ids),
        rows_dropped_null=0,
        rows_dropped_weight=0,
        rows_dropped_time=0,
        duplicate_edges=0,
        n_left=len(left_keys),
        n_right=len(right_keys),
        n_edges=len(ids),
        fingerprint=hashlib.sha256(repr(sorted(distinct)).encode()).hexdigest(),
    )
    return EdgeData(
        left_ids=np.array([left for left, _ in ids], np.int32),
        right_ids=np.array([right for _, right in ids], np.int32),
        left_keys=pa.array(left_keys),
        right_keys=pa.array(right_keys),
        facts=facts,
    )


def settings(directory: Path, **sections: dict) -> Config:
    """Configuration with the reference engine and without a report, unless a section says otherwise."""
    values = {"execution": {"engine": "reference"}, "output": {"directory": str(directory), "report": False}}
    for section, keys in sections.items():
        values[section] = {**values.get(section, {}), **keys}
    return Config.from_mapping(values)


def publish(edges: EdgeData, config: Config) -> Path:
    """Run the steps after ingestion."""
    with RunStore(config.output.directory).begin() as staging:
        facts = enumerate_to(edges, config, staging.path)
        finish(staging.path, edges.facts, config, facts, {"read": 0.0})
        return staging.publish(config.output.keep_runs)


def expected_set(edges: EdgeData) -> set:
    return maximal_bicliques(edges.graph())


def published_rows(run_dir: Path) -> list[dict]:
    return pq.read_table(run_dir / "bicliques").to_pylist()


def published_set(run_dir: Path) -> set:
    return {(tuple(row["left"]), tuple(row["right"])) for row in published_rows(run_dir)}


def assert_sound(run_dir: Path) -> None:
    """Assert that the run holds exactly its manifest's files, with the right sizes, checksums and rows."""
    manifest = json.loads((run_dir / "manifest.json").read_text())
    found = {p.relative_to(run_dir).as_posix() for p in run_dir.rglob("*") if p.is_file()} - {"manifest.json"}
    assert found == {entry["path"] for entry in manifest["files"]}
    for entry in manifest["files"]:
        path = run_dir / entry["path"]
        assert path.stat().st_size == entry["bytes"], path
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"], path
        if path.suffix == ".parquet":
            assert pq.read_table(path).num_rows == entry["rows"], path


def assert_nothing_staged(directory: Path) -> None:
    """Assert that no unfinished work is left; only the store's lock file stays."""
    staging = directory / ".staging"
    assert not staging.exists() or {path.name for path in staging.iterdir()} <= {".lock"}
