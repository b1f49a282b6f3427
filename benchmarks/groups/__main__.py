"""Print the table of targets: for each line the target, our figure, and others'.

python -m benchmarks.groups [LINE ...] [--seeds N] [--all] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.groups import lines
from benchmarks.groups.final import final_lines
from benchmarks.groups.labelled import DEVELOPMENT, exit_without
from benchmarks.machine import describe

_MET = {True: "met", False: "NOT MET", None: "-"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; exit with 2 if graphs are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="*", metavar="LINE", help=f"some of: {', '.join(lines.LINES)}; default: all")
    parser.add_argument("--all", action="store_true", help="the labelled graphs beside those of development, once")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="of what is drawn (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every line")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.lines) - set(lines.LINES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(lines.LINES)}")
    exit_without(DEVELOPMENT)
    for name, value in describe().items():
        print(f"{name}: {value}")
    results = []
    for name in given.lines or lines.LINES:
        results += show(name, lines.LINES[name](given.seeds))
    if given.all:
        results += show("every other labelled graph, untuned", final_lines())
    asked = [line for line in results if line.met is not None]
    print(f"\n{sum(line.met for line in asked)} of {len(asked)} lines met")
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in results], indent=2) + "\n", encoding="utf-8")


def show(title, found) -> list[lines.Line]:
    """Print each line as soon as it is measured."""
    print(f"\n{title}", flush=True)
    begun = time.perf_counter()
    taken = []
    for line in found:
        taken.append(line)
        seconds = time.perf_counter() - begun
        print(f"{_MET[line.met]:<8} {line.target}  ({seconds:.1f} s)")
        for who, figure in (("ours", line.ours), ("others", line.others)):
            if figure:
                print(f"         {who:<8}{figure}")
        sys.stdout.flush()
        begun = time.perf_counter()
    return taken


if __name__ == "__main__":
    main()
