"""`mbe diff` of two runs: seconds and peak memory if one percent has changed, and if everything has.

    python -m benchmarks.bench_diff [--bicliques 10000000] [--directory DIR]

The runs are generated without a search: groups of two to eight vertices per side, of 300,000 left and 100,000 right
ones with skewed popularity. A changed group has lost a member or gained one or two on a side or both; one in five is
entirely different, and in the last case all are. The runs are removed afterwards, unless `--directory` keeps them for
the next time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.machine import describe
from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline import Config, InputFacts
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.backends.arrow.parts import PartNames, PartWriter, write_table
from mbe_stage.pipeline.problems.bicliques.arrow import ROWS
from mbe_stage.pipeline.problems.bicliques.publication import Counts
from mbe_stage.pipeline.publish.manifest import Manifest, config_fingerprint, write_manifest
from mbe_stage.pipeline.publish.schemas import BICLIQUES, vertices

N_LEFT, N_RIGHT = 300_000, 100_000
SIZES = (2, 8)
BLOCK = 1 << 18
MOST_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """A second run: the share of changed groups, and the share of those that are entirely different."""

    name: str
    changed: float
    redrawn: float
    most_seconds: float


BEFORE = Case("before", 0.0, 0.0, 0.0)
CASES = (
    Case("1 % changed", 0.01, 0.2, 60.0),
    Case("all changed", 1.0, 0.2, 600.0),
    Case("all others", 1.0, 1.0, 600.0),
)


def main() -> None:
    """Generate the runs, compare them in separate processes, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bicliques", type=int, default=10_000_000, help="of each run")
    parser.add_argument("--directory", type=Path, help="where the runs are made, and found the next time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-diff-") as temporary:
        results = measure(given.directory or Path(temporary), given.bicliques)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def measure(directory: Path, n: int) -> list[dict]:
    """Measure both cases, after a small one that compiles."""
    for name, value in describe().items():
        print(f"{name}: {value}")
    compare(*(made(directory, 1_000, case) for case in (BEFORE, CASES[1])))
    results = []
    print(f"\n{'case':<12} {'bicliques':>12} {'seconds':>8} {'at most':>8} {'peak MB':>8} {'at most':>8}  found")
    for case in CASES:
        found = {"case": case.name, **compare(made(directory, n, BEFORE), made(directory, n, case))}
        results.append(found)
        counts = ", ".join(f"{count:,} {status}" for status, count in found["counts"].items() if count)
        print(
            f"{case.name:<12} {n:>12,} {found['seconds']:>8.1f} {case.most_seconds:>8.0f} "
            f"{found['peak_bytes'] / 1e6:>8,.0f} {MOST_BYTES / 1e6:>8,.0f}  {counts}; "
            f"searched from {found['searched_from']}",
            flush=True,
        )
    return results


def compare(old: Path, new: Path) -> dict:
    """Run `mbe diff` in a process; return its wall time, including the start, and its largest resident set."""
    command = [
        sys.executable,
        "-c",
        "from mbe_stage.pipeline.cli.app import main; main()",
        "diff",
        str(old),
        str(new),
        "--json",
        "-q",
    ]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    said = json.loads(done.stdout.splitlines()[-1])
    return {
        "seconds": seconds,
        "peak_bytes": said["peak_memory_bytes"],
        "counts": said["counts"],
        "searched_from": said["searched_from"],
    }


def made(directory: Path, n: int, case: Case) -> Path:
    path = directory / f"{n}-{case.name.replace(' ', '-').replace('%', 'percent')}"
    if not (path / "manifest.json").is_file():
        make_run(path, n, case)
    return path


