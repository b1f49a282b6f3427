"""Writing of results without an engine: generated blocks go to the sink that publishes bicliques.

``python -m benchmarks.writers`` prints two tables for each kind of results. The first has the processor seconds that
one thread needs for a gigabyte of members, step by step. The second has the whole sink with several numbers of
encoders: wall seconds, gigabytes per second and processor seconds of the process. A serial part shows there as a wall
time that more encoders do not shorten.

- ``books``: families of bicliques that share members, with the sizes and the compressibility of bookcrossing.
- ``ties``: small bicliques, all of the same size.
- ``wide``: few results of a graph with 2 million left and 8 million right vertices.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline.backends.arrow import block_writer
from mbe_stage.pipeline.backends.arrow.parts import PartNames, PartWriter
from mbe_stage.pipeline.problems.bicliques.arrow import ROWS, ParquetSink, Summary
from mbe_stage.pipeline.problems.bicliques.largest import Largest

_BLOCK_BYTES = 16 << 20
# This many blocks are generated and fed repeatedly, each time as a copy in new memory.
_N_BLOCKS = 16
_FAMILY = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of results.

    Attributes
    ----------
    n_left, n_right : int
        Vertices.
    width : int or None
        Vertices on each side of a family of bicliques. Each of them has a quarter of these. None: bicliques of two by
        two.
    gigabytes : float
        Bytes of members that are written.
    """

    n_left: int
    n_right: int
    width: int | None
    gigabytes: float


KINDS = {
    "books": Kind(105_278, 340_516, 27, 3.1),
    "ties": Kind(105_278, 340_516, None, 3.1),
    "wide": Kind(2_000_000, 8_000_000, 27, 0.5),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"kinds of results: {', '.join(KINDS)}; all by default")
    parser.add_argument("--encoders", default="1,2", help="numbers of encoders, such as 1,8,64")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory by default")
    parser.add_argument("--compression", default="zstd")
    parser.add_argument("--share", type=float, default=1.0, help="share of each kind's results that is written")
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    print(f"{len(os.sched_getaffinity(0))} cores, files in {options.directory or tempfile.gettempdir()}")
    for name in options.kinds or KINDS:
        kind = KINDS[name]
        blocks = _blocks(kind, _N_BLOCKS)
        hashes = _hashes(kind.n_left), _hashes(kind.n_right)
        n_bytes = _bytes_of(blocks) / len(blocks)
        print(f"\n{name}: blocks of {len(blocks[0]):,} bicliques, {n_bytes / 1e6:.1f} MB of members")
        print(f"{'step':<28}{'user s/GB':>10}{'system':>8}")
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            for step, user, system in _steps(kind, blocks, hashes, Path(directory)):
                print(f"{step:<28}{user:>10.2f}{system:>8.2f}", flush=True)
        n_fed = max(1, round(options.share * kind.gigabytes * 1e9 / n_bytes))
        print(f"{'encoders':<10}{'wall s':>8}{'GB/s':>7}{'user s/GB':>11}{'system':>8}{'feeding':>9}{'written':>9}")
        for n_encoders in map(int, options.encoders.split(",")):
            with tempfile.TemporaryDirectory(dir=options.directory) as directory:
                print(_whole(blocks, hashes, n_fed, n_encoders, options.compression, Path(directory)), flush=True)


def _steps(
    kind: Kind, blocks: list[BicliqueBlock], hashes: tuple[np.ndarray, np.ndarray], directory: Path
) -> Iterator[tuple[str, float, float]]:
    """Yield each step of an encoder with its seconds per gigabyte, in this thread only."""
    summary, largest = Summary(kind.n_left, kind.n_right, 0), Largest()
    named = [(block, biclique_keys(block, *hashes)) for block in blocks]
    edges = [block.left_sizes.astype(np.int64) * block.right_sizes for block in blocks]
    summary.add(*named[0])
    batches = [ROWS.batch(*each) for each in named]

    def parts(compression: str) -> None:
        writer = PartWriter(PartNames(directory / compression), ROWS.schema, compression)
        for batch in batches:
            writer.write(batch)
        writer.close()
        shutil.rmtree(directory / compression)

    steps: dict[str, Callable[[], object]] = {
        "copy in new memory": lambda: [_copied(block) for block in blocks],
        "keys": lambda: [biclique_keys(block, *hashes) for block in blocks],
        "sums": lambda: [summary.add(*each) for each in named],
        "list of the largest": lambda: [
            largest.add(block, n_edges, keys) for (block, keys), n_edges in zip(named, edges, strict=True)
        ],
        "rows": lambda: [ROWS.batch(*each) for each in named],
        "Parquet, no compression": lambda: parts("none"),
        "Parquet, zstd": lambda: parts("zstd"),
    }
    for name, step in steps.items():
        step()
        before = _thread_seconds()
        step()
        user, system = (_thread_seconds() - before) / (_bytes_of(blocks) / 1e9)
        yield name, user, system


