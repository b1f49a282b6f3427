"""``make bench``: count time, write time and memory on the benchmark graphs, compared with published programs.

``python -m benchmarks.bench --help`` lists the options; README.md explains how to get the graphs and how to read the
table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    # When run as a file, Python looks for packages next to the file, not next to its folder.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import machine
from benchmarks.graphs import GRAPHS, data_directory, find_graph
from benchmarks.measuring import Row, Settings, compiled_afresh, measure_graph
from benchmarks.peers import AT_MOST_SECONDS
from benchmarks.table import results_table, row_values, target_table
from benchmarks.targets import Target, geometric_mean, ratio_to_best, targets
from mbe_stage.errors import StageError
from mbe_stage.pipeline.errors import InputError, exit_code

__all__ = ["main"]

_QUICK_BICLIQUES = 250_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 0 if every count was right, 1 if one was wrong, or the code of the failure."""
    options = _parser().parse_args(arguments)
    try:
        names = _chosen(options)
        settings = _settings(options)
        rows, facts = _measured(names, settings)
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    found = targets(rows)
    _print(rows, found, facts, settings)
    if options.json:
        values = {
            **facts,
            "settings": asdict(settings),
            "graphs": list(map(row_values, rows)),
            "targets": list(map(asdict, found)),
        }
        options.json.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    wrong = [row.wrong for row in rows if row.wrong]
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n", 1)[0].replace("`", ""))
    add = parser.add_argument
    add("--graphs", nargs="+", metavar="NAME", help="of benchmarks/graphs.py, or files; by default the usual ones")
    add("--threads", type=_numbers, default=(1, 2), metavar="N,N", help="count with each, write with the first (1,2)")
    add("--repeats", type=_positive, metavar="N", help="counts, of which the median is taken (5)")
    add("--write-repeats", type=int, metavar="N", help="runs written, of which the median is taken (3); 0: none")
    add("--spend", type=float, default=180.0, metavar="SECONDS", help="after which no repeat is begun (180)")
    add("--engine", default="auto", help="auto, cpu, cuda or reference (auto)")
    add("--quick", action="store_true", help=f"once each, graphs up to {_QUICK_BICLIQUES:,} bicliques: a look only")
    add("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return value


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_positive(part) for part in text.split(",")))


def _settings(options: argparse.Namespace) -> Settings:
    usual = Settings(repeats=1, write_repeats=1) if options.quick else Settings()
    return Settings(
        threads=options.threads,
        repeats=usual.repeats if options.repeats is None else options.repeats,
        write_repeats=usual.write_repeats if options.write_repeats is None else max(0, options.write_repeats),
        spend_seconds=options.spend,
        engine=options.engine,
    )


def _chosen(options: argparse.Namespace) -> list[str]:
    """Return the requested graphs, by default the usual ones that exist; report the missing ones."""
    if options.graphs:
        for name in options.graphs:
            find_graph(name)
        return list(options.graphs)
    directory = data_directory()
    usual = [graph for graph in GRAPHS if graph.measured]
    if options.quick:
        usual = [graph for graph in usual if graph.n_bicliques is not None and graph.n_bicliques <= _QUICK_BICLIQUES]
    there = [graph.name for graph in usual if (directory / f"{graph.name}.npz").is_file()]
    missing = [graph.name for graph in usual if graph.name not in there]
    if not there:
        raise InputError.at(
            directory,
            found="none of the benchmark graphs",
            expected=", ".join(f"{name}.npz" for name in missing),
            remedy="set MBE_DATA to the directory that holds them, or see benchmarks/README.md; or --graphs FILE",
        )
    if missing:
        _say(f"not in {directory}, and left out: {', '.join(missing)}")
    return there


def _measured(names: Sequence[str], settings: Settings) -> tuple[list[Row], dict[str, Any]]:
    """Return the rows and the idleness of the machine meanwhile."""
    meter = machine.IdlenessMeter()
    _say("calibrating")
    before = machine.calibrate(settings.threads)
    _say("compiling")
    with compiled_afresh(settings) as environment:
        rows = [measure_graph(name, settings, environment, _say) for name in names]
    _say("calibrating again")
    after = machine.calibrate(settings.threads)
    idleness = meter.read()
    return rows, {
        "machine": machine.describe(),
        "calibration": {"before": asdict(before), "after": asdict(after)},
        "idleness": {**asdict(idleness), "doubts": machine.why_not_idle(idleness, before, after)},
    }


def _print(rows: Sequence[Row], found: Sequence[Target], facts: dict[str, Any], settings: Settings) -> None:
    print(results_table(rows))
    print()
    ratios = [ratio for row in rows if (ratio := ratio_to_best(row)) is not None]
    if ratios:
        print(f"ours / best: geometric mean {geometric_mean(ratios):.3f} over {len(ratios)} graphs")
    fewer = [f"{row.name} {row.fewest_repeats}" for row in rows if row.fewest_repeats < settings.repeats]
    print(f"median of {settings.repeats} counts" + (f", but {', '.join(fewer)} (--spend)" if fewer else ""))
    if found:
        print(f"\n{target_table(found)}\n")
        print(f"targets met: {sum(target.met for target in found)} of {len(found)} that these graphs can show")
    unseen = [name for name in AT_MOST_SECONDS if name not in {row.name for row in rows}]
    if unseen:
        print(f"not measured, though there is a target: {', '.join(unseen)}")
    print()
    for line in _machine_lines(facts, rows):
        print(line)


def _machine_lines(facts: dict[str, Any], rows: Sequence[Row]) -> list[str]:
    what, idle = facts["machine"], facts["idleness"]
    before, after = facts["calibration"]["before"], facts["calibration"]["after"]
    versions = ", ".join(f"{name} {version}" for name, version in what["versions"].items())
    memory = f"{what['memory_bytes'] / 1e9:.0f} GB"
    first = next(iter(rows[0].counts.values()))
    together = "".join(
        f"; {n} threads at once {seconds:.3f} s, {after['each_of_threads'][n]:.3f} s"
        for n, seconds in before["each_of_threads"].items()
    )
    return [
        f"date         {what['date']}, commit {what['commit'] or 'unknown'}",
        f"machine      {what['processor']}, {what['cores']} cores, {memory}, {what['system']}",
        f"engine       {first.engine}: {first.device}",
        f"versions     {versions}",
        f"calibration  before, after: 1 thread {before['one_thread']:.3f} s, {after['one_thread']:.3f} s{together}",
        f"load         before {_load(idle['load_before'])}; after {_load(idle['load_after'])} (1, 5, 15 min)",
        f"others       {_share(idle['others_share'])} of the processor; stolen {_share(idle['stolen_share'])}",
        "idle         " + (f"NO: {'; '.join(idle['doubts'])}" if idle["doubts"] else "yes"),
    ]


def _load(averages: Sequence[float] | None) -> str:
    return "unknown" if averages is None else ", ".join(f"{value:.2f}" for value in averages)


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
