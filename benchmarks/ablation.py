"""Ablation of the CPU engine: time and visited nodes with each technique left out in turn.

``python -m benchmarks.ablation [--problem cliques] [GRAPH ...]`` prints the table (one thread, counting, the best of
the repeats). Every variant is compiled into its own cache, one per core at once, and then counts in its own process,
one at a time. A variant that exceeds ``--limit`` seconds is shown as above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.cliques import GRAPHS as CLIQUE_GRAPHS
from benchmarks.cliques import graph_path
from benchmarks.graphs import find_graph
from benchmarks.table import markdown_table
from mbe_stage.bicliques.cpu.techniques import TECHNIQUES
from mbe_stage.cliques.cpu.techniques import TECHNIQUES as CLIQUE_TECHNIQUES
from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import exit_code

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class _Subject:
    """An engine whose techniques can be left out.

    Attributes
    ----------
    problem : str
    variable : str
        Environment variable that names the omitted techniques.
    techniques : mapping of str to str
    graphs : tuple of str
        Graphs of the table.
    path_of : callable
        Returns the file of a graph's name or of a path.
    """

    problem: str
    variable: str
    techniques: Mapping[str, str]
    graphs: tuple[str, ...]
    path_of: Callable[[str], Path]


_SUBJECTS = {
    each.problem: each
    for each in (
        _Subject(
            "bicliques",
            "MBE_CPU_WITHOUT",
            TECHNIQUES,
            ("movielens_ti", "marvel", "mushroom", "github_half", "BMS_WebView2", "youtube"),
            lambda name: find_graph(name)[0],
        ),
        _Subject("cliques", "MBE_CLIQUES_WITHOUT", CLIQUE_TECHNIQUES, tuple(CLIQUE_GRAPHS)[:-1], graph_path),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a variant counted wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__.split("\n", 1)[0])
    parser.add_argument("graphs", nargs="*", help="names of benchmarks/graphs.py or benchmarks/cliques.py, or files")
    parser.add_argument("--problem", default="bicliques", choices=tuple(_SUBJECTS))
    parser.add_argument("--without", nargs="+", metavar="TECHNIQUE", help="all of the problem by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    options = parser.parse_args(arguments)
    subject = _SUBJECTS[options.problem]
    techniques = options.without or tuple(subject.techniques)
    if unknown := set(techniques) - set(subject.techniques):
        parser.error(f"--without {', '.join(sorted(unknown))}: expected some of {', '.join(subject.techniques)}")
    meter, before = machine.IdlenessMeter(), machine.calibrate()
    try:
        paths = [subject.path_of(name) for name in options.graphs or subject.graphs]
        variants = _variants(subject, ("", *techniques), paths, options.repeats, options.limit)
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    idleness = meter.read()
    doubts = machine.why_not_idle(idleness, before, machine.calibrate())
    facts: dict[str, Any] = {"machine": machine.describe(), "doubts": doubts, "variants": variants}
    print(_table(subject, variants, [path.stem for path in paths]))
    what = facts["machine"]
    print(f"\n{what['processor']}, {what['date']}, commit {what['commit'] or 'unknown'}")
    print(f"calibration {before.one_thread:.3f} s")
    print("idle " + (f"NO: {'; '.join(doubts)}" if doubts else "yes"))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    wrong = _wrong(subject, variants)
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _variants(
    subject: _Subject, techniques: Sequence[str], paths: Sequence[Path], repeats: int, limit: float
) -> dict[str, dict[str, Any]]:
    """Return the result of `_variant` for each technique; an empty name is the unchanged engine."""
    with tempfile.TemporaryDirectory(prefix="mbe-ablation-") as directory:
        caches = {technique: f"{directory}/{number}" for number, technique in enumerate(techniques)}
        print(f"compiling {len(caches)} variants", file=sys.stderr, flush=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda one: _variant(subject, one, caches[one], (), 0, limit), techniques))
        variants = {}
        for technique in techniques:
            print(f"without {technique or 'nothing'}", file=sys.stderr, flush=True)
            variants[technique] = _variant(subject, technique, caches[technique], paths, repeats, limit)
        return variants


def _variant(
    subject: _Subject, technique: str, cache: str, paths: Sequence[Path], repeats: int, limit: float
) -> dict[str, Any]:
    """Return seconds, results and visited nodes by graph name; without graphs it only compiles."""
    environment = {**os.environ, subject.variable: technique, "NUMBA_CACHE_DIR": cache}
    asked = [subject.problem, str(repeats), str(limit), *map(str, paths)]
    command = [sys.executable, "-m", "benchmarks.ablation_run", *asked]
    done = subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageError(f"the search without {technique or 'nothing'} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _table(subject: _Subject, variants: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
    lines = []
    for technique, figures in variants.items():
        cells = [f"without {technique}" if technique else "all techniques"]
        for name in names:
            seconds, nodes = figures[name]["seconds"], figures[name]["nodes"]
            base = variants[""][name]
            if figures[name]["truncated"]:
                cells.append(f"> {seconds:.0f} s")
            elif technique:
                cells.append(f"{seconds / base['seconds']:.2f} x, {nodes / base['nodes']:.2f} x")
            else:
                cells.append(f"{seconds:.3f} s, {nodes / figures[name]['found']:.2f}")
        lines.append(cells)
    one = subject.problem.removesuffix("s")
    heading = f"first row: seconds, visited nodes per {one}; below: time and nodes as multiples of that\n\n"
    return heading + markdown_table(["variant", *names], lines, 1)


def _wrong(subject: _Subject, variants: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"{name} without {technique}: {figures['found']:,} {subject.problem}, not {variants[''][name]['found']:,}"
        for technique, by_name in variants.items()
        for name, figures in by_name.items()
        if not figures["truncated"] and figures["found"] != variants[""][name]["found"]
    ]


if __name__ == "__main__":
    sys.exit(main())