def _whole(
    blocks: list[BicliqueBlock],
    hashes: tuple[np.ndarray, np.ndarray],
    n_fed: int,
    n_encoders: int,
    compression: str,
    directory: Path,
) -> str:
    """Return a row of the second table."""
    block_writer.most_encoders = lambda _: n_encoders
    run_path, fed = directory / "run", 0
    run_path.mkdir()
    began, before, feeding = time.perf_counter(), os.times(), 0.0
    with ParquetSink(run_path, *hashes, compression=compression, block_bytes=_BLOCK_BYTES) as sink:
        for block in itertools.islice(itertools.cycle(blocks), n_fed):
            start = time.thread_time()
            sink.accept(_copied(block))
            feeding += time.thread_time() - start
            fed += block.left_members.nbytes + block.right_members.nbytes
        sink.summary.vertex_statistics()
    wall, after, gigabytes = time.perf_counter() - began, os.times(), fed / 1e9
    written = sum(path.stat().st_size for path in run_path.rglob("*.parquet")) / fed
    return (
        f"{n_encoders:<10}{wall:>8.2f}{gigabytes / wall:>7.2f}{(after.user - before.user) / gigabytes:>11.2f}"
        f"{(after.system - before.system) / gigabytes:>8.2f}{feeding / gigabytes:>9.2f}{written:>9.2f}"
    )


def _blocks(kind: Kind, n_blocks: int) -> list[BicliqueBlock]:
    """Generate blocks of about `_BLOCK_BYTES` of sizes and members, with a fixed seed."""
    rng = np.random.default_rng(44)
    members = 4 if kind.width is None else kind.width // 2
    n_families = _BLOCK_BYTES // (4 * (2 + members)) // _FAMILY
    blocks = []
    for _ in range(n_blocks):
        left, right = (_side(rng, n, kind.width, n_families) for n in (kind.n_left, kind.n_right))
        blocks.append(BicliqueBlock(left[0].size, left[0], right[0], left[1], right[1]))
    return blocks


def _side(
    rng: np.random.Generator, n_vertices: int, width: int | None, n_families: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and members of one side of some families."""
    shape = n_families * _FAMILY, width or 2
    # Vertices of high degree are in many bicliques.
    families = np.sort((n_vertices * rng.random((n_families, width or 2)) ** 3).astype(np.int32) // 2, axis=1)
    lists = np.repeat(families + np.arange(width or 2, dtype=np.int32), _FAMILY, axis=0)
    # Two consecutive ones share their members on this side, as neighbours in a search tree do.
    half = shape[0] // 2, shape[1]
    chosen = np.ones(shape, bool) if width is None else np.repeat(rng.random(half) < 0.25, 2, axis=0)
    chosen[:, 0] |= ~chosen.any(axis=1)
    return chosen.sum(axis=1, dtype=np.int32), lists[chosen]


def _copied(block: BicliqueBlock) -> BicliqueBlock:
    arrays = block.left_sizes, block.right_sizes, block.left_members, block.right_members
    return BicliqueBlock(len(block), *(array.copy() for array in arrays))


def _hashes(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**63, n, dtype=np.uint64)


def _bytes_of(blocks: Sequence[BicliqueBlock]) -> int:
    return sum(block.left_members.nbytes + block.right_members.nbytes for block in blocks)


def _thread_seconds() -> np.ndarray:
    """Return the processor seconds of this thread: user and system."""
    import resource

    used = resource.getrusage(resource.RUSAGE_THREAD)
    return np.array([used.ru_utime, used.ru_stime])


if __name__ == "__main__":
    main()
