"""Run the CUDA engine under compute-sanitizer's tools: ``python -m tests.mbe_stage.sanitized_cuda [TOOL...]``.

Small graphs, few warps, and so little memory that stacks, pool and output grow; then group candidates, counts and
cliques. Needs a GPU and compute-sanitizer. The tools run side by side, each in its own process. Prints a line per tool,
in the order given, and exits with 1 if one found an error.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np
import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, CliqueQuery, Execution, UndirectedCSR
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.cuda import device_memory, prepare
from mbe_stage.bicliques.cuda import session as biclique_session
from mbe_stage.bicliques.results import Detail
from mbe_stage.cliques import engine_cuda as clique_engine
from mbe_stage.cliques import reference as clique_reference
from mbe_stage.cliques.cuda import session as clique_session
from mbe_stage.cliques.cuda.techniques import Techniques as CliqueTechniques
from mbe_stage.cliques.results import Detail as CliqueDetail
from mbe_stage.pq_counts import engine_cpu as counting_on_the_host
from mbe_stage.pq_counts import engine_cuda as counting_engine
from mbe_stage.pq_counts.cuda import session as counting_session
from mbe_stage.pq_counts.cuda.local import session as local_session
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail as CountDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.search.cuda import session as search_session
from tests.mbe_stage.groups import device_checks
from tests.mbe_stage.groups.random_graphs import blocks_of, keyed
from tests.mbe_stage.pq_counts.local_counting import counted, sums_hold
from tests.patience import completed

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PROBLEMS = ("bicliques", "groups", "counts", "local", "cliques")
# The last one has lists that the core copies in pieces.
SHAPES = (((300, 12), 0.5), ((60, 60), 0.1), ((6000, 4), 0.8))
# Masks of three rows, some columns at a time, in device memory, and in several windows of ranks.
SHAPES_OF_MASKS = (((100, 4000), 0.7), ((200, 3000), 0.45), ((5000, 40), 0.1))
QUERIES = (
    BicliqueQuery(),
    BicliqueQuery(min_left=2, min_right=3, containing_left=(1,)),
    BicliqueQuery(min_left=2, min_right=2),
    BicliqueQuery(min_left=3, min_right=4, min_edges=14),
)
ROOMY = {"n_blocks": 4, "words": 1 << 14, "nodes": 1 << 12}
TIGHT = {"n_blocks": 4, "words": 128, "nodes": 8, "quantum_seconds": 20.0}
TIGHT_OUTPUT = TIGHT | {"members": 1 << 14, "descriptors": 1 << 12, "chunk_members": 64}
TIGHT_COUNTING = {"n_blocks": 4, "narrow": 6, "pool_words": 64, "n_nodes": 2, "quantum_seconds": 20.0}
TIGHT_LOCAL = {"n_blocks": 4, "narrow": 12, "pool_words": 4096, "n_nodes": 8, "quantum_seconds": 20.0}
TIGHT_CLIQUES = {"n_blocks": 4, "narrow": 12, "pool_words": 256, "n_nodes": 4, "quantum_seconds": 20.0}
TIGHT_PAGES = TIGHT_CLIQUES | {"members": 2000, "cliques": 200, "page_members": 90, "page_cliques": 16}
_ALL = CliqueTechniques()
_OPTIONS = {
    # It warns of CuPy's scan in `flatnonzero`, outside this project. initcheck must see CuPy's kernels, or it would
    # take their output for uninitialised.
    "racecheck": ("--kernel-name-exclude", "kernel_substring=cupy_"),
}


def main() -> int:
    """Run the tools or, under one of them, the work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"of {', '.join(TOOLS)}; all of them by default")
    parser.add_argument("--of", nargs="*", default=PROBLEMS, choices=PROBLEMS, help="whose kernels; all by default")
    parser.add_argument("--seconds", type=float, default=500.0, help="after which a tool is given up")
    parser.add_argument("--work", choices=TOOLS, help="what is run under a tool")
    options = parser.parse_args()
    if options.work == "initcheck":
        # Stacks and frames have gaps and are moved as a whole. First nothing moves, then something is in the gaps.
        if "bicliques" in options.of:
            work(ROOMY, ROOMY)
        if "cliques" in options.of:
            find_cliques({"n_blocks": 4}, CliqueTechniques.without("donation"))
        sessions = (biclique_session, counting_session, search_session, local_session, clique_session)
        for module in (device_memory, *sessions):
            module.cp = _Filled()
    if options.work:
        tight = (
            lambda: work(TIGHT, TIGHT_OUTPUT),
            keep_candidates,
            count_cells,
            add_local_counts,
            lambda: find_cliques(TIGHT_PAGES),
        )
        for problem, do in zip(PROBLEMS, tight, strict=True):
            if problem in options.of:
                do()
        return 0
    tools = options.tools or TOOLS
    worst = 0
    with ThreadPoolExecutor(len(tools)) as threads:
        reports = threads.map(lambda tool: _sanitize(tool, options.of, options.seconds), tools)
        for tool, (is_clean, report) in zip(tools, reports, strict=True):
            print(f"{tool}: {report}", flush=True)
            worst |= not is_clean
    return worst


