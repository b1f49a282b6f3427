"""``make compare-tiers``: graphs through two tiers, and every published table compared.

``python -m benchmarks.compare_tiers [GRAPHS...] [--tiers cpu rapids]`` publishes each graph on both tiers from the same
Parquet file, sorted and with the long form. It says whether the tables are equal, row by row and in their schemas,
whether the content fingerprints agree, and what `mbe verify` says of the second tier's run. The exit code is 1 where
anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.edge_table import edges_as_parquet
from pipeline import Config, RunResult, run
from pipeline.errors import StageError, exit_code
from pipeline.ingest import ingest
from pipeline.verify import verify_run

__all__ = ["GRAPHS", "TABLES", "differences", "main", "publish_with"]

GRAPHS = (
    "southern_women",
    "corporate_leadership",
    "club_membership",
    "moreno_crime",
    "unicodelang",
    "ucforum",
    "dbpedia_writer",
    "movielens_ti",
    "marvel",
    "mushroom",
    "github_half",
    "youtube",
)
TABLES = ("bicliques", "members", "size_histogram", "left_vertices", "right_vertices")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; 1 where two tiers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=GRAPHS, help="names or files; the smaller ones by default")
    parser.add_argument("--tiers", nargs=2, default=("cpu", "rapids"))
    options = parser.parse_args(arguments)
    n_different = 0
    print(f"{'graph':<22}{'bicliques':>12}" + "".join(f"{tier + ' s':>10}" for tier in options.tiers) + "  result")
    for graph in options.graphs or GRAPHS:
        with tempfile.TemporaryDirectory(prefix="mbe-tiers-") as directory:
            edges = edges_as_parquet(graph, Path(directory))
            try:
                one, other = (publish_with(tier, edges, Path(directory, tier)) for tier in options.tiers)
            except StageError as error:
                print(f"error: {error}", file=sys.stderr)
                return exit_code(error)
            found = differences(one, other)
            checks = verify_run(other.run_dir, ingest(other.manifest.config.input)).checks
        n_different += bool(found)
        seconds = "".join(f"{result.manifest.seconds['total']:>10.2f}" for result in (one, other))
        verdict = "; ".join(found) or f"{len(TABLES)} tables and the fingerprint equal, {len(checks)} checks of verify"
        print(f"{graph:<22}{one.manifest.counts.bicliques:>12,}{seconds}  {verdict}", flush=True)
    return 1 if n_different else 0


def publish_with(tier: str, edges: Path, out: Path, **output: object) -> RunResult:
    """Publish a file of edges on one tier, sorted and with the long form."""
    sections = {
        "input": {"path": str(edges)},
        "execution": {"engine": tier},
        "output": {"directory": str(out), "sort": True, "members": True, "report": False, **output},
    }
    return run(Config.from_mapping(sections))


def differences(one: RunResult, other: RunResult) -> list[str]:
    """What two runs do not have in common, of what they should; nothing where they are the same."""
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
    # The order of a dictionary's values is the writer's own affair.
    plain = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))


def _path(run_dir: Path, table: str) -> Path:
    directory = run_dir / table
    return directory if directory.is_dir() else run_dir / f"{table}.parquet"


def _first(path: Path) -> Path:
    return min(path.glob("*.parquet")) if path.is_dir() else path


if __name__ == "__main__":
    sys.exit(main())
