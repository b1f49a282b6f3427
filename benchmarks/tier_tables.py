"""One graph on one tier, and the comparison of two tiers: tables, fingerprints, counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mbe_stage.pipeline import Config, RunResult, run

__all__ = ["TABLES", "differences", "publish_with"]

TABLES = ("bicliques", "members", "size_histogram", "left_vertices", "right_vertices")


def publish_with(tier: str, edges: Path, out: Path, threads: int = 0) -> RunResult:
    """Publish a file of edges on one tier, sorted and with the long form."""
    sections = {
        "input": {"path": str(edges)},
        "execution": {"engine": tier, "threads": threads},
        "output": {"directory": str(out), "sort": True, "members": True, "report": False},
    }
    return run(Config.from_mapping(sections))


def differences(one: RunResult, other: RunResult) -> list[str]:
    """Return the differences between two runs that should be equal."""
    found = []
    if one.manifest.content_fingerprint != other.manifest.content_fingerprint:
        found.append("content fingerprints differ")
    if one.manifest.input.fingerprint != other.manifest.input.fingerprint:
        found.append("input fingerprints differ")
    if one.manifest.counts != other.manifest.counts:
        found.append("counts differ")
    for table in TABLES:
        paths = [_path(result.run_dir, table) for result in (one, other)]
        schemas = [pq.read_schema(_first(path)) for path in paths]
        if schemas[0] != schemas[1]:
            found.append(f"{table}: schemas differ")
        elif not _read(paths[0]).equals(_read(paths[1])):
            found.append(f"{table}: rows differ")
    return found


def _read(path: Path) -> pa.Table:
    table = ds.dataset(path).to_table()
    # The order of a dictionary's values is up to the writer.
    plain = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))


def _path(run_dir: Path, table: str) -> Path:
    directory = run_dir / table
    return directory if directory.is_dir() else run_dir / f"{table}.parquet"


def _first(path: Path) -> Path:
    return min(path.glob("*.parquet")) if path.is_dir() else path
