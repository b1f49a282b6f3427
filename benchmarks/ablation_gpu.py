"""Ablation of the CUDA engine: time and visited nodes with each technique left out in turn.

``python -m benchmarks.ablation_gpu [GRAPH ...]`` prints the table. Times are the kernel's, the best of the repeats
after one that compiles it; a visited node is a closed-set bitmap, an opened bitset frame or a list child. A variant
ends after ``--limit`` seconds. ``EuAll:2x2`` counts the bicliques of at least these sizes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_gpu import device_facts, graph_on_device
from mbe_stage import BicliqueQuery, BipartiteCSR, Execution
from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.results import Detail

__all__ = ["main"]

_GRAPHS = ("marvel", "BMS_WebView2", "mushroom", "retail", "youtube", "lastfm_tag_artist", "EuAll")
_GRAPHS += ("youtube:2x2", "EuAll:2x2")
_NAMES = tuple(field.name for field in fields(Techniques))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a variant counts wrong, 4 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation_gpu", description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "graphs", nargs="*", default=_GRAPHS, help="names of graphs of bench_gpu, with smallest sizes or without"
    )
    parser.add_argument("--without", nargs="*", default=_NAMES, choices=_NAMES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--commit", help="what to call the commit where there is no repository")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    options = parser.parse_args(arguments)
    reason = engine_cuda.unavailable_reason()
    if reason:
        print(f"error: no CUDA engine here: {reason}", file=sys.stderr)
        return 4
    names = ("", *options.without)
    with ProcessPoolExecutor(len(names), multiprocessing.get_context("spawn")) as processes:
        # Each compiles for half a minute and leaves the kernel in Numba's cache.
        list(processes.map(_compile, names))
    graphs = {name: graph_on_device(name.partition(":")[0]) for name in options.graphs}
    variants: dict[str, dict[str, Any]] = {}
    for name in names:
        print(f"without {name or 'nothing'}", file=sys.stderr, flush=True)
        variants[name] = {
            key: _best(graph, _query(key), _techniques(name), options.repeats, options.limit)
            for key, graph in graphs.items()
        }
    facts = device_facts(options.commit)
    print(_table(variants, list(graphs)))
    print(f"\n{facts['device']}, {facts['date']}, commit {facts['commit']}")
    if options.json:
        options.json.write_text(json.dumps(facts | {"variants": variants}, indent=2) + "\n", encoding="utf-8")
    wrong = [text for name in variants for text in _wrong(name, variants)]
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _techniques(left_out: str) -> Techniques:
    return Techniques.without(left_out) if left_out else Techniques()


def _query(name: str) -> BicliqueQuery:
    """Return the sizes in a graph's name, as 2x3."""
    left, _, right = name.partition(":")[2].partition("x")
    return BicliqueQuery(min_left=int(left), min_right=int(right)) if right else BicliqueQuery()


def _compile(left_out: str) -> None:
    """Run the variant on the smallest graph, in a separate process."""
    for query in (BicliqueQuery(), BicliqueQuery(min_left=2)):
        _count(BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 1]), query, _techniques(left_out), 1.0)


def _best(
    graph: BipartiteCSR, query: BicliqueQuery, techniques: Techniques, repeats: int, limit: float
) -> dict[str, Any]:
    """Return the fastest run's figures after a warm-up; the first run that exceeds the limit ends it."""
    runs: list[dict[str, Any]] = []
    while len(runs) <= repeats and not (runs and runs[-1]["truncated"]):
        runs.append(_count(graph, query, techniques, limit))
    return min(runs[1:] or runs, key=lambda run: run["seconds"])


def _count(graph: BipartiteCSR, query: BicliqueQuery, techniques: Techniques, limit: float) -> dict[str, Any]:
    facts: dict[str, float] = {}
    n_bicliques, n_slices, truncated = 0, 0, False
    blocks = engine_cuda.run(
        graph, query, Execution(), Detail.COUNT, statistics=facts, techniques=techniques
    )  # fmt: skip
    with closing(blocks):  # type: ignore[type-var]
        for block in blocks:
            n_bicliques += block.n_bicliques
            n_slices += 1
            # A time quantum is half a second.
            truncated = n_slices > 2 * limit and block.work_done < 1.0
            if truncated:
                break
    return {
        "seconds": limit if truncated else facts["kernel_ms"] / 1e3,
        "bicliques": n_bicliques,
        "nodes": 0 if truncated else sum(int(facts[key]) for key in ("closed_sets", "opened", "list_children")),
        "truncated": truncated,
    }


def _table(variants: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
    lines = []
    for technique, figures in variants.items():
        cells = [f"without {technique}" if technique else "all techniques"]
        for name in names:
            here, base = figures[name], variants[""][name]
            if here["truncated"]:
                cells.append(f"> {here['seconds']:.0f} s")
            elif technique:
                cells.append(f"{here['seconds'] / base['seconds']:.2f} x, {here['nodes'] / base['nodes']:.2f} x")
            else:
                cells.append(f"{1e3 * here['seconds']:.2f} ms, {here['nodes'] / here['bicliques']:.2f}")
        lines.append(cells)
    table = [["variant", *names], *lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(names) + 1)]
    rows = [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in table
    ]
    heading = "first row: kernel time, visited nodes per biclique; below: time and nodes as multiples of that\n\n"
    return heading + "\n".join(rows)


def _wrong(technique: str, variants: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"{name} without {technique}: {figures['bicliques']:,} bicliques, not {variants[''][name]['bicliques']:,}"
        for name, figures in variants[technique].items()
        if not figures["truncated"] and figures["bicliques"] != variants[""][name]["bicliques"]
    ]


if __name__ == "__main__":
    sys.exit(main())