def make_run(path: Path, n: int, case: Case) -> None:
    """Write the tables that a comparison reads, and a manifest."""
    path.mkdir(parents=True)
    keys = pa.array(np.arange(N_LEFT) * 7 + 11), pa.array([f"page {i:06d}" for i in range(N_RIGHT)])
    hashes = key_hashes(keys[0], "left"), key_hashes(keys[1], "right")
    fingerprint = Fingerprint()
    writer = PartWriter(PartNames(path / "bicliques"), BICLIQUES, "zstd")
    for number, first in enumerate(range(0, n, BLOCK)):
        block = groups(number, min(BLOCK, n - first), case)
        block_keys = biclique_keys(block, *hashes)
        fingerprint.add(block_keys)
        writer.write(ROWS.batch(block, block_keys))
    writer.close()
    for side, side_keys in zip(("left", "right"), keys, strict=True):
        zeros = pa.array(np.zeros(len(side_keys), np.int64))
        columns = [pa.array(np.arange(len(side_keys), dtype=np.int32)), side_keys, *[zeros] * 5]
        write_table(pa.table(columns, schema=vertices(side_keys.type)), path / f"{side}_vertices.parquet", "zstd")
    config = Config()
    manifest = Manifest(
        run_id=path.name,
        created_at="2026-11-22T06:00:00+00:00",
        config=config,
        config_fingerprint=config_fingerprint(config),
        input=InputFacts("made", "made", 0, 0, 0, 0, 0, N_LEFT, N_RIGHT, 0, "0-0"),
        content_fingerprint=str(fingerprint),
        versions={},
        engine="none",
        device="none",
        counts=Counts(bicliques=n, left_members=0, right_members=0, sizes=0, max_left=0, max_right=0, max_edges=0),
        seconds={},
        peak_memory_bytes=0,
        peak_device_memory_bytes=None,
        truncated=None,
        files=(),
    )
    write_manifest(path, manifest)


def groups(number: int, n: int, case: Case) -> BicliqueBlock:
    """Return groups that depend only on the number, except the changed ones."""
    before = np.random.default_rng(number)
    sides = [_side(before, n, n_vertices) for n_vertices in (N_LEFT, N_RIGHT)]
    dice = np.random.default_rng(10**6 + number)
    differ = dice.random(n) < case.changed
    redrawn = differ & (dice.random(n) < case.redrawn)
    which_side = dice.integers(0, 3, n)
    for at, n_vertices in enumerate((N_LEFT, N_RIGHT)):
        fresh = _side(dice, n, n_vertices)
        sides[at] = np.where(redrawn[:, None], fresh, sides[at])
        # One side, the other, or both.
        sides[at] = _exchange(dice, sides[at], differ & ~redrawn & (which_side != at), n_vertices)
    sizes, members = zip(*map(_as_lists, sides), strict=True)
    return BicliqueBlock(n, sizes[0], sizes[1], members[0], members[1])


def _side(dice: np.random.Generator, n: int, n_vertices: int) -> np.ndarray:
    """Return (n, SIZES[1] + 2) ids, -1 for none."""
    width = SIZES[1] + 2
    ids = (n_vertices * dice.random((n, width)) ** 2).astype(np.int64)
    ids[np.arange(width) >= dice.integers(SIZES[0], SIZES[1] + 1, n)[:, None]] = -1
    return ids


def _exchange(dice: np.random.Generator, ids: np.ndarray, chosen: np.ndarray, n_vertices: int) -> np.ndarray:
    """Add one or two members, or remove one, in the chosen rows."""
    lose = chosen & (dice.random(chosen.size) < 0.4)
    gain = chosen & ~lose
    ids[lose, 0] = -1
    ids[gain, -1] = dice.integers(0, n_vertices, int(gain.sum()))
    twice = gain & (dice.random(chosen.size) < 0.3)
    ids[twice, -2] = dice.integers(0, n_vertices, int(twice.sum()))
    return ids


def _as_lists(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and members, ascending and distinct."""
    ids = np.sort(ids, axis=1)
    kept = ids >= 0
    kept[:, 1:] &= ids[:, 1:] != ids[:, :-1]
    return kept.sum(axis=1).astype(np.int32), ids[kept].astype(np.int32)


if __name__ == "__main__":
    main()