class _Filled:
    """CuPy with zero-filled new arrays."""

    def __getattr__(self, name: str) -> Any:
        return getattr(cp, "zeros" if name == "empty" else name)


def work(sizes_to_count: dict[str, Any], sizes_to_write: dict[str, Any]) -> None:
    """Enumerate small graphs in every mode; compare the numbers with the reference."""
    # Columns are sorted if members are not written.
    prepare.LONG_ROW, prepare.LONG_SHARE = 2, 1 << 30
    for seed, (shape, density) in enumerate(SHAPES):
        graph = BipartiteCSR.from_edges(*np.nonzero(np.random.default_rng(seed).random(shape) < density))
        pairs = list(reference.maximal_bicliques(graph))
        for query in QUERIES:
            wanted = sum(reference.matches(*pair, query) for pair in pairs)
            for detail in Detail:
                sizes = sizes_to_count if detail == Detail.COUNT else sizes_to_write
                blocks = engine_cuda.run(graph, query, Execution(), detail, sizes=sizes)
                found = sum(block.n_bicliques for block in blocks)
                assert found == wanted, (shape, query, detail, found, wanted)


def keep_candidates() -> None:
    """Feed the group sink the same graphs, compact its pool several times and compare with the host's."""
    for seed, (shape, density) in enumerate(SHAPES):
        rng = np.random.default_rng(seed)
        graph = BipartiteCSR.from_edges(*np.nonzero(rng.random(shape) < density))
        assert device_checks.check(graph, list(blocks_of(keyed(graph), rng)), 5)


def count_cells() -> None:
    """Count the same graphs in every mode, with a growing pool, for two and three rows; compare with the host's."""
    queries = PqQuery(1, 4, 1, 4), PqQuery.of(2, 2), PqQuery.of(3, 3)
    of_masks = ((PqQuery.of(3, 3), each) for each in enumerate(SHAPES_OF_MASKS, len(SHAPES)))
    for query, (seed, (shape, density)) in (*itertools.product(queries, enumerate(SHAPES)), *of_masks):
        graph = BipartiteCSR.from_edges(*np.nonzero(np.random.default_rng(seed).random(shape) < density))
        sink, wanted = PqSink(query), PqSink(query)
        options = {"sizes": TIGHT_COUNTING, "techniques": Techniques(layer_choice=seed < len(SHAPES))}
        for block in counting_engine.run(graph, query, Execution(), CountDetail.COUNTS, **options):
            sink.accept(block)
        for block in counting_on_the_host.run(graph, query, Execution(), CountDetail.COUNTS):
            wanted.accept(block)
        assert sink.counts() == wanted.counts(), (query, shape, sink.counts())


def add_local_counts() -> None:
    """Add local counts of the same graphs, for edges and for vertices only, in frames and wider nodes."""
    query = PqQuery.of(3, 3)
    for seed, (shape, density) in enumerate(SHAPES):
        graph = BipartiteCSR.from_edges(*np.nonzero(np.random.default_rng(seed).random(shape) < density))
        for detail in (CountDetail.VERTICES, CountDetail.EDGES):
            execution = Execution(device_memory_bytes=1 << 30)
            found = counted(counting_engine, graph, query, detail, execution, sizes=TIGHT_LOCAL)
            assert sums_hold(graph, *found), (shape, detail)


def find_cliques(sizes: dict[str, Any], techniques: CliqueTechniques = _ALL) -> None:
    """Find cliques of a graph, in frames and wider nodes, in every mode; compare with the reference."""
    matrix = np.random.default_rng(5).random((60, 60)) < 0.3
    graph = UndirectedCSR.from_edges(*np.nonzero(matrix), n=60)
    cliques = clique_reference.maximal_cliques(graph)
    for query in (CliqueQuery(), CliqueQuery(3, 6)):
        wanted = sum(clique_reference.matches(one, query) for one in cliques)
        for detail in CliqueDetail:
            blocks = clique_engine.run(graph, query, Execution(), detail, sizes=sizes, techniques=techniques)
            found = sum(block.n_cliques for block in blocks)
            assert found == wanted, (query, detail, found, wanted)


def _sanitize(tool: str, problems: Sequence[str], seconds: float) -> tuple[bool, str]:
    """Run the work under a tool; return whether it found no error, and its output."""
    # Numba and CuPy probe the driver; those errors are not theirs.
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "1"]
    itself = [sys.executable, "-m", "tests.mbe_stage.sanitized_cuda"]
    try:
        done = completed(
            [*command, *_OPTIONS.get(tool, ()), *itself, "--work", tool, "--of", *problems],
            cwd=Path(__file__).parents[2],
            patience=seconds,
        )
    except pytest.fail.Exception as hangs:
        return False, str(hangs)
    summaries = re.findall(r"={9} ((?:ERROR|RACECHECK) SUMMARY.*)", done.stdout)
    report = "; ".join(summaries) or "no summary"
    if done.returncode or not summaries:
        return False, f"{report}\n{(done.stdout + done.stderr)[-4000:]}"
    return True, report


if __name__ == "__main__":
    sys.exit(main())
