"""What each technique of the CPU engine is worth: switched off in turn, time and visited nodes.

``python -m benchmarks.ablation [GRAPH ...]`` prints the table (one thread, counting, the best of the repeats). Every
variant is compiled into a cache of its own and counted in a process of its own; a variant that is not done after
``--limit`` seconds shows how far above that it is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.graphs import find_graph
from benchmarks.table import markdown_table
from mbe_stage.bicliques.cpu.techniques import TECHNIQUES
from mbe_stage.errors import StageError
from pipeline.errors import exit_code

__all__ = ["main"]

_GRAPHS = ("movielens_ti", "marvel", "mushroom", "github_half", "BMS_WebView2", "youtube")
_ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code is 1 where a variant counted wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__.split("\n", 1)[0])
    parser.add_argument("graphs", nargs="*", default=_GRAPHS, help="names of benchmarks/graphs.py, or files")
    parser.add_argument("--without", nargs="+", default=tuple(TECHNIQUES), choices=tuple(TECHNIQUES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    options = parser.parse_args(arguments)
    meter, before = machine.IdlenessMeter(), machine.calibrate()
    try:
        paths = [find_graph(name)[0] for name in options.graphs]
        variants = {"": _variant("", paths, options.repeats, options.limit)}
        for technique in options.without:
            print(f"without {technique}", file=sys.stderr, flush=True)
            variants[technique] = _variant(technique, paths, options.repeats, options.limit)
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    idleness = meter.read()
    doubts = machine.why_not_idle(idleness, before, machine.calibrate())
    facts: dict[str, Any] = {"machine": machine.describe(), "doubts": doubts, "variants": variants}
    print(_table(variants, [path.stem for path in paths]))
    what = facts["machine"]
    print(f"\n{what['processor']}, {what['date']}, commit {what['commit'] or 'unknown'}")
    print(f"calibration {before.one_thread:.3f} s")
    print("idle " + (f"NO: {'; '.join(doubts)}" if doubts else "yes"))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    wrong = _wrong(variants)
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _variant(technique: str, paths: Sequence[Path], repeats: int, limit: float) -> dict[str, Any]:
    """Seconds, bicliques and visited nodes of each graph, by its name; the first graph also warms up."""
    with tempfile.TemporaryDirectory(prefix="mbe-ablation-") as cache:
        environment = {**os.environ, "MBE_CPU_WITHOUT": technique, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "benchmarks.ablation_run", str(repeats), str(limit), *map(str, paths)]
        done = subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageError(f"the search without {technique or 'nothing'} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _table(variants: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
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
                cells.append(f"{seconds:.3f} s, {nodes / figures[name]['bicliques']:.2f}")
        lines.append(cells)
    heading = "first row: seconds, visited nodes per biclique; below: time and nodes as multiples of that\n\n"
    return heading + markdown_table(["variant", *names], lines, 1)


def _wrong(variants: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"{name} without {technique}: {figures['bicliques']:,} bicliques, not {variants[''][name]['bicliques']:,}"
        for technique, by_name in variants.items()
        for name, figures in by_name.items()
        if not figures["truncated"] and figures["bicliques"] != variants[""][name]["bicliques"]
    ]


if __name__ == "__main__":
    sys.exit(main())
